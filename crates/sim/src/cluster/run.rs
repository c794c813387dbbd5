//! One run: builds the cluster, drives it until all activity has ended, and checks it.

use core::cell::RefCell;
use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use petasos_base::{Rng, Time};

use super::app::{App, Shared, Tally};
use super::check::{Event, Judge, Life, NetworkAtRest, Violation};
use super::control::{self, ControlPlane, ControlTally};
use super::node::Node;
use super::scenario::{Scenario, Step};
use super::sessions;
use crate::{Action, HostSeat, Links, Stats, Stop, World};

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How the calls went.
    pub calls: Tally,
    /// What happened to packets.
    pub network: Stats,
    /// Packets sent or pulled again by the clients that were alive at the end.
    pub retransmissions: u64,
    /// Packets that came over another path than that of their session, at hosts alive at the end.
    pub wrong_origin: u64,
    /// Frames that rings took, and times that one was full.
    pub rings: (u64, u64),
    /// What the control connections did, if there were any.
    pub control: Option<ControlTally>,
    /// Virtual time at the end.
    pub virtual_nanos: u64,
    /// Equal runs have equal hashes.
    pub trace_hash: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { started, answered, timeouts, cancelled, peer_failed, .. } = self.calls;
        let Tally { failed_otherwise, refused, .. } = self.calls;
        write!(
            f,
            "{started} calls ({answered} answered, {timeouts} timed out, {cancelled} cancelled, \
             {peer_failed} lost their peer, {failed_otherwise} failed otherwise, {refused} \
             refused), {} packets, {} dropped, {} retransmissions, {} ms of virtual time",
            self.network.sent,
            self.network.dropped(),
            self.retransmissions,
            self.virtual_nanos / 1_000_000,
        )
    }
}

/// A run that broke a rule, and how to repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { scenario, seed, what } = self;
        write!(
            f,
            "seed={seed} scenario={scenario}: {what}\nreplay with: cargo run --release \
             -p petasos-sim --example simulate -- --scenario {scenario} --seed {seed}"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario with a seed.
///
/// # Errors
/// If a rule was broken, or something panicked.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Summary, Failure> {
    let what = match catch_unwind(AssertUnwindSafe(|| Run::new(scenario, seed).run())) {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(violation)) => violation.to_string(),
        Err(panic) => match panic.downcast_ref::<String>() {
            Some(message) => format!("panicked: {message}"),
            None => format!("panicked: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
        },
    };
    Err(Failure { scenario: scenario.name, seed, what })
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World<Node>,
    control: Option<ControlPlane>,
    /// The randomness for the secrets of sealed sessions.
    keys: Option<Rng>,
    shared: Rc<RefCell<Shared>>,
}

