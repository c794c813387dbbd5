//! One run: builds the cluster, drives it until all activity has ended, and checks it.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use petasos_base::{Rng, Time};
use petasos_sim::cluster::Life;
use petasos_sim::{Action, HostSeat, LinkConfig, Links, Stats, Stop, SwitchConfig, Topology};
use petasos_sim::{World, WorldConfig};

use crate::check::{AtRest, Judge, Violation};
use crate::control::Control;
use crate::dials::Dials;
use crate::event::Event;
use crate::host::Cluster;
use crate::journal::Journal;
use crate::plan::Tally;
use crate::program::Program;
use crate::sabotage::Sabotage;
use crate::scenario::{Scenario, Step};
use crate::wiring;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How the calls went.
    pub calls: Tally,
    /// What happened to packets.
    pub network: Stats,
    /// Virtual time at the end.
    pub virtual_nanos: u64,
    /// Equal runs have equal hashes.
    pub trace_hash: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { begun, answered, aborted, late, cancelled, unavailable, .. } = self.calls;
        let Tally { otherwise, runs, pieces, .. } = self.calls;
        write!(
            f,
            "{begun} calls ({answered} answered, {aborted} aborted, {late} late, {cancelled} \
             cancelled, {unavailable} without a server, {otherwise} failed otherwise), {runs} \
             runs, {pieces} messages of streams, {} packets, {} dropped, {} ms of virtual time",
            self.network.sent,
            self.network.dropped(),
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
    /// Which rule was broken.
    pub rule: &'static str,
    /// What went wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { scenario, seed, rule, what } = self;
        write!(
            f,
            "seed={seed} scenario={scenario}: {rule}: {what}\nreplay with: cargo run --release \
             -p petasos-sim-calls --example simulate_calls -- --scenario {scenario} --seed {seed}"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario with a seed.
///
/// # Errors
/// If a rule was broken, or something panicked.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Summary, Failure> {
    simulate_sabotaged(scenario, seed, None)
}

/// [`simulate`] with an inserted bug, to test that the judge finds it.
///
/// # Errors
/// The rule that was broken; this is the expected result.
pub fn simulate_sabotaged(
    scenario: &Scenario,
    seed: u64,
    sabotage: Option<Sabotage>,
) -> Result<Summary, Failure> {
    let run = || Run::new(scenario, seed, sabotage).run();
    let (rule, what) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(violation)) => (violation.rule, violation.what),
        Err(panic) => match panic.downcast::<String>() {
            Ok(message) => ("no panics", *message),
            Err(panic) => ("no panics", (*panic.downcast_ref::<&str>().unwrap_or(&"")).to_owned()),
        },
    };
    Err(Failure { scenario: scenario.name, seed, rule, what })
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World<Program>,
    control: Control,
    journal: Journal,
    dials: Dials,
    rng: Rng,
    /// The randomness for the secrets of sealed sessions.
    keys: Option<Rng>,
}

/// Virtual time between two checks for sessions to set up.
const SLICE_NANOS: u64 = 100_000;
/// Virtual time after the end of all faults in which every call must end.
const LIVENESS_NANOS: u64 = 60_000_000_000;
/// Virtual time in which all activity of a cluster without calls must end.
const REST_NANOS: u64 = 120_000_000_000;

