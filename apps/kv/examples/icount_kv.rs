//! The cost of a key-value request: calls between two endpoints in one thread's memory, on a
//! virtual clock with fixed seeds, so that instruction counts repeat exactly.
//!
//! `icount_kv N [echo|get|set]` completes N calls and prints one line of JSON. Keys have 16 bytes
//! and values 32; `echo` sends as many bytes both ways as `get` and does nothing with them.
//! `cargo xtask icount --kv` runs it under callgrind at two lengths and takes the slope.

use petasos_endpoint::{
    Clock, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Request as Asked, SessionId,
    Time, VirtualClock,
};
use petasos_kv::{OPERATE, Operation, Owner, RESPONSE_HEADER_BYTES, Request, Service};
use petasos_netio::PacketIo;
use petasos_netio::memory::{Hub, MemoryConfig};
use petasos_store::{Config, Mode};

const ECHO: u16 = 99;
const SLOTS: usize = 32;
const KEYS: u64 = 4096;
const VALUE: [u8; 32] = [7; 32];
const READ_BYTES: usize = RESPONSE_HEADER_BYTES + VALUE.len();

/// What a run does.
#[derive(Clone, Copy)]
struct Work {
    method: u16,
    operation: Operation,
    calls: u64,
    response_bytes: usize,
}

const FILL: Work = Work {
    method: OPERATE,
    operation: Operation::Set,
    calls: KEYS,
    response_bytes: RESPONSE_HEADER_BYTES,
};

struct Client {
    session: Option<SessionId>,
    work: Work,
    started: u64,
    completed: u64,
}

/// A key, in no order that a processor could guess.
fn key(number: u64) -> [u8; 16] {
    let mixed = (number % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mixed.to_le_bytes());
    bytes
}

impl Client {
    fn write_request(&mut self, to: &mut MsgBuf) {
        let (key, operation) = (key(self.started), self.work.operation);
        let value = if operation == Operation::Set { &VALUE[..] } else { &[] };
        let request = Request { value, ..Request::new(operation, &key) };
        to.set_len(request.bytes());
        request.write(to.as_mut_slice());
        self.started += 1;
    }
}

fn next(client: &mut Client, cx: &mut Context<Client>, done: Completion<'_>) {
    let response = done.result.expect("memory loses nothing");
    let Work { method, calls, response_bytes, .. } = client.work;
    assert_eq!(response.len(), response_bytes);
    assert!(method == ECHO || response[0] == 0, "it is done");
    client.completed += 1;
    if client.started < calls {
        let mut request = done.request;
        client.write_request(&mut request);
        let call = cx.enqueue_request(done.session, method, request, next, done.tag);
        call.map_err(|refused| refused.error).expect("the slot has just become free");
    } else {
        cx.free(done.request);
    }
}

/// As many bytes as a get's response.
fn echo(_: &mut Owner, cx: &mut Context<Owner>, asked: Asked<'_>) {
    let mut response = [0; READ_BYTES];
    let bytes = asked.payload.len().min(READ_BYTES);
    response[..bytes].copy_from_slice(&asked.payload[..bytes]);
    cx.respond_with(asked.handle, &response);
}

fn server(hub: &Hub, clock: &Clock) -> Endpoint<Owner> {
    let usual = Config::for_items(Mode::Store, 2 * KEYS, 16, VALUE.len() as u64);
    let config = Config { secret: Some([1, 2]), ..usual };
    let (_, mut seats) = Service::new(&config, 1).expect("there can be such a table");
    let seat = seats.pop().expect("there is one loop");
    let config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    let mut server = seat.open(config, hub.port(), clock.clone()).expect("there are descriptors");
    server.register(ECHO, echo);
    server
}

/// Makes all calls of a piece of work.
fn run(
    work: Work,
    client: &mut Endpoint<Client>,
    server: &mut Endpoint<Owner>,
    time: &VirtualClock,
) {
    let (state, cx) = client.split();
    (state.work, state.started, state.completed) = (work, 0, 0);
    let session = state.session.expect("it is ready");
    for tag in 0..SLOTS as u64 {
        let mut request = MsgBuf::from_slice(&[0; 128]);
        state.write_request(&mut request);
        let call = cx.enqueue_request(session, work.method, request, next, tag);
        call.map_err(|refused| refused.error).expect("the session is ready");
    }
    while client.state().completed < work.calls {
        client.run_once();
        server.run_once();
        time.set(Time::from_nanos(time.now().as_nanos() + 1000));
    }
}

fn connect(client: &mut Endpoint<Client>, server: &mut Endpoint<Owner>) {
    let offer = client.open_session(server.local_address(), None);
    let offer = offer.expect("the hub reaches every port").expect("there is room for sessions");
    let granted = server.accept_session(&offer.params, client.local_address().ip(), None);
    let granted = granted.expect("it is granted");
    let ready = client.establish_session(&offer, &granted, server.local_address().ip());
    assert!(ready.expect("the hub reaches every port"));
    client.state_mut().session = Some(offer.session);
}

fn main() {
    let calls: u64 = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number"));
    let calls = calls.max(SLOTS as u64);
    let work = match std::env::args().nth(2).as_deref() {
        Some("echo") => {
            let operation = Operation::Get;
            Work { method: ECHO, operation, calls, response_bytes: READ_BYTES }
        }
        Some("set") => Work { calls, ..FILL },
        _ => Work { operation: Operation::Get, calls, response_bytes: READ_BYTES, ..FILL },
    };
    let time = VirtualClock::default();
    let clock = Clock::Virtual(time.clone());
    let hub = Hub::direct(MemoryConfig::default());
    let mut server = server(&hub, &clock);
    let mut config = EndpointConfig { seed: Some(1), ..EndpointConfig::default() };
    config.session.slots = SLOTS as u32;
    let state = Client { session: None, work, started: 0, completed: 0 };
    let mut client = Endpoint::new(config, hub.port(), clock, state);
    connect(&mut client, &mut server);
    run(FILL, &mut client, &mut server, &time);
    let before = client.io().stats();
    run(work, &mut client, &mut server, &time);
    let io = client.io().stats();
    let packets = io.tx_frames + io.rx_frames - before.tx_frames - before.rx_frames;
    print!("{{\"rpcs\": {calls}, \"packets\": {packets}, ");
    println!("\"syscalls\": 0, \"elapsed_ns\": 0}}");
}