/// Virtual time between two checks of limits and verdict.
const SLICE_NANOS: u64 = 1_000_000;
/// Virtual time after the end of all faults in which every call must end: the longest timeout and
/// pause, and several times the slowest retransmission.
const LIVENESS_NANOS: u64 = 20_000_000_000;
/// Virtual time in which all activity of a cluster without calls must end.
const REST_NANOS: u64 = 3_000_000_000;

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64) -> Run<'a> {
        let trusting = scenario.is_trusting();
        let judge = Judge::new(trusting, scenario.lateness_nanos_max);
        let shared = Shared::new(judge, scenario.workload.clone(), trusting);
        let (config, switches) = (scenario.endpoint(seed), scenario.switches);
        let of_app = Rc::clone(&shared);
        let seat = move |seat: HostSeat| {
            let life = Life { host: seat.number, restarts: seat.restarts };
            let app = App::new(life, seat.seed, Rc::clone(&of_app));
            Node::new(seat, &config, switches, app)
        };
        let world = World::new(scenario.world(seed), scenario.topology(), seat);
        let pairs = scenario.pairs(world.topology().hosts());
        let control = || ControlPlane::new(pairs, scenario.sessions, seed);
        let control = scenario.control.then(control);
        let keys = scenario.sealed.then(|| Rng::new(seed ^ 0x5ea1));
        Run { scenario, world, control, keys, shared }
    }

    fn run(mut self) -> Result<Summary, Violation> {
        if self.control.is_none() {
            let hosts = self.world.topology().hosts();
            for pair in self.scenario.pairs(hosts) {
                self.connect(pair);
            }
        }
        self.play()?;
        self.await_completion()?;
        self.come_to_rest(false)?;
        let numbers = self.control.iter().flat_map(ControlPlane::numbers).collect::<Vec<_>>();
        sessions::close_all(&mut self.world, &numbers);
        self.come_to_rest(true)?;
        self.shared.borrow().judge.finish()?;
        Ok(self.summary())
    }

    /// Runs the period with faults.
    fn play(&mut self) -> Result<(), Violation> {
        let profile = self.scenario.faults;
        self.world.apply(Action::Faults { links: Links::All, profile });
        for (at, step) in &self.scenario.script {
            self.run_until(*at)?;
            self.step(step)?;
        }
        self.run_until(self.scenario.calm_at)?;
        self.world.apply(Action::Calm);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Violation> {
        match step {
            Step::World(action) => self.world.apply(action.clone()),
            Step::Crash(host) => {
                let node = self.world.host(*host);
                node.check_limits()?;
                let host_life = node.app().life;
                node.app().note(self.world.now(), Event::Died { host: host_life });
                self.world.apply(Action::Crash { host: *host });
            }
            Step::Break(one, other) => {
                self.control.iter_mut().for_each(|control| control.break_between(*one, *other));
            }
            Step::CutControl(one, other, until) => {
                let controls = self.control.iter_mut();
                controls.for_each(|control| control.cut_between(*one, *other, *until));
            }
            Step::Revive(host) if self.control.is_some() => {
                self.world.apply(Action::Restart { host: *host });
                self.control.iter_mut().for_each(|control| control.restarted(*host));
            }
            Step::Revive(host) => {
                let dead = self.world.host(*host).app().life;
                sessions::fail(&mut self.world, dead);
                self.world.apply(Action::Restart { host: *host });
                self.reconnect(*host);
            }
        }
        Ok(())
    }

    fn reconnect(&mut self, host: u32) {
        let hosts = self.world.topology().hosts();
        for (client, server) in self.scenario.pairs(hosts) {
            let concerned = client == host || server == host;
            if concerned && self.world.is_alive(client) && self.world.is_alive(server) {
                self.connect((client, server));
            }
        }
    }

    fn connect(&mut self, pair: (u32, u32)) {
        sessions::connect(&mut self.world, pair, self.scenario.sessions, self.keys.as_mut());
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while self.world.now() < end {
            let slice = self.world.now().plus_nanos(self.slice_nanos()).min(end);
            self.world.run_until(slice);
            self.tick()?;
            self.check()?;
        }
        Ok(())
    }

    fn slice_nanos(&self) -> u64 {
        if self.control.is_some() { control::TICK_NANOS } else { SLICE_NANOS }
    }

    fn tick(&mut self) -> Result<(), Violation> {
        self.control.as_mut().map_or(Ok(()), |control| control.tick(&mut self.world))
    }

    /// Whether all work is done.
    fn is_done(&self) -> bool {
        let complete = |control: &ControlPlane| control.is_complete(&self.world);
        self.control.as_ref().is_none_or(complete) && self.living().all(|node| node.app().is_done())
    }

    fn check(&self) -> Result<(), Violation> {
        self.shared.borrow().judge.verdict()?;
        self.living().try_for_each(Node::check_limits)
    }

    fn living(&self) -> impl Iterator<Item = &Node> {
        let hosts = 0..self.world.topology().hosts();
        let alive = hosts.filter(|number| self.world.is_alive(*number));
        alive.map(|number| self.world.host(number))
    }

    /// Without faults, every call must end.
    fn await_completion(&mut self) -> Result<(), Violation> {
        let limit = self.world.now().plus_nanos(LIVENESS_NANOS);
        let mut stop = Stop::Limit;
        while !self.is_done() {
            self.check()?;
            if stop == Stop::Idle || self.world.now() > limit {
                return Err(self.stuck(stop));
            }
            let slice = self.world.now().plus_nanos(self.slice_nanos());
            if self.control.is_some() {
                self.world.run_until(slice);
                self.tick()?;
            } else {
                stop = self.world.run_while(|_| true, slice);
            }
        }
        self.check()
    }

    fn stuck(&self, stop: Stop) -> Violation {
        let unfinished = self.living().filter(|node| !node.app().is_done());
        let hosts: Vec<String> = unfinished.take(3).map(|node| node.app().describe()).collect();
        let when = if stop == Stop::Idle { "nothing will ever happen" } else { "time is up" };
        let calls = self.shared.borrow().judge.finish().err();
        let first = calls.map_or_else(String::new, |violation| violation.to_string());
        let what = format_args!("{when}: {hosts:?}; {first}").to_string();
        Violation::new("liveness", what)
    }

    /// Without calls, all activity must end, and nothing may be kept.
    fn come_to_rest(&mut self, closed: bool) -> Result<(), Violation> {
        let limit = self.world.now().plus_nanos(REST_NANOS);
        if self.world.run_while(|_| true, limit) != Stop::Idle {
            let next = self.world.next_time().as_nanos();
            let what = format_args!("something is due at {next} ns, closed: {closed}").to_string();
            return Err(Violation::new("the cluster comes to rest", what));
        }
        self.check()?;
        self.living().try_for_each(|node| node.at_rest(closed).check())?;
        let stats = self.world.stats();
        NetworkAtRest {
            unaccounted: stats.unaccounted(),
            in_flight: self.world.in_flight() as u64,
            sent: stats.sent,
            needed: self.shared.borrow().packets_needed,
            amplification_max: self.scenario.amplification_max,
        }
        .check()
    }

    fn summary(&self) -> Summary {
        let retransmissions = |node: &Node| node.endpoint.stats().client.retransmissions;
        let wrong_origin = |node: &Node| node.endpoint.stats().event_loop.wrong_origin;
        Summary {
            calls: self.shared.borrow().tally,
            network: self.world.stats(),
            retransmissions: self.living().map(retransmissions).sum(),
            rings: self.world.ring_stats(),
            wrong_origin: self.living().map(wrong_origin).sum(),
            control: self.control.as_ref().map(|control| control.tally),
            virtual_nanos: self.world.now().as_nanos(),
            trace_hash: self.world.trace_hash(),
        }
    }
}
