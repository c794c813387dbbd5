//! Sessions set up and failed by `petasos_control::Connection`, over simulated streams.
//!
//! A stream keeps order and loses nothing while both its ends live, like TCP. A host that dies goes
//! silent; after a restart it may answer the old stream with a reset. Streams also break on
//! command. Then sessions continue if another connection replaces the old one within the grace
//! period (C21), and otherwise end at each host when its grace period is over.

mod ends;
mod links;
mod resumption;
mod streams;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use petasos_base::{Rng, Time};
use petasos_control::{Config, Connection, Role};

use super::check::{Life, Violation};
use super::node::{Node, peer_id};
use crate::World;
use links::Peer;
use streams::{End, Stream};

/// Virtual time between two looks at the streams.
pub(super) const TICK_NANOS: u64 = 100_000;
/// How long sessions outlive their connection.
const GRACE: Duration = Duration::from_millis(4);

/// All control connections of a cluster.
pub(super) struct ControlPlane {
    config: Config,
    rng: Rng,
    streams: Vec<Stream>,
    /// What each life knows of each host.
    peers: BTreeMap<(Life, u32), Peer>,
    /// Pairs of client and server.
    pairs: Vec<(u32, u32)>,
    /// Sessions per pair.
    sessions: u32,
    /// Connects that were granted a session: by server, client and number.
    granted: BTreeSet<(Life, Life, u64)>,
    /// Numbers of ends so far: the endpoints know connections by them.
    numbers: u64,
    /// Connections on which sessions may hang, and that have not ended for a reason that counts:
    /// their numbers at both ends.
    standing: BTreeSet<u64>,
    /// Pairs of hosts that cannot reach each other, lower first, and until when.
    cuts: BTreeMap<(u32, u32), Time>,
    pub(super) tally: ControlTally,
    verdict: Result<(), Violation>,
}

petasos_base::counters! {
    /// What the control connections did.
    pub struct ControlTally {
        /// Streams opened.
        streams,
        /// Sessions granted.
        granted,
        /// Connects asked again, on a later stream or after a timeout.
        asked_again,
        /// Peers given up because they were silent.
        silent,
        /// Peers given up because another incarnation spoke in their place.
        replaced,
        /// Connections that took another one's place.
        resumed,
        /// Tickets that were shown in vain: the other end's grace had run out.
        refused,
        /// Connections given up because nothing took their place in time.
        expired,
    }
}

impl ControlPlane {
    pub(super) fn new(pairs: Vec<(u32, u32)>, sessions: u32, seed: u64) -> ControlPlane {
        let config = Config {
            heartbeat_interval: Duration::from_millis(2),
            failure_timeout: Duration::from_millis(8),
            connect_timeout: Duration::from_millis(1),
            ..Config::default()
        };
        ControlPlane {
            config,
            rng: Rng::new(seed ^ 0xc0_47_01),
            streams: Vec::new(),
            peers: BTreeMap::new(),
            pairs,
            sessions,
            granted: BTreeSet::new(),
            numbers: 0,
            standing: BTreeSet::new(),
            cuts: BTreeMap::new(),
            tally: ControlTally::default(),
            verdict: Ok(()),
        }
    }

    /// Moves bytes, runs timers and does what the connections say.
    pub(super) fn tick(&mut self, world: &mut World<Node>) -> Result<(), Violation> {
        self.expire(world);
        self.dial(world);
        for mut stream in core::mem::take(&mut self.streams) {
            self.turn(world, &mut stream, 0);
            self.turn(world, &mut stream, 1);
            if stream.ends.iter().any(|end| !end.done) {
                self.streams.push(stream);
            }
        }
        self.verdict.clone()
    }

