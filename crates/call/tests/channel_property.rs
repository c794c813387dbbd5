//! What always holds of a channel, whatever its servers and calls do: a hundred addresses come and
//! go, connects succeed and fail, sessions are lost and drained, calls come, end and are given up.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use petasos_base::{Rng, Time};
use petasos_call::Load;
use petasos_call::balance::{Balance, Report};
use petasos_call::channel::{
    Action, Address, Avoid, CallOptions, ChannelConfig, ChannelCore, PeerIndex, Pick, PickError,
    SESSIONS_MAX, SessionIndex, Ticket,
};
use proptest::prelude::*;

const ADDRESSES: u64 = 100;

/// A session as the driver knows it.
struct Session {
    peer: PeerIndex,
    capacity: u32,
    /// Calls and probes.
    running: u32,
    /// It is being drained, so no call may come.
    draining: bool,
}

/// A driver with all that is under way, which checks each output.
struct World {
    core: ChannelCore,
    rng: Rng,
    now: Time,
    streams: bool,
    listed: HashSet<Address>,
    connects: Vec<PeerIndex>,
    lookups: u32,
    sessions: HashMap<SessionIndex, Session>,
    calls: Vec<SessionIndex>,
    probes: Vec<SessionIndex>,
    waiting: HashMap<Ticket, CallOptions>,
    /// Calls that were made, and that ended in whatever way.
    made: u64,
    over: u64,
}

impl World {
    fn new(balance: Balance, streams: bool, resolves: bool, seed: u64) -> World {
        let sessions_max = [1, 3, SESSIONS_MAX][seed as usize % 3];
        let waiting_max = 500;
        let defaults = ChannelConfig::default();
        let config =
            ChannelConfig { balance, streams, resolves, waiting_max, sessions_max, ..defaults };
        World {
            core: ChannelCore::new(config),
            rng: Rng::new(seed),
            now: Time::ZERO,
            streams,
            listed: HashSet::new(),
            connects: Vec::new(),
            lookups: 0,
            sessions: HashMap::new(),
            calls: Vec::new(),
            probes: Vec::new(),
            waiting: HashMap::new(),
            made: 0,
            over: 0,
        }
    }

    /// Something random happens, then the outputs are taken.
    fn step(&mut self) {
        match self.rng.below(100) {
            0..2 => self.relist(),
            2..40 => self.call(),
            40..70 => self.end_call(),
            70..80 => self.end_connect(70),
            80..84 => self.end_probe(),
            84..87 => self.end_lookup(),
            87..88 => self.lose(),
            88..89 => {
                let has_successor = self.rng.chance(0.5);
                self.drain(has_successor);
            }
            89..92 => self.abandon(),
            92..99 => self.now = self.now + Duration::from_micros(self.rng.below(2000)),
            _ => self.now = self.now.max(self.core.next_timeout().min(self.latest())),
        }
        self.poll();
    }

    /// Time does not run away if there is no timeout.
    fn latest(&self) -> Time {
        self.now + Duration::from_secs(20)
    }

    /// Addresses are given to the channel, whether it looks them up or not.
    fn relist(&mut self) {
        let list = self.random_addresses();
        self.core.handle_addresses(&list, self.now);
    }

    fn random_addresses(&mut self) -> Vec<Address> {
        let share = self.rng.below(10) as f64 / 10.0;
        let address = |at| SocketAddr::from((Ipv4Addr::LOCALHOST, at as u16));
        let all = (1..=ADDRESSES).map(address);
        let list: Vec<Address> = all.filter(|_| self.rng.chance(share)).collect();
        self.listed = list.iter().copied().collect();
        list
    }

    fn call(&mut self) {
        let deadline = match self.rng.below(3) {
            0 => Time::NEVER,
            _ => self.now + Duration::from_micros(self.rng.below(50_000)),
        };
        let mut avoid = Avoid::default();
        for _ in 0..self.rng.below(4) {
            self.pick_one(&self.calls).into_iter().for_each(|at| avoid.add(self.calls[at]));
        }
        let call = CallOptions { wait_for_ready: self.rng.chance(0.5), deadline, avoid };
        self.made += 1;
        match self.core.pick(call, self.now, &mut self.rng) {
            Pick::Session(session) => self.start(session),
            Pick::Wait(ticket) => assert!(self.waiting.insert(ticket, call).is_none()),
            Pick::Fail(_) => self.over += 1,
        }
    }

