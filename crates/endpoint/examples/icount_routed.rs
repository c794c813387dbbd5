//! The cost of a call to a group: a client, a worker, and a router that only rewrites first
//! packets, in one thread's memory, on a virtual clock with fixed seeds.
//!
//! `icount_routed N [whole|claim] [sealed]` completes N calls of 32 bytes that run at once, or that
//! ask for a worker first, in plaintext or sealed with AES-128-GCM, and prints one line of JSON.
//! `cargo xtask icount` runs it under callgrind at two lengths and takes the slope.

#[path = "../tests/shim/mod.rs"]
mod shim;

use petasos_endpoint::{CallSettings, Completion, Context, MsgBuf, Request, Routing, SessionId};
use petasos_netio::PacketIo;
use shim::Ends;

const ECHO: u16 = 1;
/// Calls under way.
const WINDOW: u64 = 32;

struct Client {
    session: Option<SessionId>,
    routing: Routing,
    completed: u64,
    started: u64,
    goal: u64,
}

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

fn next(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    assert_eq!(completion.result.expect("nothing is lost").len(), 32);
    client.completed += 1;
    match client.started < client.goal {
        true => start(client, cx, completion.request),
        false => cx.free(completion.request),
    }
}

fn start(client: &mut Client, cx: &mut Context<Client>, request: MsgBuf) {
    client.started += 1;
    let session = client.session.expect("it is attached");
    let settings = CallSettings::default();
    let call = cx.enqueue_routed(session, ECHO, request, next, 0, &settings, client.routing);
    call.expect("there is room");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let goal: u64 = arguments.next().map_or(20_000, |n| n.parse().expect("a number"));
    let is_idempotent = match arguments.next().as_deref() {
        None | Some("whole") => true,
        Some("claim") => false,
        Some(other) => panic!("{other}: neither whole nor claim"),
    };
    let routing = Routing { is_idempotent, ..Routing::default() };
    let client = Client { session: None, routing, completed: 0, started: 0, goal };
    let cipher = match arguments.next().as_deref() {
        None => None,
        Some("sealed") => Some(petasos_control::Cipher::Aes128Gcm),
        Some(other) => panic!("{other}: not sealed"),
    };
    let mut ends = Ends::new(client, (), cipher);
    ends.worker.register(ECHO, echo);
    ends.client.state_mut().session = Some(ends.session);
    let (state, cx) = ends.client.split();
    for _ in 0..WINDOW.min(goal) {
        start(state, cx, MsgBuf::from_slice(&[7; 32]));
    }
    while ends.client.state().completed < goal {
        ends.turn();
        ends.time.set(ends.time.now().plus_nanos(1000));
    }
    let io = ends.client.io().stats();
    let packets = io.tx_frames + io.rx_frames;
    println!("{{\"rpcs\":{goal},\"packets\":{packets},\"syscalls\":0}}");
}
