//! A server and a client in one file, over UDP.
//!
//! `cargo run -p petasos-endpoint --example hello`

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use petasos_endpoint::{
    Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Node, NodeConfig, Request,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

const GREET: u16 = 1;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The server's handler: plain bytes in, plain bytes out.
fn greet(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    let reply = [b"hello, ", &*request.payload].concat();
    cx.respond_with(request.handle, &reply);
}

/// The client's continuation: runs exactly once per call, with a response or an error.
fn on_reply(reply: &mut String, _: &mut Context<String>, done: Completion<'_>) {
    *reply = match done.result {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("failed: {error}"),
    };
}

/// An endpoint is one thread's event loop; a node is the process's place among others.
fn open<S>(node: &Node, state: S) -> Result<Endpoint<S>, Box<dyn Error>> {
    let io = UdpIo::bind(LOOPBACK, UdpConfig::default())?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), state);
    endpoint.attach(node)?;
    Ok(endpoint)
}

fn run() -> Result<(), Box<dyn Error>> {
    // The server. It could as well be another process on another host.
    let (ready, server_address) = channel();
    thread::spawn(move || {
        let listening = NodeConfig { listen: Some(LOOPBACK), ..NodeConfig::default() };
        let node = Node::start(listening).expect("loopback has free ports");
        let mut endpoint = open(&node, ()).expect("loopback has free ports");
        endpoint.register(GREET, greet);
        ready.send(node.local_address()).expect("the client waits");
        endpoint.run(|_, _| false);
    });
    let server = server_address.recv()?.ok_or("the server does not listen")?;

    // The client.
    let node = Node::start(NodeConfig::default())?;
    let mut endpoint = open(&node, String::new())?;
    let session = endpoint.connect_and_wait(server, Duration::from_secs(5))?;
    let request = MsgBuf::from_slice(b"world");
    let call = endpoint.context().enqueue_request(session, GREET, request, on_reply, 0);
    call.map_err(|refused| refused.error)?;
    endpoint.run(|reply, _| !reply.is_empty());
    println!("{}", endpoint.state());
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}
