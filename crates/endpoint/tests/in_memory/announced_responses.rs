//! Announcements of long responses: what they take of a client's memory.

use petasos_endpoint::{
    CallError, Clock, CongestionConfig, Endpoint, EndpointConfig, PoolConfig, SessionId,
};
use petasos_netio::Ecn;
use petasos_netio::memory::Hub;
use petasos_wire::{Kind, Packet};

use crate::joined::*;

const POOL_BYTES: usize = 96 << 20;
const CALLS: u64 = 64;
const ANNOUNCED_BYTES: usize = 2 << 20;
/// The number of the hostile server in the hub: it has the first port.
const HOSTILE: u32 = 0;

/// A client with a small pool, a server of whose long responses only first packets arrive, and
/// another server.
struct World {
    pair: Joined,
    honest: Endpoint<Server>,
    /// A session with the honest server.
    session: SessionId,
}

impl World {
    fn new() -> World {
        let change = |config: &mut EndpointConfig| {
            config.session.slots = CALLS as u32;
            config.congestion = Some(CongestionConfig::none());
        };
        let client = |config: &mut EndpointConfig| {
            change(config);
            config.pool = PoolConfig { lent_bytes_max: POOL_BYTES, ..PoolConfig::default() };
        };
        let mut pair = Joined::over(Hub::captured(Default::default()), client, change);
        let config = EndpointConfig { seed: Some(8), ..EndpointConfig::default() };
        let clock = Clock::Virtual(pair.time.clone());
        let mut honest = Endpoint::new(config, pair.hub.port(), clock, Server::default());
        register(&mut honest);
        let session = connect(&mut pair.client, &mut honest);
        World { pair, honest, session }
    }

    /// Makes the hostile server announce a long response to each call.
    fn be_announced(&mut self, first_tag: u64) {
        for tag in first_tag..first_tag + CALLS {
            self.pair.call(LONG, &(ANNOUNCED_BYTES as u32).to_le_bytes(), tag);
        }
        self.run(40);
    }

    /// Turns everybody, and carries what is not held back.
    fn run(&mut self, turns: u32) {
        let mut packets = Vec::new();
        for _ in 0..turns {
            self.pair.advance_ns(20_000);
            self.pair.client.run_once();
            self.pair.server.run_once();
            self.honest.run_once();
            self.pair.hub.take_captured(&mut packets);
            for packet in packets.drain(..) {
                let parsed = Packet::parse(&packet.bytes).expect("it is a packet");
                let is_part = parsed.kind() == Kind::Response && !parsed.is_first(Kind::Response);
                if packet.from != HOSTILE || !is_part {
                    self.pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                }
            }
        }
    }

    /// How long the honest server's response to a call for `bytes` is, which must end.
    fn call(&mut self, bytes: u32, tag: u64) -> Result<usize, CallError> {
        let hostile = std::mem::replace(&mut self.pair.session, self.session);
        self.pair.call(LONG, &bytes.to_le_bytes(), tag);
        self.pair.session = hostile;
        for _ in 0..4000 {
            if self.pair.is_over(tag) {
                return self.pair.outcome(tag).as_ref().map(Vec::len).map_err(|error| *error);
            }
            self.run(10);
        }
        panic!("the call does not end");
    }

    fn lent_bytes(&self) -> usize {
        self.pair.client.memory().pool.lent_bytes
    }

    fn refused(&self) -> u64 {
        self.pair.client.stats().event_loop.responses_refused
    }
}

/// Issue 10: a server that announces and sends nothing took the memory for all others' responses.
#[test]
fn issue_10_one_servers_announcements_leave_memory_to_others() {
    let mut world = World::new();
    world.be_announced(1000);
    assert_eq!(world.call(8 << 20, 1), Ok(8 << 20));
    assert_eq!(world.pair.outcome(1000 + CALLS - 1), &Err(CallError::OutOfMemory));
    let lent = world.lent_bytes();
    assert!(lent <= POOL_BYTES / 2 + (1 << 20), "{lent} bytes for one packet each");
}

#[test]
fn issue_10_what_a_server_no_longer_announces_is_given_back() {
    let mut world = World::new();
    world.be_announced(1000);
    let refused = world.refused();
    assert!(refused > 0);
    // Its calls end: its share is as large as it was.
    world.pair.client.close_session(world.pair.session);
    world.run(1);
    assert_eq!(world.lent_bytes(), 0);
    world.pair.session = connect(&mut world.pair.client, &mut world.pair.server);
    world.be_announced(2000);
    assert_eq!(world.refused(), 2 * refused);
    // Responses that have come whole count no more.
    for tag in 0..20 {
        assert_eq!(world.call(8 << 20, tag), Ok(8 << 20));
    }
}
