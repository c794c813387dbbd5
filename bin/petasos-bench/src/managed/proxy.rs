//! A proxy written on Petasos's endpoint: passes each request to the next server, and the answer
//! back. It has one thread and sees only bytes, as the proxy that the paper compares eRPC with.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::Clock;
use petasos_cli::service::SIZED;
use petasos_endpoint::{
    Completion, Context, Endpoint, LocalConfig, LocalIo, LocalPolicy, MsgBuf, Node, NodeConfig,
    Payload, RejectCode, Request, RequestHandle, SessionId,
};

use super::part_args::PartArgs;
use super::relay::end_with_input;
use super::waiting::sharing;
use crate::error::BenchError;

/// Slots of a session.
const SLOTS: usize = 8;
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Whom it passes requests to, and whom it owes answers.
#[derive(Default)]
struct Proxy {
    /// Empty until the first request: its servers answer only while they have turns.
    sessions: Vec<SessionId>,
    /// Requests that wait for sessions: no more than its clients' slots.
    held: Vec<(RequestHandle, MsgBuf)>,
    /// Requests that are passed on: no more than its clients' slots.
    waiting: HashMap<u64, RequestHandle>,
    next: u64,
}

/// Runs a proxy before the servers that `args` name: prints its address, and works until the
/// standard input ends.
///
/// # Errors
/// If a server cannot be reached.
pub fn run(args: &PartArgs) -> Result<(), BenchError> {
    if args.server.is_empty() {
        return Err("--server names no server".into());
    }
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let node = Node::start(NodeConfig { listen: Some(loopback), ..NodeConfig::default() })?;
    let io = LocalConfig { local: LocalPolicy::Never, ..LocalConfig::default() };
    let io = LocalIo::bind(loopback, &io)?;
    let mut endpoint = Endpoint::new(sharing(), io, Clock::system(), Proxy::default());
    endpoint.register(SIZED, pass_on);
    endpoint.attach(&node)?;
    let address = node.local_address().ok_or("the node does not listen")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready {address}")?;
    out.flush()?;
    drop(out);
    end_with_input();
    endpoint.run(|proxy, _| !proxy.held.is_empty());
    connect(&mut endpoint, args)?;
    endpoint.run(|_, _| false);
    Ok(())
}

/// Connects to the servers, and sends what has waited for that.
fn connect(endpoint: &mut Endpoint<Proxy>, args: &PartArgs) -> Result<(), BenchError> {
    let shape = args.shape();
    let slots = shape.window * shape.threads;
    let count = slots.div_ceil(SLOTS).max(args.server.len());
    let mut sessions = Vec::new();
    for server in args.server.iter().cycle().take(count) {
        sessions.push(endpoint.connect_and_wait(*server, CONNECT_MAX)?);
    }
    let (proxy, cx) = endpoint.split();
    proxy.sessions = sessions;
    for (handle, request) in std::mem::take(&mut proxy.held) {
        send(proxy, cx, handle, request);
    }
    Ok(())
}

fn pass_on(proxy: &mut Proxy, cx: &mut Context<Proxy>, request: Request<'_>) {
    let bytes = match request.payload {
        Payload::Buffer(buf) => buf,
        Payload::Frame(bytes) => match cx.alloc(bytes.len()) {
            Ok(mut buf) => {
                buf.as_mut_slice().copy_from_slice(bytes);
                buf
            }
            Err(_) => return cx.reject(request.handle, RejectCode::Overloaded),
        },
    };
    if proxy.sessions.is_empty() {
        proxy.held.push((request.handle, bytes));
    } else {
        send(proxy, cx, request.handle, bytes);
    }
}

fn send(proxy: &mut Proxy, cx: &mut Context<Proxy>, handle: RequestHandle, request: MsgBuf) {
    proxy.next += 1;
    let (tag, sessions) = (proxy.next, proxy.sessions.len() as u64);
    // Neighbouring requests share a session, so that they share a train.
    let session = proxy.sessions[(tag / SLOTS as u64 % sessions) as usize];
    match cx.enqueue_request(session, SIZED, request, pass_back, tag) {
        Ok(_) => drop(proxy.waiting.insert(tag, handle)),
        Err(refused) => {
            cx.free(refused.request);
            cx.reject(handle, RejectCode::Overloaded);
        }
    }
}

fn pass_back(proxy: &mut Proxy, cx: &mut Context<Proxy>, done: Completion<'_>) {
    cx.free(done.request);
    let handle = proxy.waiting.remove(&done.tag).expect("a call has one completion");
    match done.result {
        Ok(Payload::Frame(bytes)) => cx.respond_with(handle, bytes),
        Ok(Payload::Buffer(buf)) => cx.respond(handle, buf),
        Err(_) => cx.reject(handle, RejectCode::Declined),
    }
}
