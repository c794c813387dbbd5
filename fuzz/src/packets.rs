//! Packets between two endpoints, in the clear or sealed, and somebody between them who drops,
//! repeats, alters, holds back and invents what he likes (W1 to W31).
//!
//! Every call ends exactly once, no handler runs twice for a request, and endpoints stay usable.

use std::sync::Arc;

use petasos_endpoint::{
    CallSettings, Cipher, Clock, Endpoint, EndpointConfig, Identity, SessionId, SessionSecret,
    SessionSecurity, VirtualClock,
};
use petasos_netio::memory::MemoryConfig;

use crate::application::{CALLS_MAX, Client, METHODS, Server, answer_held, ended, register};
use crate::network::Network;
use crate::{Input, Seed};

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
    network: Network,
    time: VirtualClock,
    client: Endpoint<Client>,
    server: Endpoint<Server>,
    session: SessionId,
}

impl Scene {
    fn new(choices: u8) -> Scene {
        let network = Network::new(MemoryConfig::default());
        let hub = &network.hub;
        let time = VirtualClock::default();
        let clock = Clock::Virtual(time.clone());
        let mut config = EndpointConfig { seed: Some(7), ..EndpointConfig::default() };
        config.congestion = (choices & 2 == 0).then(petasos_endpoint::CongestionConfig::none);
        let mut server =
            Endpoint::new(config.clone(), hub.port(), clock.clone(), Server::default());
        register(&mut server);
        let mut client = Endpoint::new(config, hub.port(), clock, Client::default());
        let session = connect(&mut client, &mut server, choices & 1 == 1);
        Scene { network, time, client, server, session }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 10 {
            0 => self.call(input),
            1 => self.turn(u64::from(input.u16()) * 1_000),
            2 => self.deliver(usize::MAX),
            3 => self.deliver(1),
            op @ 4..=7 => self.network.meddle(op - 4, input),
            8 => self.network.forge(0, input),
            _ => self.command(input),
        }
        self.network.collect();
    }

    fn call(&mut self, input: &mut Input<'_>) {
        let number = self.client.state().ends.len();
        if number == CALLS_MAX {
            return;
        }
        let (method, size) = (METHODS[usize::from(input.u8() % 4)], input.u16());
        let mut request = vec![input.u8(); usize::from(size % 20_000).max(2)];
        request[0] = number as u8;
        let mut settings = CallSettings::default();
        let timeout_ms = input.u8();
        settings.timeout = Some(std::time::Duration::from_millis(u64::from(timeout_ms) + 1));
        self.client.state_mut().ends.push(0);
        let cx = self.client.context();
        let mut buf = cx.alloc(request.len()).expect("the pool has room for all calls");
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

    fn deliver(&mut self, count: usize) {
        self.network.deliver(count);
        self.turn(1_000);
    }

    /// Something that an application does.
    fn command(&mut self, input: &mut Input<'_>) {
        match input.u8() % 4 {
            0 => _ = answer_held(&mut self.server, input.short()),
            1 => self.turn(u64::from(input.u8()) * 1_000_000),
            2 => self.server.drain(),
            _ => self.turn(0),
        }
    }

    /// All that is left arrives, and time passes until every call is over.
    fn finish(mut self, sealed: bool) {
        while answer_held(&mut self.server, b"late") {}
        for _ in 0..40 {
            self.turn(20_000_000);
            self.network.collect();
            self.deliver(usize::MAX);
        }
        self.client.state().check();
        if sealed || !self.network.forged {
            let runs = &self.server.state().runs;
            assert!(runs.iter().all(|count| *count <= 1), "handlers run once: {runs:?}");
        }
    }
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