    /// The lower host of each pair opens a stream when it has none.
    fn dial(&mut self, world: &World<Node>) {
        let ordered = self.pairs.iter().map(|&(a, b)| (a.min(b), a.max(b)));
        for (from, to) in ordered.collect::<BTreeSet<_>>() {
            if !world.is_alive(from) || !world.is_alive(to) || self.rng.chance(0.7) {
                continue;
            }
            if self.cuts.get(&(from, to)).is_some_and(|until| *until > world.now()) {
                continue;
            }
            let (from, to) = (world.host(from).app().life, world.host(to).app().life);
            let ours = |end: &End| end.life == from && end.peer.host == to.host && !end.done;
            if self.streams.iter().any(|stream| ours(&stream.ends[0])) {
                continue;
            }
            let end = |role, (life, number), (peer, far)| {
                let connection = Connection::new(self.config, role, hello(life), world.now());
                End::new((life, number), (peer, far), role, connection)
            };
            let (one, other) = ((from, self.numbers + 1), (to, self.numbers + 2));
            self.numbers += 2;
            let ends = [end(Role::Dialler, one, other), end(Role::Acceptor, other, one)];
            self.streams.push(Stream { ends });
            self.tally.streams += 1;
        }
    }

    /// Breaks the streams between two hosts.
    pub(super) fn break_between(&mut self, one: u32, other: u32) {
        for end in self.streams.iter_mut().flat_map(|stream| &mut stream.ends) {
            let hosts = (end.life.host, end.peer.host);
            end.broken |= hosts == (one, other) || hosts == (other, one);
        }
    }

    /// Breaks the streams between two hosts, and lets none take their place until then.
    pub(super) fn cut_between(&mut self, one: u32, other: u32, until: Time) {
        self.break_between(one, other);
        let cut = self.cuts.entry((one.min(other), one.max(other))).or_insert(until);
        *cut = until.max(*cut);
    }

    /// The names under which endpoints know connections.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.numbers
    }

    /// A host has started anew: some streams to its earlier life hear of it.
    pub(super) fn restarted(&mut self, host: u32) {
        for end in self.streams.iter_mut().flat_map(|stream| &mut stream.ends) {
            end.broken |= end.peer.host == host && self.rng.chance(0.5);
        }
    }

    /// Whether every client has its sessions to every living server.
    pub(super) fn is_complete(&self, world: &World<Node>) -> bool {
        self.pairs.iter().all(|&(client, server)| {
            let alive = world.is_alive(client) && world.is_alive(server);
            let server_life = world.host(server).app().life;
            let has = world.host(client).app().peers.get(&server);
            let has = has.is_some_and(|(life, sessions)| {
                *life == server_life && sessions.len() == self.sessions as usize
            });
            has || !alive
        })
    }

    fn peer(&mut self, end: &End) -> &mut Peer {
        self.peers.entry((end.life, end.peer.host)).or_default()
    }

    fn accuse(&mut self, violation: Violation) {
        if self.verdict.is_ok() {
            self.verdict = Err(violation);
        }
    }
}

/// What a life says of itself.
fn hello(life: Life) -> petasos_control::Hello {
    let both = petasos_control::Capabilities::CLIENT.with(petasos_control::Capabilities::SERVER);
    petasos_control::Hello {
        versions: petasos_control::SUPPORTED,
        incarnation: incarnation(life),
        endpoints: 1,
        capabilities: both,
        name: petasos_control::Text::new("simulated"),
        place: None,
    }
}

fn incarnation(life: Life) -> u64 {
    peer_id(life) + 1
}

/// Whether `life` is what runs on its host.
fn is_current(world: &World<Node>, life: Life) -> bool {
    world.is_alive(life.host) && world.restarts(life.host) == life.restarts
}

/// Delay of a stream, up to this.
const DELAY_NANOS_MAX: u64 = 500_000;

/// When bytes that are sent now arrive, after those that were sent before.
fn arrival(rng: &mut Rng, now: Time, last: Option<Time>) -> Time {
    let at = now.plus_nanos(20_000 + rng.below(DELAY_NANOS_MAX));
    last.map_or(at, |last| at.max(last))
}
