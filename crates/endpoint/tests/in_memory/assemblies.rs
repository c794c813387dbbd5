//! Announcements of long requests: what they take of an endpoint's memory.

use std::net::IpAddr;

use petasos_endpoint::{
    CallError, Clock, CongestionConfig, Endpoint, EndpointConfig, MsgBuf, PoolConfig, SessionId,
};
use petasos_netio::Ecn;
use petasos_netio::memory::Hub;
use petasos_wire::{Kind, Packet};

use crate::joined::*;

const POOL_BYTES: usize = 96 << 20;
/// Of each answer.
const ANSWER_BYTES: u32 = 8;

/// Where a control connection comes from, and what name it has proved.
type Peer = (&'static str, Option<&'static str>);

/// A server with a small pool, and two clients. Requests of hostile sessions never come to their
/// end: of each, one packet arrives.
struct World {
    pair: Joined,
    second: Endpoint<Client>,
    /// A session of each client.
    sessions: [SessionId; 2],
    /// The server's numbers of hostile sessions.
    hostile: Vec<u32>,
}

impl World {
    /// A hostile client and an honest one at two addresses.
    fn new() -> World {
        let mut world = World::with([("10.0.0.1", None), ("10.0.0.2", None)]);
        world.hostile.truncate(1);
        world
    }

    /// Two clients, both hostile.
    fn with([one, other]: [Peer; 2]) -> World {
        let change = |config: &mut EndpointConfig| {
            config.congestion = Some(CongestionConfig::none());
            config.session.slots = 64;
        };
        let mut pair = Joined::over(Hub::captured(Default::default()), change, |config| {
            config.session.slots = 64;
            config.pool = PoolConfig { lent_bytes_max: POOL_BYTES, ..PoolConfig::default() };
            config.believe_data_addresses = true;
        });
        let mut config = EndpointConfig { seed: Some(8), ..EndpointConfig::default() };
        change(&mut config);
        let clock = Clock::Virtual(pair.time.clone());
        let mut second = Endpoint::new(config, pair.hub.port(), clock, Client::default());
        let one = open(&mut pair.client, &mut pair.server, one);
        let other = open(&mut second, &mut pair.server, other);
        pair.session = one.0;
        World { pair, second, sessions: [one.0, other.0], hostile: vec![one.1, other.1] }
    }

    /// The first client announces `count` requests of `bytes`.
    fn announce(&mut self, count: u64, bytes: usize) {
        for tag in 0..count {
            self.pair.call(ECHO, &vec![0; bytes], 1000 + tag);
        }
        self.run(20);
    }

    /// The second client's request.
    fn call(&mut self, bytes: usize, tag: u64) {
        let cx = self.second.context();
        let mut request = MsgBuf::from_slice(&pattern(bytes));
        request.as_mut_slice()[..4].copy_from_slice(&ANSWER_BYTES.to_le_bytes());
        cx.enqueue_request(self.sessions[1], LONG, request, keep, tag).expect("it is taken");
    }

    fn lent_bytes(&self) -> usize {
        self.pair.server.memory().pool.lent_bytes
    }

    /// Turns everybody, and carries what is not held back.
    fn run(&mut self, turns: u32) {
        let mut packets = Vec::new();
        for _ in 0..turns {
            self.pair.advance_ns(20_000);
            self.pair.client.run_once();
            self.second.run_once();
            self.pair.server.run_once();
            self.pair.hub.take_captured(&mut packets);
            for packet in packets.drain(..) {
                let parsed = Packet::parse(&packet.bytes).expect("it is a packet");
                let is_part = parsed.kind() == Kind::Request && parsed.packet_index() > 0;
                let from_server = packet.from == 0;
                if from_server || !is_part || !self.hostile.contains(&parsed.session()) {
                    self.pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                }
            }
        }
    }

    /// The outcome of the second client's call, which must come.
    fn outcome(&mut self, tag: u64) -> Result<usize, CallError> {
        for _ in 0..4000 {
            if let Some((_, outcome)) = self.second.state().outcomes.iter().find(|o| o.0 == tag) {
                return outcome.as_ref().map(Vec::len).map_err(|error| *error);
            }
            self.run(10);
        }
        panic!("the call does not end");
    }
}

