//! Packets between two endpoints, in the clear or sealed, and somebody between them who drops,
//! repeats, alters, holds back and invents what he likes (W1 to W31).
//!
//! Every call ends exactly once, no handler runs twice for a request, and endpoints stay usable.

use std::sync::Arc;

use petasos_endpoint::{
    CallSettings, Cipher, Clock, Completion, Context, Endpoint, EndpointConfig, Identity, MsgBuf,
    Payload, Request, RequestHandle, SessionId, SessionSecret, SessionSecurity, VirtualClock,
};
use petasos_netio::Ecn;
use petasos_netio::memory::{Captured, Hub, MemoryConfig};
use petasos_wire::{Header, Kind};

use crate::{Input, Seed};

const ECHO: u16 = 1;
const HOLD: u16 = 2;
const LONG: u16 = 3;
/// Calls of one input, and packets that wait to be delivered.
const CALLS_MAX: usize = 64;
const PACKETS_MAX: usize = 512;

#[derive(Default)]
struct Client {
    /// How often each call has ended.
    ends: Vec<u32>,
}

#[derive(Default)]
struct Server {
    held: Vec<RequestHandle>,
    /// How often each call's handler ran; the request begins with the call's number.
    runs: Vec<u32>,
}

fn ran(server: &mut Server, request: &[u8]) {
    let call = usize::from(*request.first().unwrap_or(&u8::MAX));
    server.runs.resize(256, 0);
    server.runs[call] += 1;
}

fn echo(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    cx.respond_with(request.handle, &request.payload);
    free(cx, request.payload);
}

fn hold(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    server.held.push(request.handle);
    free(cx, request.payload);
}

/// Answers with 256 times as many bytes as the request's second says.
fn long(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    let len = usize::from(*request.payload.get(1).unwrap_or(&0)) * 256;
    if let Ok(response) = cx.response_buffer(&request.handle, len) {
        cx.respond(request.handle, response);
    }
    free(cx, request.payload);
}

fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

fn ended(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    cx.free(completion.request);
    if let Ok(payload) = completion.result {
        free(cx, payload);
    }
    client.ends[completion.tag as usize] += 1;
}

/// A byte of choices (sealed, go-back-N, checksums, small windows), then operations.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choices = input.u8();
    let mut scene = Scene::new(choices);
    while !input.is_empty() {
        scene.step(&mut input);
    }
    scene.finish(choices & 1 == 1);
}

struct Scene {
    hub: Hub,
    time: VirtualClock,
    client: Endpoint<Client>,
    server: Endpoint<Server>,
    session: SessionId,
    /// Packets on the way, oldest first.
    packets: Vec<Captured>,
    /// Whether somebody wrote packets of his own, which might start handlers.
    forged: bool,
}

impl Scene {
    fn new(choices: u8) -> Scene {
        let hub = Hub::captured(MemoryConfig::default());
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let mut config = EndpointConfig { seed: Some(7), ..EndpointConfig::default() };
        config.congestion = (choices & 2 == 0).then(petasos_endpoint::CongestionConfig::none);
        let mut server =
            Endpoint::new(config.clone(), hub.port(), clock.clone(), Server::default());
        server.register(ECHO, echo);
        server.register(HOLD, hold);
        server.register(LONG, long);
        let mut client = Endpoint::new(config, hub.port(), clock, Client::default());
        let session = connect(&mut client, &mut server, choices & 1 == 1);
        Scene { hub, time, client, server, session, packets: Vec::new(), forged: false }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 10 {
            0 => self.call(input),
            1 => self.turn(u64::from(input.u16()) * 1_000),
            2 => {
                let count = self.packets.len();
                self.deliver(count);
            }
            3 => self.deliver(1),
            // Repeated, dropped, delivered out of order, altered.
            op @ 4..=7 => self.meddle(op, input),
            8 => self.forge(input),
            _ => self.command(input),
        }
        self.collect();
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let number = self.client.state().ends.len();
        if number == CALLS_MAX {
            return;
        }
        let (method, size) = ([ECHO, HOLD, LONG, 999][usize::from(input.u8() % 4)], input.u16());
        let mut request = vec![input.u8(); usize::from(size % 20_000).max(2)];
        request[0] = number as u8;
        let mut settings = CallSettings::default();
        let timeout_ms = input.u8();
        settings.timeout = Some(std::time::Duration::from_millis(u64::from(timeout_ms) + 1));
        self.client.state_mut().ends.push(0);
        let cx = self.client.context();
        let Some(mut buf) = buffer(cx.alloc(request.len()).ok()) else { return };
        buf.copy_from_slice(&request);
        let enqueued = cx.enqueue_with(self.session, method, buf, ended, number as u64, &settings);
        if enqueued.is_err() {
            self.client.state_mut().ends[number] = 1;
        }
    }

    fn turn(&mut self, nanos: u64) {
        self.time.set(self.time.now().plus_nanos(nanos.max(1_000)));
        self.client.run_once();
        self.server.run_once();
    }

    /// Takes what was sent; what nobody has room for is lost.
    fn collect(&mut self) {
        self.hub.take_captured(&mut self.packets);
        let excess = self.packets.len().saturating_sub(PACKETS_MAX);
        self.packets.drain(..excess);
    }

    fn deliver(&mut self, count: usize) {
        for packet in self.packets.drain(..count.min(self.packets.len())) {
            self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
        }
        self.turn(1_000);
    }

