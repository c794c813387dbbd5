//! The protocol's own cost: small RPCs between two endpoints in one thread's memory, on a
//! virtual clock with fixed seeds, so that instruction counts repeat exactly.
//!
//! `icount N [virtual|real [BYTES [sealed]]]` completes N RPCs, of 32 bytes unless told, and prints
//! one line of JSON. `cargo xtask icount` runs it under callgrind at two lengths and takes the
//! slope.

use std::sync::Arc;

use petasos_endpoint::{
    Cipher, Clock, Completion, Context, Endpoint, EndpointConfig, Identity, MsgBuf, Request,
    SessionId, SessionSecret, SessionSecurity, Time, VirtualClock,
};
use petasos_netio::PacketIo;
use petasos_netio::memory::{Hub, MemoryConfig};

const ECHO: u16 = 1;
const SESSIONS: usize = 8;
const SLOTS: usize = 8;

#[derive(Default)]
struct Client {
    sessions: Vec<SessionId>,
    completed: u64,
    started: u64,
    goal: u64,
    bytes: usize,
}

fn echo(_: &mut (), cx: &mut Context<()>, request: Request<'_>) {
    cx.respond_with(request.handle, &request.payload);
}

fn next(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    assert_eq!(completion.result.expect("loopback loses nothing").len(), client.bytes);
    client.completed += 1;
    if client.started < client.goal {
        client.started += 1;
        let call =
            cx.enqueue_request(completion.session, ECHO, completion.request, next, completion.tag);
        call.expect("the slot has just become free");
    } else {
        cx.free(completion.request);
    }
}

fn main() {
    let goal: u64 = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number"));
    let virtual_time = std::env::args().nth(2).as_deref() != Some("real");
    let time = VirtualClock::default();
    let clock = if virtual_time { Clock::Virtual(time.clone()) } else { Clock::system() };
    let bytes: usize = std::env::args().nth(3).map_or(32, |n| n.parse().expect("a number"));
    let config = || EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    let hub = Hub::direct(MemoryConfig::default());
    let mut server = Endpoint::new(config(), hub.port(), clock.clone(), ());
    server.register(ECHO, echo);
    let state = Client { goal, bytes, ..Client::default() };
    let mut client = Endpoint::new(config(), hub.port(), clock.clone(), state);
    let sealed = std::env::args().nth(4).as_deref() == Some("sealed");
    for _ in 0..SESSIONS {
        connect(&mut client, &mut server, sealed.then(security));
    }
    let (state, cx) = client.split();
    for session in state.sessions.clone() {
        for _ in 0..SLOTS {
            state.started += 1;
            let request = MsgBuf::from_slice(&vec![7; bytes]);
            let call = cx.enqueue_request(session, ECHO, request, next, 0);
            call.expect("the session is ready");
        }
    }
    let begin = clock.now();
    let mut turns = 0u64;
    while client.state().completed < goal.max(64) {
        client.run_once();
        server.run_once();
        turns += 1;
        time.set(Time::from_nanos(turns * 1000));
    }
    report(&client, begin);
}

fn connect(
    client: &mut Endpoint<Client>,
    server: &mut Endpoint<()>,
    security: Option<SessionSecurity>,
) {
    let offer = match security {
        None => client.open_session(server.local_address(), None),
        Some(_) => client.open_secured(server.local_address(), None),
    };
    let offer = offer.expect("the hub reaches every port").expect("there is room for sessions");
    let client_ip = client.local_address().ip();
    let granted = server.accept_secured(&offer.params, client_ip, None, security.clone());
    let granted = granted.expect("it is granted");
    let server_ip = server.local_address().ip();
    let ready = client.establish_secured(&offer, &granted, server_ip, security);
    assert!(ready.expect("the hub reaches every port"));
    client.state_mut().sessions.push(offer.session);
}

/// What TLS would give both ends.
fn security() -> SessionSecurity {
    let identity = Identity { names: Vec::new(), certificate: Vec::new() };
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [1; 32]);
    SessionSecurity { identity: Arc::new(identity), secret }
}

fn report(client: &Endpoint<Client>, begin: Time) {
    let io = client.io().stats();
    let rpcs = client.state().completed;
    let packets = io.tx_frames + io.rx_frames;
    let syscalls = io.tx_syscalls + io.rx_syscalls;
    let elapsed_ns = client.clock().now().nanos_since(begin);
    print!("{{\"rpcs\": {rpcs}, \"packets\": {packets}, \"syscalls\": {syscalls}, ");
    println!("\"elapsed_ns\": {elapsed_ns}}}");
}