    fn start(&mut self, session: SessionIndex) {
        self.occupy(session);
        self.calls.push(session);
    }

    fn occupy(&mut self, index: SessionIndex) {
        let session = self.sessions.get_mut(&index).expect("a session that is open");
        assert!(!session.draining, "no calls to a session that drains");
        session.running += 1;
        assert!(session.running <= session.capacity, "a session never has more than it carries");
    }

    fn pick_one<T>(&self, list: &[T]) -> Option<usize> {
        (!list.is_empty()).then(|| self.made as usize % list.len())
    }

    fn end_call(&mut self) {
        let Some(at) = self.pick_one(&self.calls) else { return };
        let session = self.calls.swap_remove(at);
        self.over += 1;
        self.leave(session);
        let report = self.rng.chance(0.8).then(|| self.report());
        self.core.handle_ended(session, report, self.now);
    }

    fn report(&mut self) -> Report {
        let time = Duration::from_micros(self.rng.below(500));
        let load = self.rng.chance(0.9).then(|| Load::new(self.rng.below(40) as usize, time));
        Report { latency: time, load }
    }

    fn leave(&mut self, session: SessionIndex) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.running -= 1;
        }
    }

    fn end_probe(&mut self) {
        let Some(session) = self.probes.pop() else { return };
        self.leave(session);
        let report = self.rng.chance(0.8).then(|| self.report());
        self.core.handle_probed(session, report, self.now, &mut self.rng);
    }

    fn end_connect(&mut self, percent: u64) {
        let Some(at) = self.pick_one(&self.connects) else { return };
        let peer = self.connects.swap_remove(at);
        if self.rng.below(100) >= percent {
            return self.core.handle_failed(peer, &mut self.rng);
        }
        let slots = 1 + self.rng.below(6) as u32;
        let Some(index) = self.core.handle_connected(peer, slots, self.now) else { return };
        let capacity = if self.streams { slots / 2 } else { slots };
        let session = Session { peer, capacity, running: 0, draining: false };
        assert!(self.sessions.insert(index, session).is_none(), "sessions are told apart");
        let numbers: HashSet<usize> = self.sessions.keys().map(|index| index.number()).collect();
        assert_eq!(numbers.len(), self.sessions.len(), "numbers of present sessions differ");
        let of_peer = self.sessions.values().filter(|session| session.peer == peer).count();
        assert!(of_peer <= SESSIONS_MAX);
    }

    fn end_lookup(&mut self) {
        if self.lookups > 0 {
            self.lookups -= 1;
            if self.rng.chance(0.3) {
                self.core.handle_unresolved(self.now, &mut self.rng);
            } else {
                let list = self.random_addresses();
                self.core.handle_resolved(&list, self.now);
            }
        }
    }

    /// A random session that is there.
    fn a_session(&mut self) -> Option<SessionIndex> {
        let mut all: Vec<SessionIndex> = self.sessions.keys().copied().collect();
        all.sort_by_key(|index| index.number());
        self.pick_one(&all).map(|at| all[at])
    }

    fn lose(&mut self) {
        let Some(session) = self.a_session() else { return };
        self.core.handle_lost(session, self.now);
        // Its calls end later, or never: both are allowed.
        self.sessions.remove(&session);
    }

    fn drain(&mut self, has_successor: bool) {
        let Some(index) = self.a_session() else { return };
        match has_successor {
            true => self.core.handle_succeeded(index),
            false => self.core.handle_draining(index, self.now),
        }
        self.sessions.get_mut(&index).expect("it is there").draining = true;
    }

    fn abandon(&mut self) {
        let Some(&ticket) = self.waiting.keys().min() else { return };
        self.core.handle_abandoned(ticket);
        self.waiting.remove(&ticket);
        self.over += 1;
    }

    fn poll(&mut self) {
        while let Some((ticket, picked)) = self.core.poll_waiting(self.now, &mut self.rng) {
            let call = self.waiting.remove(&ticket).expect("a call that waits");
            match picked {
                Ok(session) => self.start(session),
                Err(error) => {
                    self.check(error, call);
                    self.over += 1;
                }
            }
        }
        while let Some(action) = self.core.poll_action(self.now) {
            self.act(action);
        }
        assert_eq!(self.core.waiting(), self.waiting.len());
        assert!(self.core.next_timeout() > self.now, "all that is due has been done");
    }

    fn check(&self, error: PickError, call: CallOptions) {
        match error {
            PickError::DeadlineExceeded => assert!(call.deadline <= self.now),
            _ => assert!(!call.wait_for_ready && !self.core.is_ready(), "{error}"),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { peer, address, slots } => {
                assert!(self.listed.contains(&address) && (slots == 32 || slots == 64));
                assert!(!self.connects.contains(&peer), "one connect at a time");
                self.connects.push(peer);
            }
            Action::Close(index) => {
                let session = self.sessions.remove(&index).expect("a session that is open");
                assert_eq!(session.running, 0, "calls are not cut off");
            }
            Action::Probe(index) => {
                self.occupy(index);
                self.probes.push(index);
            }
            Action::Resolve => {
                self.lookups += 1;
                assert_eq!(self.lookups, 1, "one lookup at a time");
            }
        }
    }

    /// From now on servers connect and calls end: all that waits must go somewhere.
    fn settle(&mut self) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        self.core.handle_addresses(&[address], self.now);
        self.listed = HashSet::from([address]);
        for _ in 0..20_000 {
            self.poll();
            if self.over == self.made && self.connects.is_empty() {
                return;
            }
            while !self.connects.is_empty() {
                self.end_connect(100);
            }
            while !self.probes.is_empty() {
                self.end_probe();
            }
            while !self.calls.is_empty() {
                self.end_call();
            }
            if core::mem::take(&mut self.lookups) > 0 {
                self.core.handle_resolved(&[address], self.now);
            }
            self.poll();
            let soon = self.now + Duration::from_secs(1);
            self.now = self.core.next_timeout().min(soon);
        }
        panic!("{} of {} calls have ended", self.over, self.made);
    }
}

