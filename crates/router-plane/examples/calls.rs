//! What whole calls through a router take over UDP, beside calls of a session and beside bare
//! datagrams: client, router and worker take turns in one thread on loopback.
//!
//! `calls [ROUNDS]` prints, for calls one at a time and 64 at a time, the medians of microseconds
//! per call, and the ratios of those. Bare datagrams go the same way, by way of a forwarder: one
//! system call for each datagram and direction, as in R2P2's public code.
//! `cargo run --profile production -p petasos-router-plane --example calls`

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use petasos_base::Clock;
use petasos_endpoint::{CallSettings, Endpoint, EndpointConfig, SessionId};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_conformance::group::{Client, ECHO, Group, count, echo};
use petasos_router_conformance::{BackendFactory, PlaneFactory};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const BYTES: usize = 32;
/// Rounds of one contender before it is the next one's turn.
const STRETCH: usize = 50;

fn socket() -> UdpIo {
    let socket = UdpIo::bind(SocketAddr::new(LOCALHOST, 0), UdpConfig::default());
    socket.expect("loopback has ports")
}

struct Sockets;

impl PlaneFactory for Sockets {}

impl BackendFactory for Sockets {
    type Io = UdpIo;

    fn ports(&self, count: usize) -> Vec<UdpIo> {
        (0..count).map(|_| socket()).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from(([0; 16], 9))
    }
}

/// Calls to a group of one worker.
struct Routed {
    group: Group<UdpIo>,
    is_idempotent: bool,
    answered: u64,
}

impl Routed {
    fn new(is_idempotent: bool) -> Routed {
        Routed {
            group: Group::new(&Sockets, Clock::system(), (1, 1), "jbsq64"),
            is_idempotent,
            answered: 0,
        }
    }

    fn round(&mut self, calls: usize) {
        self.answered += calls as u64;
        (0..calls).for_each(|_| self.group.call(0, BYTES, self.is_idempotent));
        self.group.run_until(self.answered);
    }
}

/// Calls of a session.
struct Direct {
    client: Endpoint<Client>,
    server: Endpoint<u64>,
    session: SessionId,
    answered: u64,
}

impl Direct {
    fn new(clock: &Clock) -> Direct {
        let mut config = EndpointConfig::default();
        config.session.slots = 64;
        let mut server = Endpoint::new(config.clone(), socket(), clock.clone(), 0);
        server.register(ECHO, echo);
        let mut client = Endpoint::new(config, socket(), clock.clone(), Client::default());
        let offer = client.open_session(server.local_address(), None).expect("it is loopback");
        let offer = offer.expect("there is room");
        let granted = server.accept_session(&offer.params, LOCALHOST, None).expect("there is room");
        let established = client.establish_session(&offer, &granted, LOCALHOST);
        assert!(established.expect("it is loopback"));
        Direct { client, server, session: offer.session, answered: 0 }
    }

    fn round(&mut self, calls: usize) {
        self.answered += calls as u64;
        let cx = self.client.context();
        for _ in 0..calls {
            let mut request = cx.alloc(BYTES).expect("the pool has room");
            request.fill(7);
            let settings = CallSettings::default();
            let call = cx.enqueue_with(self.session, ECHO, request, count, 0, &settings);
            call.expect("there is room");
        }
        while self.client.state().answered < self.answered {
            self.client.run_once();
            self.server.run_once();
        }
    }
}

/// Datagrams that a client sends to a forwarder, which passes them on to a worker, which answers.
struct Bare {
    client: UdpSocket,
    forwarder: UdpSocket,
    worker: UdpSocket,
}

impl Bare {
    fn new() -> Bare {
        let bind = || UdpSocket::bind(SocketAddr::new(LOCALHOST, 0)).expect("loopback has ports");
        Bare { client: bind(), forwarder: bind(), worker: bind() }
    }

    fn round(&mut self, calls: usize) {
        let at = |socket: &UdpSocket| socket.local_addr().expect("it is bound");
        let [client, forwarder, worker] = [&self.client, &self.forwarder, &self.worker].map(at);
        let mut datagram = [7; BYTES];
        for (from, by, to) in [
            (None, &self.client, forwarder),
            (Some(&self.forwarder), &self.forwarder, worker),
            (Some(&self.worker), &self.worker, client),
        ] {
            for _ in 0..calls {
                if let Some(from) = from {
                    from.recv_from(&mut datagram).expect("loopback loses nothing");
                }
                by.send_to(&datagram, to).expect("loopback takes it");
            }
        }
        for _ in 0..calls {
            self.client.recv_from(&mut datagram).expect("loopback loses nothing");
        }
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(10_000, |n| n.parse().expect("a number"));
    let clock = Clock::system();
    let (mut whole, mut claim) = (Routed::new(true), Routed::new(false));
    let (mut direct, mut bare) = (Direct::new(&clock), Bare::new());
    for calls in [1, 64] {
        let contenders: [(&str, &mut dyn FnMut()); 4] = [
            ("bare datagrams", &mut || bare.round(calls)),
            ("a session", &mut || direct.round(calls)),
            ("a group, at once", &mut || whole.round(calls)),
            ("a group, asking first", &mut || claim.round(calls)),
        ];
        measure(&clock, calls, rounds, contenders);
    }
}

fn measure(clock: &Clock, calls: usize, rounds: usize, mut of: [(&str, &mut dyn FnMut()); 4]) {
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds.div_ceil(STRETCH) {
        for ((_, round), times) in of.iter_mut().zip(&mut times) {
            for _ in 0..STRETCH {
                let begin = clock.now();
                round();
                times.push(clock.now().nanos_since(begin));
            }
        }
    }
    let medians = times.map(|mut times: Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / 1e3 / calls as f64
    });
    println!("{calls} at a time:");
    for ((name, _), median_us) in of.iter().zip(medians) {
        println!("  {name:22} {median_us:8.3} us a call, {:5.2} of bare", median_us / medians[0]);
    }
}
