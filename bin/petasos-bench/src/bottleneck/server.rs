//! The server process: answers each request with its CRC-32, so that the client can verify that
//! every byte has arrived unchanged.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flate2::Crc;
use petasos_base::Clock;
use petasos_base::sync::Ordering;
use petasos_endpoint::{Context, Endpoint, Node, NodeConfig, Payload, Request};
use petasos_netio_udp::UdpIo;
use serde_json::json;

use super::{BottleneckArgs, CHECK, host};
use crate::error::BenchError;

/// Serves until the parent asks for the report, or the input ends.
pub fn run(args: &BottleneckArgs) -> Result<(), BenchError> {
    let words = host::join()?;
    let own: IpAddr = words.first().ok_or("no address")?.parse()?;
    let any = SocketAddr::new(own, 0);
    let node =
        Node::start(NodeConfig { listen: Some(any), plaintext: true, ..NodeConfig::default() })?;
    let io = UdpIo::bind(any, args.udp())?;
    let mut endpoint = Endpoint::new(args.endpoint(), io, Clock::system(), ());
    endpoint.register(CHECK, check);
    endpoint.attach(&node)?;
    host::say(&format!("ready {}", node.local_address().ok_or("the node does not listen")?))?;
    let asked = host::end_with_input();
    while !asked.load(Ordering::Relaxed) {
        // The flag does not wake a sleeping loop, so the timeout is short.
        endpoint.run_for(Duration::from_millis(20), |(), _| asked.load(Ordering::Relaxed));
    }
    let stats = endpoint.stats().server;
    let report = json!({ "requests": stats.requests, "duplicates": stats.duplicates });
    host::say(&format!("done {report}"))
}

fn check(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    let crc = crc(&request.payload);
    cx.respond_with(request.handle, &crc.to_le_bytes());
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

/// The server's answer to `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
