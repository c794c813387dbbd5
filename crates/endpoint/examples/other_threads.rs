//! Calls of several threads through one endpoint.
//!
//! One thread turns the loop. The others leave what they want in a channel and notify the loop,
//! whose own work of each turn starts the calls; continuations send the answers back.
//!
//! `cargo run -p petasos-endpoint --example other_threads`

use std::collections::HashMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::thread;
use std::time::Duration;

use petasos_endpoint::{
    Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Node, NodeConfig, Notifier,
    Request, SessionId, Time,
};
use petasos_netio_udp::{UdpConfig, UdpIo};

const ECHO: u16 = 1;
const THREADS: usize = 4;
const CALLS: usize = 1000;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const TIMEOUT: Duration = Duration::from_secs(5);

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

/// What a thread asks of the loop. If the call fails, the sender is dropped.
struct Asked {
    request: MsgBuf,
    answer: Sender<Vec<u8>>,
}

/// The state of the loop that calls for all threads.
struct Caller {
    asked: Receiver<Asked>,
    session: Option<SessionId>,
    waiting: HashMap<u64, Sender<Vec<u8>>>,
    next_tag: u64,
}

/// The loop's own work of a turn. It needs no turn unless it is notified.
fn start_calls(caller: &mut Caller, cx: &mut Context<Caller>) -> Time {
    while let Ok(Asked { request, answer }) = caller.asked.try_recv() {
        let Some(session) = caller.session else { continue };
        caller.next_tag += 1;
        if cx.enqueue_request(session, ECHO, request, on_answer, caller.next_tag).is_ok() {
            caller.waiting.insert(caller.next_tag, answer);
        }
    }
    Time::NEVER
}

fn on_answer(caller: &mut Caller, cx: &mut Context<Caller>, done: Completion<'_>) {
    let answer = caller.waiting.remove(&done.tag);
    if let (Some(answer), Ok(payload)) = (answer, done.result) {
        // A thread that has gone needs no answer.
        let _ = answer.send(payload.to_vec());
    }
    cx.free(done.request);
}

/// Calls one after another, and checks that each answer is its own.
fn work(ask: &Sender<Asked>, notifier: &Notifier, worker: usize) -> Result<usize, RecvError> {
    for number in 0..CALLS {
        let (answer, answers) = channel();
        let text = format!("call {number} of thread {worker}");
        let request = MsgBuf::from_slice(text.as_bytes());
        // If the loop has gone, no answer comes.
        let _ = ask.send(Asked { request, answer });
        notifier.notify();
        assert_eq!(answers.recv()?, text.as_bytes());
    }
    Ok(CALLS)
}

fn run() -> Result<(), Box<dyn Error>> {
    let (ready, started) = channel();
    thread::spawn(move || {
        let listening = NodeConfig { listen: Some(LOOPBACK), ..NodeConfig::default() };
        let node = Node::start(listening).expect("loopback has free ports");
        let mut endpoint = open(&node, ()).expect("loopback has free ports");
        endpoint.register(ECHO, echo);
        ready.send(node.local_address()).expect("main waits");
        endpoint.run(|_, _| false);
    });
    let server = started.recv()?.ok_or("the server does not listen")?;

    // The loop that calls for all.
    let (ask, asked) = channel();
    let (ready, started) = channel();
    thread::spawn(move || {
        let node = Node::start(NodeConfig::default()).expect("a node without a port");
        let caller = Caller { asked, session: None, waiting: HashMap::new(), next_tag: 0 };
        let mut endpoint = open(&node, caller).expect("loopback has free ports");
        let session = endpoint.connect_and_wait(server, TIMEOUT).expect("the server is up");
        endpoint.state_mut().session = Some(session);
        endpoint.on_turn(start_calls);
        ready.send(endpoint.notifier()).expect("main waits");
        endpoint.run(|_, _| false);
    });
    let notifier = started.recv()??;

    let threads: Vec<_> = (0..THREADS)
        .map(|worker| {
            let (ask, notifier) = (ask.clone(), notifier.clone());
            thread::spawn(move || work(&ask, &notifier, worker))
        })
        .collect();
    let mut calls = 0;
    for thread in threads {
        calls += thread.join().map_err(|_| "a thread has panicked")??;
    }
    println!("{calls} calls from {THREADS} threads through one endpoint, each answered");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("other_threads: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open<S>(node: &Node, state: S) -> Result<Endpoint<S>, Box<dyn Error>> {
    let io = UdpIo::bind(LOOPBACK, UdpConfig::default())?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), io, Clock::system(), state);
    endpoint.attach(node)?;
    Ok(endpoint)
}