fn balances() -> impl Strategy<Value = Balance> {
    prop::sample::select(vec![
        Balance::PickFirst,
        Balance::RoundRobin,
        Balance::PowerOfTwo,
        Balance::Prequal,
    ])
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(96))]

    #[test]
    fn a_channel_keeps_its_invariants(
        balance in balances(),
        streams in any::<bool>(),
        resolves in any::<bool>(),
        seed in any::<u64>(),
        steps in 1..4000_u32,
    ) {
        run(balance, streams, resolves, seed, steps);
    }
}

fn run(balance: Balance, streams: bool, resolves: bool, seed: u64, steps: u32) {
    let mut world = World::new(balance, streams, resolves, seed);
    world.relist();
    for _ in 0..steps {
        world.step();
    }
    world.settle();
    assert_eq!(world.waiting.len(), 0);
}

/// Issue 10: addresses that came during a lookup let the channel ask for a second one.
#[test]
fn issue_10_one_lookup_at_a_time() {
    run(Balance::PowerOfTwo, false, true, 10_757_290_068_091_230_098, 1210);
}

#[test]
fn addresses_that_are_given_do_not_end_a_lookup() {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let config = ChannelConfig { resolves: true, ..ChannelConfig::default() };
    let (mut core, mut rng) = (ChannelCore::new(config), Rng::new(1));
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let lookups = |core: &mut ChannelCore, now| {
        let actions = core::iter::from_fn(|| core.poll_action(now));
        actions.filter(|action| *action == Action::Resolve).count()
    };
    let call = CallOptions { wait_for_ready: true, ..CallOptions::default() };
    assert!(matches!(core.pick(call, at(0), &mut rng), Pick::Wait(_)));
    assert_eq!(lookups(&mut core, at(0)), 1);
    core.handle_addresses(&[address(1)], at(1));
    assert_eq!(lookups(&mut core, at(60)), 0, "the first lookup has not ended");
    core.handle_resolved(&[address(1)], at(60));
    assert_eq!(lookups(&mut core, at(90)), 1);
}