    fn meddle(&mut self, op: u8, input: &mut Input<'_>) {
        let index = usize::from(input.u8());
        if self.packets.is_empty() {
            return;
        }
        let index = index % self.packets.len();
        match op {
            4 => drop(self.packets.remove(index)),
            5 => {
                let packet = &self.packets[index];
                let ecn = if input.bool() { Ecn::CongestionExperienced } else { Ecn::NotCapable };
                self.hub.deliver(packet.to, &packet.bytes, ecn);
            }
            6 => {
                let packet = self.packets.remove(index);
                self.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
            }
            _ => {
                self.forged = true;
                let packet = &mut self.packets[index];
                let (at, with) = (usize::from(input.u16()), input.u8());
                let at = at % packet.bytes.len();
                packet.bytes[at] ^= with;
            }
        }
    }

    /// A packet with a right tag, as only a peer, or who has seen one, can write it.
    fn forge(&mut self, input: &mut Input<'_>) {
        self.forged = true;
        let Some(model) = self.packets.first() else { return };
        let to = model.to;
        let mut bytes = model.bytes.clone();
        let Some(kind) = Kind::from_bits(input.u8() & 15) else { return };
        bytes[0] = bytes[0] & 0x0f | (kind as u8) << 4;
        bytes[1] = input.u8() & 0b11_1110;
        bytes[8] = input.u8() % 64;
        let rest = input.bytes(8);
        bytes[16..16 + rest.len()].copy_from_slice(rest);
        bytes.truncate(Header::for_session(0, 0).to_bytes().len());
        let payload = usize::from(input.u16()) % 2_000;
        bytes.resize(bytes.len() + payload, input.u8());
        self.hub.deliver(to, &bytes, Ecn::NotCapable);
    }

    /// Something that an application does.
    fn command(&mut self, input: &mut Input<'_>) {
        match input.u8() % 4 {
            0 => {
                if let Some(handle) = self.server.state_mut().held.pop() {
                    self.server.context().respond_with(handle, input.short());
                }
            }
            1 => self.turn(u64::from(input.u8()) * 1_000_000),
            2 => self.server.drain(),
            _ => self.turn(0),
        }
    }

    /// All that is left arrives, and time passes until every call is over.
    fn finish(mut self, sealed: bool) {
        while let Some(handle) = self.server.state_mut().held.pop() {
            self.server.context().respond_with(handle, b"late");
        }
        for _ in 0..40 {
            self.turn(20_000_000);
            self.collect();
            let count = self.packets.len();
            self.deliver(count);
        }
        let ends = &self.client.state().ends;
        assert!(ends.iter().all(|count| *count == 1), "calls end once: {ends:?}");
        if sealed || !self.forged {
            let runs = &self.server.state().runs;
            assert!(runs.iter().all(|count| *count <= 1), "handlers run once: {runs:?}");
        }
    }
}

fn buffer(buf: Option<MsgBuf>) -> Option<MsgBuf> {
    buf
}

fn connect(
    client: &mut Endpoint<Client>,
    server: &mut Endpoint<Server>,
    sealed: bool,
) -> SessionId {
    let (address, ip) = (server.local_address(), client.local_address().ip());
    let (near, far) = (sealed.then(security), sealed.then(security));
    let offer = if sealed {
        client.open_secured(address, Some(1))
    } else {
        client.open_session(address, Some(1))
    };
    let offer = offer.expect("addresses fit").expect("there is room");
    let granted = server.accept_secured(&offer.params, ip, Some(1), far).expect("there is room");
    let established = client.establish_secured(&offer, &granted, address.ip(), near);
    assert!(established.expect("a grant of ours"));
    offer.session
}

fn security() -> SessionSecurity {
    let identity = Identity { names: vec!["peer".to_owned()], certificate: Vec::new() };
    let secret = SessionSecret::new(Cipher::Aes128Gcm, [1; 32]);
    SessionSecurity { identity: Arc::new(identity), secret }
}

/// Calls of all sizes over networks of all kinds.
pub fn seeds() -> Vec<Seed> {
    let call = |method: u8, size: u16, timeout: u8| {
        let [low, high] = size.to_le_bytes();
        vec![0, method, low, high, 40, timeout]
    };
    let run = |choices: u8, parts: &[Vec<u8>]| [&[choices][..], &parts.concat()].concat();
    let carry = || vec![1, 1, 0, 2, 2, 2];
    vec![
        ("small", run(0, &[call(0, 32, 100), carry(), carry()])),
        ("sealed", run(1, &[call(0, 32, 100), carry(), call(0, 9_000, 100), carry(), carry()])),
        ("large", run(0, &[call(0, 19_000, 200), carry(), carry(), carry(), carry()])),
        ("long", run(0, &[call(2, 30, 200), carry(), carry(), carry(), carry()])),
        ("held", run(0, &[call(1, 32, 50), carry(), vec![9, 1, 60], carry()])),
        ("lost", run(0, &[call(0, 19_000, 200), vec![1, 1, 0, 4, 3, 4, 5], carry(), carry()])),
        ("twice", run(1, &[call(0, 32, 90), vec![1, 1, 0, 5, 0, 0, 5, 0, 0, 6, 0], carry()])),
        ("altered", run(1, &[call(0, 32, 90), vec![1, 1, 0, 7, 0, 30, 0, 9], carry(), carry()])),
        (
            "forged",
            run(0, &[call(2, 900, 90), vec![1, 1, 0, 8, 2, 0, 8, 1, 0, 0, 0, 9, 0, 0, 0], carry()]),
        ),
        ("draining", run(2, &[call(1, 32, 90), carry(), vec![9, 2], call(0, 32, 9), carry()])),
    ]
}
