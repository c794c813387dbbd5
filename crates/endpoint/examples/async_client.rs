//! Async calls from several threads through one endpoint.
//!
//! One thread turns the endpoint's loop; any other thread, on whatever executor, calls through a
//! `Client` and awaits. Here the executor is a few lines of the standard library.
//!
//! `cargo run -p petasos-endpoint --example async_client`

use std::error::Error;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};

use petasos_endpoint::{
    Client, ClientError, Clock, Context, Endpoint, EndpointConfig, Node, NodeConfig, Request,
    SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

const ECHO: u16 = 1;
const THREADS: usize = 4;
const CALLS: usize = 1000;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

/// Calls one after another, and checks that each answer is its own.
async fn work(client: &Client, session: SessionId, worker: usize) -> Result<usize, ClientError> {
    for number in 0..CALLS {
        let text = format!("call {number} of thread {worker}");
        let answer = client.call(session, ECHO, text.as_bytes()).await?;
        assert_eq!(answer.as_slice(), text.as_bytes());
    }
    Ok(CALLS)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (ready, started) = channel();
    thread::spawn(move || {
        let listening = NodeConfig { listen: Some(LOOPBACK), ..NodeConfig::default() };
        let node = Node::start(listening).expect("loopback has free ports");
        let mut endpoint = open(&node).expect("loopback has free ports");
        endpoint.register(ECHO, echo);
        ready.send(node.local_address()).expect("main waits");
        endpoint.run(|_, _| false);
    });
    let server = started.recv()?.ok_or("the server does not listen")?;

    // The loop that all clients share.
    let (ready, started) = channel();
    thread::spawn(move || {
        let node = Node::start(NodeConfig::default()).expect("a node without a port");
        let mut endpoint = open(&node).expect("loopback has free ports");
        ready.send(endpoint.client()).expect("main waits");
        endpoint.run(|_, _| false);
    });
    let client = started.recv()??;

    let session = block_on(client.connect(server))?;
    let threads: Vec<_> = (0..THREADS)
        .map(|worker| {
            let client = client.clone();
            thread::spawn(move || block_on(work(&client, session, worker)))
        })
        .collect();
    let mut calls = 0;
    for thread in threads {
        calls += thread.join().map_err(|_| "a thread has panicked")??;
    }
    println!("{calls} calls from {THREADS} threads through one endpoint, each answered");
    Ok(())
}

fn open(node: &Node) -> Result<Endpoint<()>, Box<dyn Error>> {
    let io = UdpIo::bind(LOOPBACK, UdpConfig::default())?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), ());
    endpoint.attach(node)?;
    Ok(endpoint)
}

/// The smallest executor: the thread sleeps until its future is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), TaskContext::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
