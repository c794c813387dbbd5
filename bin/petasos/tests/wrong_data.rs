//! The demo against a server that changes one byte: a success would be a lie.
//!
//! The server is written against the library alone, from the table in the services'
//! documentation, so it also shows that the bytes are what the table says.

#![allow(clippy::unwrap_used, reason = "the server below is part of the test")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{
    Clock, Context, Endpoint, EndpointConfig, Node, NodeConfig, Payload, Request,
};
use petasos_netio_udp::{UdpConfig, UdpIo};
use support::{Folder, petasos};

const PUT: u16 = 2;
const GET: u16 = 3;
/// The key whose value comes back with one bit changed.
const SPOILT: u64 = 500;

type Values = HashMap<u64, Vec<u8>>;

struct Liar {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn start() -> Liar {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let loopback = "127.0.0.1:0".parse().unwrap();
            let config = NodeConfig { listen: Some(loopback), ..NodeConfig::default() };
            let node = Node::start(config).unwrap();
            let io = UdpIo::bind(loopback, UdpConfig::default()).unwrap();
            let config = EndpointConfig::default();
            let mut endpoint = Endpoint::new(config, io, Clock::system(), Values::new());
            endpoint.register(PUT, put);
            endpoint.register(GET, get);
            endpoint.attach(&node).unwrap();
            send.send(node.local_address().unwrap().to_string()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                endpoint.run_for(Duration::from_millis(10), |_, _| false);
            }
        });
        Liar { address: receive.recv().unwrap(), stop, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // If it panicked, its output says so, and the test fails for lack of a server.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn put(values: &mut Values, cx: &mut Context<Values>, request: Request<'_>) {
    let (key, value) = request.payload.split_first_chunk().unwrap();
    values.insert(u64::from_le_bytes(*key), value.to_vec());
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
    cx.respond_with(request.handle, &[0]);
}

fn get(values: &mut Values, cx: &mut Context<Values>, request: Request<'_>) {
    let key = u64::from_le_bytes(request.payload.as_slice().try_into().unwrap());
    let mut response = [&[0], values[&key].as_slice()].concat();
    if key == SPOILT {
        *response.last_mut().unwrap() ^= 0x20;
    }
    cx.respond_with(request.handle, &response);
}

#[test]
fn one_wrong_bit_fails_the_demo() {
    let folder = Folder::new("liar");
    let text: String = (0..2000).map(|number| format!("{number}\n")).collect();
    let (file, report) = (folder.file("text", text.as_bytes()), folder.path("report.html"));
    let liar = Liar::start();
    let args = ["demo", "--file", &file, "--report", &report, "--connect", &liar.address];
    let finished = petasos(&args);
    let line = finished.failure();
    assert!(line.contains("WRONG DATA: line 500 came back changed"), "{line}");
    assert!(line.contains("is 0x2a and was 0x0a"), "{line}");
    assert!(!std::fs::exists(report).unwrap(), "there is nothing to report");
    assert!(finished.stdout.is_empty(), "{finished:?}");
}
