//! A client and a server endpoint in one thread, on a virtual clock.
#![allow(clippy::unwrap_used, reason = "a test helper fails its test")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::cell::RefCell;
use std::sync::Arc;

use petasos_endpoint::{
    CallError, CallSettings, Cipher, Clock, Completion, Context, Endpoint, EndpointConfig,
    Identity, MsgBuf, Payload, Request, RequestHandle, RequestKey, SessionId, SessionSecret,
    SessionSecurity, Time, VirtualClock,
};
use petasos_netio::Ecn;
use petasos_netio::memory::{Hub, MemoryConfig};

pub const ECHO: u16 = 1;
pub const HOLD: u16 = 2;
pub const PANIC: u16 = 3;
pub const LONG: u16 = 4;
pub const NOBODY: u16 = 999;

/// What the client has seen.
#[derive(Default)]
pub struct Client {
    pub outcomes: Vec<(u64, Result<Vec<u8>, CallError>)>,
}

impl Client {
    /// The one outcome with `tag`.
    pub fn outcome(&self, tag: u64) -> &Result<Vec<u8>, CallError> {
        let mut found = self.outcomes.iter().filter(|(of, _)| *of == tag);
        let outcome = found.next().expect("the call is over");
        assert!(found.next().is_none(), "a call ends once");
        &outcome.1
    }

    pub fn is_over(&self, tag: u64) -> bool {
        self.outcomes.iter().any(|(of, _)| *of == tag)
    }
}

/// What the server has been asked.
#[derive(Default)]
pub struct Server {
    pub held: Vec<(RequestHandle, Vec<u8>)>,
    pub handled: u64,
    pub abandoned: Vec<RequestKey>,
    /// What steps have seen before requests were handled.
    pub prepared: RefCell<Vec<(usize, Vec<u8>)>>,
    pub turns: u64,
    /// When [`Server::turns`] is to be counted up next.
    pub turn_at: Option<Time>,
}

pub struct Joined {
    pub hub: Hub,
    pub time: VirtualClock,
    pub client: Endpoint<Client>,
    pub server: Endpoint<Server>,
    pub session: SessionId,
}

fn echo(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    server.handled += 1;
    cx.respond_with(request.handle, &request.payload);
    free(cx, request.payload);
}

fn hold(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    server.handled += 1;
    server.held.push((request.handle, request.payload.to_vec()));
    free(cx, request.payload);
}

fn panic(server: &mut Server, _: &mut Context<Server>, _: Request<'_>) {
    server.handled += 1;
    panic!("a handler that fails on purpose");
}

/// Answers with as many bytes as the request's first four say.
fn long(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    server.handled += 1;
    let len = u32::from_le_bytes(request.payload[..4].try_into().unwrap()) as usize;
    let mut response = cx.response_buffer(&request.handle, len).unwrap();
    response.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
    cx.respond(request.handle, response);
    free(cx, request.payload);
}

pub fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

/// Keeps the outcome and gives every buffer back.
pub fn keep(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    cx.free(completion.request);
    let outcome = completion.result.map(|payload| {
        let bytes = payload.to_vec();
        free(cx, payload);
        bytes
    });
    client.outcomes.push((completion.tag, outcome));
}

impl Joined {
    pub fn new() -> Joined {
        Joined::with(|_| {}, |_| {})
    }

    pub fn with(
        client: impl FnOnce(&mut EndpointConfig),
        server: impl FnOnce(&mut EndpointConfig),
    ) -> Joined {
        Joined::over(Hub::direct(MemoryConfig::default()), client, server)
    }

    /// A pair whose packets go nowhere unless [`Joined::run_relayed`] takes them.
    pub fn captured(client: impl FnOnce(&mut EndpointConfig)) -> Joined {
        Joined::over(Hub::captured(MemoryConfig::default()), client, |_| {})
    }

    /// A pair with a sealed session (W27).
    pub fn sealed(change: impl Fn(&mut EndpointConfig)) -> Joined {
        let hub = Hub::direct(MemoryConfig::default());
        let ends = [security(1, "server.test"), security(1, "client.test")];
        Joined::secured(hub, &change, &change, Some(ends))
    }

    /// The same, with packets that go nowhere unless a test takes them; and with what each end was
    /// given: the client, then the server.
    pub fn sealed_and_captured(
        ends: [SessionSecurity; 2],
        change: impl Fn(&mut EndpointConfig),
    ) -> Joined {
        let hub = Hub::captured(MemoryConfig::default());
        Joined::secured(hub, &change, &change, Some(ends))
    }

    pub fn over(
        hub: Hub,
        client: impl FnOnce(&mut EndpointConfig),
        server: impl FnOnce(&mut EndpointConfig),
    ) -> Joined {
        Joined::secured(hub, client, server, None)
    }

