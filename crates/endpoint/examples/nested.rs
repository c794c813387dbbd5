//! A handler that calls another server before it answers.
//!
//! The front server gets a number, asks the back server to square it, and answers with one more.
//! While it waits it blocks nothing: it keeps the request's handle and answers from the
//! continuation of its own call.
//!
//! `cargo run -p petasos-endpoint --example nested`

use std::collections::HashMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use petasos_endpoint::{
    CallError, Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Node, NodeConfig,
    RejectCode, Request, RequestHandle, SessionId,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

const SQUARE: u16 = 1;
const SQUARE_PLUS_ONE: u16 = 2;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const TIMEOUT: Duration = Duration::from_secs(5);

/// The back server.
fn square(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    match read_number(&request.payload) {
        Some(number) => {
            cx.respond_with(request.handle, &number.wrapping_mul(number).to_le_bytes());
        }
        None => cx.reject(request.handle, RejectCode::Declined),
    }
}

/// The front server's state: its session to the back server, and whom it owes answers.
#[derive(Default)]
struct Front {
    back: Option<SessionId>,
    waiting: HashMap<u64, RequestHandle>,
    next_tag: u64,
}

fn square_plus_one(front: &mut Front, cx: &mut Context<Front>, request: Request<'_>) {
    let Some(back) = front.back else {
        return cx.reject(request.handle, RejectCode::Overloaded);
    };
    front.next_tag += 1;
    let (tag, nested) = (front.next_tag, MsgBuf::from_slice(&request.payload));
    match cx.enqueue_request(back, SQUARE, nested, on_square, tag) {
        Ok(_) => drop(front.waiting.insert(tag, request.handle)),
        Err(_) => cx.reject(request.handle, RejectCode::Overloaded),
    }
}

fn on_square(front: &mut Front, cx: &mut Context<Front>, done: Completion<'_>) {
    let handle = front.waiting.remove(&done.tag).expect("a call has one completion");
    match done.result.ok().and_then(|payload| read_number(&payload)) {
        Some(squared) => cx.respond_with(handle, &squared.wrapping_add(1).to_le_bytes()),
        None => cx.reject(handle, RejectCode::Declined),
    }
}

/// The client's state: what its call has brought.
type Answer = Option<Result<Option<u64>, CallError>>;

fn on_answer(answer: &mut Answer, _: &mut Context<Answer>, done: Completion<'_>) {
    *answer = Some(done.result.map(|payload| read_number(&payload)));
}

fn read_number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Starts a server thread with the endpoint that `make` sets up. Returns where it listens.
fn serve<S>(
    make: impl FnOnce(&Node) -> Result<Endpoint<S>, Box<dyn Error>> + Send + 'static,
) -> Result<SocketAddr, Box<dyn Error>> {
    let (ready, address) = channel();
    thread::spawn(move || {
        let listening = NodeConfig { listen: Some(LOOPBACK), ..NodeConfig::default() };
        let node = Node::start(listening).expect("loopback has free ports");
        let mut endpoint = make(&node).expect("the server can be set up");
        ready.send(node.local_address()).expect("main waits");
        endpoint.run(|_, _| false);
    });
    address.recv()?.ok_or_else(|| "the server does not listen".into())
}

fn open<S>(node: &Node, state: S) -> Result<Endpoint<S>, Box<dyn Error>> {
    let io = UdpIo::bind(LOOPBACK, UdpConfig::default())?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), state);
    endpoint.attach(node)?;
    Ok(endpoint)
}

fn run() -> Result<(), Box<dyn Error>> {
    let back = serve(|node| {
        let mut endpoint = open(node, ())?;
        endpoint.register(SQUARE, square);
        Ok(endpoint)
    })?;
    let front = serve(move |node| {
        let mut endpoint = open(node, Front::default())?;
        endpoint.state_mut().back = Some(endpoint.connect_and_wait(back, TIMEOUT)?);
        endpoint.register(SQUARE_PLUS_ONE, square_plus_one);
        Ok(endpoint)
    })?;

    let node = Node::start(NodeConfig::default())?;
    let mut client = open(&node, None)?;
    let session = client.connect_and_wait(front, TIMEOUT)?;
    let seven = MsgBuf::from_slice(&7u64.to_le_bytes());
    let call = client.context().enqueue_request(session, SQUARE_PLUS_ONE, seven, on_answer, 0);
    call.map_err(|refused| refused.error)?;
    client.run(|answer, _| answer.is_some());
    let answer = client.state_mut().take().ok_or("the call ends")??;
    let answer = answer.ok_or("the answer is no number")?;
    println!("7 * 7 + 1 = {answer}");
    assert_eq!(answer, 50);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nested: {error}");
            ExitCode::FAILURE
        }
    }
}
