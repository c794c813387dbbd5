//! Runs of scenarios, and how they end.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::judge::{Verdict, Violation};
use crate::sabotage::Sabotage;
use crate::scenario::Scenario;
use crate::world::World;

/// A rule was broken. Displayed, it says how to repeat the run.
#[derive(Debug)]
pub struct Failure {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// Which rule was broken first.
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
             -p petasos-sim-groups --example simulate_groups -- --scenario {scenario} --seed {seed}"
        )
    }
}

impl std::error::Error for Failure {}

/// Runs a scenario, and judges it.
///
/// # Errors
/// If a rule was broken, or something panicked.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Verdict, Failure> {
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
) -> Result<Verdict, Failure> {
    let run = || {
        let mut world = World::new(scenario, seed, sabotage);
        world.run();
        world.verdict()
    };
    let (rule, what) = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(verdict)) => return Ok(verdict),
        Ok(Err(Violation { rule, what })) => (rule, what),
        Err(panic) => match panic.downcast::<String>() {
            Ok(message) => ("no panics", *message),
            Err(panic) => ("no panics", (*panic.downcast_ref::<&str>().unwrap_or(&"")).to_owned()),
        },
    };
    Err(Failure { scenario: scenario.name, seed, rule, what })
}