    fn secured(
        hub: Hub,
        client: impl FnOnce(&mut EndpointConfig),
        server: impl FnOnce(&mut EndpointConfig),
        ends: Option<[SessionSecurity; 2]>,
    ) -> Joined {
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let config = || EndpointConfig { seed: Some(7), ..EndpointConfig::default() };
        let (mut client_config, mut server_config) = (config(), config());
        client(&mut client_config);
        server(&mut server_config);
        let mut server = Endpoint::new(server_config, hub.port(), clock.clone(), Server::default());
        register(&mut server);
        let mut client = Endpoint::new(client_config, hub.port(), clock, Client::default());
        let session = match ends {
            None => connect(&mut client, &mut server),
            Some(ends) => connect_secured(&mut client, &mut server, ends),
        };
        Joined { hub, time, client, server, session }
    }

    /// Turns both loops for `ms` milliseconds and carries their packets, each after `harm` has
    /// seen it with its number.
    pub fn run_relayed(&mut self, ms: u64, mut harm: impl FnMut(usize, &mut [u8])) {
        let (mut packets, mut count) = (Vec::new(), 0);
        for _ in 0..ms * 10 {
            self.run_ms_tenth();
            self.hub.take_captured(&mut packets);
            for mut packet in packets.drain(..) {
                harm(count, &mut packet.bytes);
                count += 1;
                self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
            }
        }
    }

    fn run_ms_tenth(&mut self) {
        self.advance_ns(100_000);
        self.client.run_once();
        self.server.run_once();
    }

    /// Starts a call on a buffer of the client's pool.
    pub fn call(&mut self, method: u16, request: &[u8], tag: u64) {
        self.call_with(method, request, tag, &CallSettings::default());
    }

    pub fn call_with(&mut self, method: u16, request: &[u8], tag: u64, settings: &CallSettings) {
        let session = self.session;
        let cx = self.client.context();
        let mut buf = cx.alloc(request.len()).unwrap();
        buf.copy_from_slice(request);
        cx.enqueue_with(session, method, buf, keep, tag, settings).unwrap();
    }

    /// Turns both loops `turns` times, a microsecond apart.
    pub fn run(&mut self, turns: u64) {
        for _ in 0..turns {
            self.advance_ns(1_000);
            self.client.run_once();
            self.server.run_once();
        }
        self.client.run_once();
    }

    /// Turns both loops for `ms` milliseconds, ten turns each.
    pub fn run_ms(&mut self, ms: u64) {
        for _ in 0..ms * 10 {
            self.run_ms_tenth();
        }
    }

    pub fn advance_ns(&mut self, nanos: u64) {
        self.time.set(self.time.now().plus_nanos(nanos));
    }

    /// The one outcome with `tag`.
    pub fn outcome(&self, tag: u64) -> &Result<Vec<u8>, CallError> {
        self.client.state().outcome(tag)
    }

    pub fn is_over(&self, tag: u64) -> bool {
        self.client.state().is_over(tag)
    }
}

/// Gives one more server its handlers.
pub fn register(server: &mut Endpoint<Server>) {
    server.register(ECHO, echo);
    server.register(HOLD, hold);
    server.register(PANIC, panic);
    server.register(LONG, long);
}

/// Sets up one more session.
pub fn connect<C, S>(client: &mut Endpoint<C>, server: &mut Endpoint<S>) -> SessionId {
    let address = server.local_address();
    let offer = client.open_session(address, Some(1)).unwrap().expect("there is room");
    let client_ip = client.local_address().ip();
    let granted = server.accept_session(&offer.params, client_ip, Some(1)).unwrap();
    assert!(client.establish_session(&offer, &granted, address.ip()).unwrap());
    offer.session
}

/// Sets up one more session that is sealed.
pub fn connect_secured<C, S>(
    client: &mut Endpoint<C>,
    server: &mut Endpoint<S>,
    [near, far]: [SessionSecurity; 2],
) -> SessionId {
    let address = server.local_address();
    let offer = client.open_secured(address, Some(1)).unwrap().expect("there is room");
    let ip = client.local_address().ip();
    let granted = server.accept_secured(&offer.params, ip, Some(1), Some(far)).unwrap();
    assert!(client.establish_secured(&offer, &granted, address.ip(), Some(near)).unwrap());
    offer.session
}

/// What TLS would give an end whose peer is called `name`.
pub fn security(secret: u8, name: &str) -> SessionSecurity {
    let identity = Identity { names: vec![name.to_owned()], certificate: Vec::new() };
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [secret; 32]);
    SessionSecurity { identity: Arc::new(identity), secret }
}

/// Bytes that tell their place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

pub fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

pub fn request_of(bytes: &[u8]) -> MsgBuf {
    MsgBuf::from_slice(bytes)
}
