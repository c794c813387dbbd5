//! Announcements of long requests: what they take of an endpoint's memory.

mod joined;

use joined::*;
use petasos_endpoint::{
    CallError, Clock, CongestionConfig, Endpoint, EndpointConfig, MsgBuf, PoolConfig, SessionId,
};
use petasos_netio::Ecn;
use petasos_wire::{Kind, Packet};

const POOL_BYTES: usize = 96 << 20;
/// Of each answer.
const ANSWER_BYTES: u32 = 8;
/// The clients' numbers in the hub: the server's port is the first.
const HOSTILE: u32 = 1;

/// A server with a small pool, a client whose requests never come to their end, and another.
struct World {
    pair: Joined,
    honest: Endpoint<Client>,
    session: SessionId,
}

impl World {
    fn new() -> World {
        let hub = petasos_netio::memory::Hub::captured(Default::default());
        let change = |config: &mut EndpointConfig| {
            config.congestion = Some(CongestionConfig::none());
            config.session.slots = 64;
        };
        let mut pair = Joined::over(hub, change, |config| {
            config.session.slots = 64;
            config.pool = PoolConfig { lent_bytes_max: POOL_BYTES, ..PoolConfig::default() };
        });
        let mut config = EndpointConfig { seed: Some(8), ..EndpointConfig::default() };
        change(&mut config);
        let clock = Clock::Virtual(pair.time.clone());
        let mut honest = Endpoint::new(config, pair.hub.port(), clock, Client::default());
        let session = connect(&mut honest, &mut pair.server);
        World { pair, honest, session }
    }

    /// Announces `count` requests of `bytes`, of each of which one packet arrives.
    fn announce(&mut self, count: u64, bytes: usize) {
        for tag in 0..count {
            self.pair.call(ECHO, &vec![0; bytes], 1000 + tag);
        }
        self.run(20);
    }

    fn call(&mut self, bytes: usize, tag: u64) {
        let cx = self.honest.context();
        let mut request = MsgBuf::from_slice(&pattern(bytes));
        request.as_mut_slice()[..4].copy_from_slice(&ANSWER_BYTES.to_le_bytes());
        cx.enqueue_request(self.session, LONG, request, keep, tag).expect("it is taken");
    }

    /// Turns everybody, and carries what is not held back.
    fn run(&mut self, turns: u32) {
        let mut packets = Vec::new();
        for _ in 0..turns {
            self.pair.advance_ns(20_000);
            self.pair.client.run_once();
            self.honest.run_once();
            self.pair.server.run_once();
            self.pair.hub.take_captured(&mut packets);
            for packet in packets.drain(..) {
                let parsed = Packet::parse(&packet.bytes).expect("it is a packet");
                let is_part = parsed.kind() == Kind::Request && parsed.packet_index() > 0;
                if packet.from != HOSTILE || !is_part {
                    self.pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                }
            }
        }
    }

    /// The outcome of an honest call, which must come.
    fn outcome(&mut self, tag: u64) -> Result<usize, CallError> {
        for _ in 0..4000 {
            if let Some((_, outcome)) = self.honest.state().outcomes.iter().find(|o| o.0 == tag) {
                return outcome.as_ref().map(Vec::len).map_err(|error| *error);
            }
            self.run(10);
        }
        panic!("the call does not end");
    }
}

/// Issue 10: 64 packets took all memory for ever.
#[test]
fn issue_10_announcements_leave_memory_to_others() {
    let mut world = World::new();
    world.announce(64, 1 << 20);
    let lent = world.pair.server.memory().pool.lent_bytes;
    assert!(lent <= POOL_BYTES / 2 + (1 << 20), "{lent} bytes for one packet each");
    assert!(world.pair.server.stats().event_loop.assemblies_refused > 0);
    world.call(8 << 20, 1);
    assert_eq!(world.outcome(1), Ok(ANSWER_BYTES as usize));
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