/// Opens a session whose control connection is `peer`'s; and the server's number of it.
fn open(
    client: &mut Endpoint<Client>,
    server: &mut Endpoint<Server>,
    (from, name): Peer,
) -> (SessionId, u32) {
    let from: IpAddr = from.parse().expect("it is an address");
    let address = server.local_address();
    let [near, far] = [Some("server.test"), name].map(|name| Some(security(1, name?)));
    let near = near.filter(|_| name.is_some());
    let offer = match name {
        None => client.open_session(address, Some(1)),
        Some(_) => client.open_secured(address, Some(1)),
    };
    let offer = offer.expect("the hub reaches every port").expect("the client has room");
    // Packets go to the client's port of the hub, whatever its control connection's address.
    let mut params = offer.params;
    params.address.ip = Some(client.local_address().ip());
    let granted = server.accept_secured(&params, from, Some(1), far).expect("there is room");
    let ready = client.establish_secured(&offer, &granted, address.ip(), near);
    assert!(ready.expect("the hub reaches every port"));
    (offer.session, granted.session)
}

/// Issue 10: 64 packets took all memory for ever.
#[test]
fn issue_10_announcements_leave_memory_to_others() {
    let mut world = World::new();
    world.announce(64, 1 << 20);
    let lent = world.lent_bytes();
    assert!(lent <= POOL_BYTES / 2 + (1 << 20), "{lent} bytes for one packet each");
    assert!(world.pair.server.stats().event_loop.assemblies_refused > 0);
    world.call(8 << 20, 1);
    assert_eq!(world.outcome(1), Ok(ANSWER_BYTES as usize));
}

/// Buffers are larger than what is announced, up to twice as large: they are what counts.
#[test]
fn issue_10_announcements_count_the_memory_that_they_take() {
    let mut world = World::new();
    world.announce(64, (1 << 20) + 1);
    let lent = world.lent_bytes();
    assert!(lent <= POOL_BYTES / 2 + (2 << 20), "{lent} bytes for one packet each");
}

/// Issue 10: servers have no timers, so what nobody finished was never given back.
#[test]
fn issue_10_stalled_announcements_are_given_up_when_others_need_the_memory() {
    let mut world = World::new();
    world.announce(64, 1 << 20);
    // The hostile client falls silent: its process has stopped.
    world.pair.client.fail_session(world.pair.session, CallError::PeerFailed);
    world.pair.advance_ns(2_000_000_000);
    world.call(60 << 20, 1);
    assert_eq!(world.outcome(1), Ok(ANSWER_BYTES as usize));
    assert!(world.pair.server.stats().event_loop.assemblies_given_up > 0);
}

/// Issue 10: one name had a share at each of its addresses.
#[test]
fn issue_10_one_name_has_one_share_wherever_it_calls_from() {
    let greedy = Some("greedy.test");
    let mut world = World::with([("10.0.0.1", greedy), ("10.0.0.2", greedy)]);
    world.announce(64, 1 << 20);
    (0..64).for_each(|tag| world.call(1 << 20, tag));
    world.run(20);
    let lent = world.lent_bytes();
    assert!(lent <= POOL_BYTES / 2 + (1 << 20), "{lent} bytes for one name");
}

/// Issue 10: behind one address (a NAT, a host of many containers) one name took the share of all.
#[test]
fn issue_10_names_behind_one_address_have_a_share_each() {
    let greedy = Some("greedy.test");
    let mut world = World::with([("10.0.0.1", greedy), ("10.0.0.1", greedy)]);
    // The second client has another name's session too: what it announces comes whole.
    let (session, _) =
        open(&mut world.second, &mut world.pair.server, ("10.0.0.1", Some("other.test")));
    world.announce(64, 1 << 20);
    (0..64).for_each(|tag| world.call(1 << 20, tag));
    world.run(20);
    world.sessions[1] = session;
    world.call(8 << 20, 100);
    assert_eq!(world.outcome(100), Ok(ANSWER_BYTES as usize));
}
