//! Sessions set up and failed by `petasos_control::Connection`, over simulated streams.
//!
//! A stream keeps order and loses nothing while both its ends live, like TCP. A host that dies
//! falls silent; one that has started anew may answer the old stream with a reset. Streams break
//! on command as well: then sessions live on, and connects are repeated on the next stream.

mod ends;
mod streams;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use petasos_base::{Rng, Time};
use petasos_control::{Answers, Config, Connection, Role};
use petasos_endpoint::SessionOffer;

use super::check::{Life, Violation};
use super::node::{Node, peer_id};
use crate::World;
use streams::{End, Stream};

/// Virtual time between two looks at the streams.
pub(super) const TICK_NANOS: u64 = 100_000;

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
    }
}

/// What a life knows of a host.
#[derive(Default)]
struct Peer {
    /// The life that its sessions lead to.
    life: Option<Life>,
    /// Connects of that life that it has answered on earlier streams.
    answers: Answers,
    /// Connects to it without an answer.
    attempts: BTreeMap<u64, SessionOffer>,
    next_id: u64,
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
            tally: ControlTally::default(),
            verdict: Ok(()),
        }
    }

    /// Moves bytes, runs timers and does what the connections say.
    pub(super) fn tick(&mut self, world: &mut World<Node>) -> Result<(), Violation> {
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
            let (from, to) = (world.host(from).app().life, world.host(to).app().life);
            let ours = |end: &End| end.life == from && end.peer.host == to.host && !end.done;
            if self.streams.iter().any(|stream| ours(&stream.ends[0])) {
                continue;
            }
            let end = |role, life, peer| {
                let connection = Connection::new(self.config, role, hello(life), world.now());
                End::new(life, peer, connection)
            };
            let ends = [end(Role::Dialler, from, to), end(Role::Acceptor, to, from)];
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