/// Virtual time in which routers get all their slots back.
const SETTLING_NANOS: u64 = 30_000_000_000;
/// Virtual time after which who was a member of a router that has ended has forgotten it.
const FORGETTING_NANOS: u64 = 15_000_000_000;

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, seed: u64, sabotage: Option<Sabotage>) -> Run<'a> {
        let journal = Journal::new(Judge::new(scenario.excuses()), sabotage);
        let dials = Dials::default();
        let cluster =
            Cluster { scenario: scenario.clone(), journal: journal.clone(), dials: dials.clone() };
        let seat = move |seat: HostSeat| Program::new(seat, &cluster);
        let link = LinkConfig::new(25, 1000);
        let topology = Topology::star(scenario.all_hosts(), link, SwitchConfig::default());
        let config = WorldConfig { seed, rings: scenario.rings, ..WorldConfig::default() };
        let world = World::new(config, topology, seat);
        let keys = scenario.sealed.then(|| Rng::new(seed ^ 0x5ea1));
        let control = Control::new(scenario, Rng::new(seed ^ 0xc0_4401));
        Run { scenario, world, control, journal, dials, rng: Rng::new(seed ^ 0x71e5), keys }
    }

    fn run(mut self) -> Result<Summary, Violation> {
        self.play()?;
        self.await_completion()?;
        self.journal.finish()?;
        self.come_to_rest()?;
        Ok(Summary {
            calls: self.journal.tally(),
            network: self.world.stats(),
            virtual_nanos: self.world.now().as_nanos(),
            trace_hash: self.world.trace_hash(),
        })
    }

    /// Runs the period with faults.
    fn play(&mut self) -> Result<(), Violation> {
        let profile = self.scenario.faults;
        self.world.apply(Action::Faults { links: Links::All, profile });
        for (at, step) in &self.scenario.script {
            self.run_until(*at)?;
            self.step(step);
        }
        self.run_until(self.scenario.calm_at)?;
        self.world.apply(Action::Calm);
        Ok(())
    }

    fn step(&mut self, step: &Step) {
        self.journal.set_now(self.world.now());
        match step {
            Step::World(action) => self.world.apply(action.clone()),
            Step::Crash(host) if self.world.is_alive(*host) => {
                self.crash(*host);
            }
            Step::Tell(host) if !self.world.is_alive(*host) => {
                let life = self.life(*host);
                wiring::tell_death(&mut self.world, life);
            }
            Step::Revive(host) if !self.world.is_alive(*host) => {
                let life = self.life(*host);
                wiring::tell_death(&mut self.world, life);
                self.world.apply(Action::Restart { host: *host });
            }
            Step::Drain(host) if self.world.is_alive(*host) => {
                self.journal.note(Event::Drained { host: self.life(*host) });
                self.world.with_host(*host, |program, _| program.node_mut().drain());
            }
            Step::CrashRouter(router) => self.crash_router(*router),
            Step::ReviveRouter(router) => {
                let (door, plane) = self.scenario.routers().nth(*router as usize).expect("one");
                if !self.world.is_alive(door) {
                    let life = self.life(door);
                    self.control.tell_now(&mut self.world, life);
                    self.world.apply(Action::Restart { host: plane });
                    self.world.apply(Action::Restart { host: door });
                }
            }
            Step::Crash(_) | Step::Tell(_) | Step::Revive(_) | Step::Drain(_) => {}
        }
    }

    /// A host dies.
    fn crash(&mut self, host: u32) {
        let life = self.life(host);
        self.journal.note(Event::Died { host: life });
        self.control.died(self.world.now(), life);
        self.world.apply(Action::Crash { host });
    }

    fn crash_router(&mut self, router: u32) {
        let (door, plane) = self.scenario.routers().nth(router as usize).expect("there is one");
        if self.world.is_alive(door) {
            self.world.apply(Action::Crash { host: plane });
            self.crash(door);
        }
    }

    fn life(&self, host: u32) -> Life {
        self.world.host(host).node().life
    }

    fn run_until(&mut self, end: Time) -> Result<(), Violation> {
        while self.world.now() < end {
            let slice = self.world.now().plus_nanos(SLICE_NANOS).min(end);
            self.world.run_until(slice);
            let hides = |life| self.control.hides(life);
            wiring::tick(&self.dials, &hides, &mut self.world, &mut self.rng, self.keys.as_mut());
            self.control.tick(&mut self.world, self.scenario.hosts);
            self.journal.verdict()?;
        }
        Ok(())
    }

    fn living(&self) -> impl Iterator<Item = u32> {
        (0..self.scenario.hosts).filter(|host| self.world.is_alive(*host))
    }

    /// Without faults, every call must end.
    fn await_completion(&mut self) -> Result<(), Violation> {
        let limit = self.world.now().plus_nanos(LIVENESS_NANOS);
        let is_done = |run: &Self| run.living().all(|host| run.world.host(host).node().is_done());
        while !is_done(self) {
            if self.world.now() > limit {
                self.journal.finish()?;
                let what = "tasks wait, but no call is open".to_owned();
                return Err(Violation { rule: "liveness", what });
            }
            let slice = self.world.now().plus_nanos(SLICE_NANOS);
            self.run_until(slice)?;
        }
        Ok(())
    }

    /// Without calls, each slot comes back. Then routers end, and who was a member forgets it.
    fn end_routers(&mut self) -> Result<(), Violation> {
        let routers: Vec<_> = self.scenario.routers().collect();
        if routers.is_empty() {
            return Ok(());
        }
        let limit = self.world.now().plus_nanos(SETTLING_NANOS);
        let unsettled = |run: &Self| -> Vec<_> {
            let there = routers.iter().filter(|(_, plane)| run.world.is_alive(*plane));
            let left = there.map(|(_, plane)| run.world.host(*plane).router().unsettled());
            left.filter(|left| *left != (0, 0)).collect()
        };
        while !unsettled(self).is_empty() {
            if self.world.now() > limit {
                let what = format!("waiting and outstanding: {:?}", unsettled(self));
                return Err(Violation { rule: "slots come back", what });
            }
            let slice = self.world.now().plus_nanos(100 * SLICE_NANOS);
            self.run_until(slice)?;
        }
        for router in 0..self.scenario.routers {
            self.crash_router(router);
        }
        let end = self.world.now().plus_nanos(FORGETTING_NANOS);
        self.run_until(end)
    }

    /// Without calls, all activity must end, and nothing may be kept.
    fn come_to_rest(&mut self) -> Result<(), Violation> {
        let slice = self.world.now().plus_nanos(100 * SLICE_NANOS);
        self.run_until(slice)?;
        self.end_routers()?;
        for host in (0..self.scenario.all_hosts()).filter(|host| !self.scenario.is_plane(*host)) {
            let life = self.life(host);
            wiring::tell_death(&mut self.world, life);
        }
        let limit = self.world.now().plus_nanos(REST_NANOS);
        if self.world.run_while(|_| true, limit) != Stop::Idle {
            let what = format!("something is due at {} ns", self.world.next_time().as_nanos());
            return Err(Violation { rule: "the cluster comes to rest", what });
        }
        for host in self.living().collect::<Vec<_>>() {
            let life = self.life(host);
            let at_rest = self.world.with_host(host, |program, _| {
                let node = program.node_mut();
                let (held, unfinished) = (node.held(), node.unfinished());
                AtRest { life, held, unfinished, failures: node.failures() }
            });
            at_rest.check()?;
        }
        Ok(())
    }
}
