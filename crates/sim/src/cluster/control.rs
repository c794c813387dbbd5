//! Sessions set up and failed by `petasos_control::Connection`, over simulated streams.
//!
//! While both its ends live, a stream keeps order and loses nothing, like TCP. A host that dies
//! becomes silent; after a restart it may answer the old stream with a reset. Streams can also be
//! broken on command. Then sessions continue if another connection replaces the old one within the
//! grace period (C21); otherwise they end at each host when its grace period is over.

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

/// Virtual time between two updates of the streams.
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
    /// The number of ends so far, from which the endpoints' names of connections come.
    numbers: u64,
    /// The numbers, at both ends, of connections that sessions may depend on and that have not
    /// ended for a valid reason.
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
        /// Peers given up because another incarnation answered in their place.
        replaced,
        /// Connections that replaced another one.
        resumed,
        /// Tickets that were refused because the grace period at the other end was over.
        refused,
        /// Connections given up because nothing replaced them in time.
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

    /// Moves bytes, runs timers and performs the connections' actions.
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

    /// Breaks the streams between two hosts, and prevents new ones until the given time.
    pub(super) fn cut_between(&mut self, one: u32, other: u32, until: Time) {
        self.break_between(one, other);
        let cut = self.cuts.entry((one.min(other), one.max(other))).or_insert(until);
        *cut = until.max(*cut);
    }

    /// The names under which endpoints know connections.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.numbers
    }

    /// A host was restarted: some streams to its earlier life learn of it.
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

/// What a life says in its hello.
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

/// Whether `life` is the current one of its host.
fn is_current(world: &World<Node>, life: Life) -> bool {
    world.is_alive(life.host) && world.restarts(life.host) == life.restarts
}

/// The maximum delay of a stream.
const DELAY_NANOS_MAX: u64 = 500_000;

/// When bytes that are sent now arrive, after those that were sent before.
fn arrival(rng: &mut Rng, now: Time, last: Option<Time>) -> Time {
    let at = now.plus_nanos(20_000 + rng.below(DELAY_NANOS_MAX));
    last.map_or(at, |last| at.max(last))
}
