//! What is simulated.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use petasos_router::{BOUND_MAX, Bound, Config, Policy, Rule, UnknownPolicy, WORKERS_MAX};

use crate::service::Service;

/// The most requests that wait in the router. More come only if the workers cannot keep up.
const WAITING_MAX: usize = 1 << 18;
/// The highest load at which the queues of workers, where policies do not bound them, stay below
/// the bound that all have: 4095 requests.
const UNBOUNDED_LOAD_MAX: f64 = 0.995;
/// The longest delay, in mean service times.
const DELAY_MAX: f64 = 1000.0;

/// Workers behind a router, and requests that come at random (a Poisson process).
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// How long workers take.
    pub service: Service,
    /// Which worker gets a request.
    pub discipline: Discipline,
    /// How many workers there are. Each has one request at work, and those behind it in order.
    pub workers: usize,
    /// The part of the workers' time that requests need. Above 0 and below 1.
    pub load: f64,
    /// The round trip between router and worker, in mean service times: how long after the end of a
    /// request its worker can have one that was given because of that. Half of it is the way of a
    /// request, and half that of feedback.
    pub delay: f64,
    /// How long the router holds a few requests back for an idle worker, in mean service times; not
    /// at all with 0.
    pub hold: f64,
}

/// Who gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// One queue from which each worker takes the next request when it has ended one, without any
    /// delay: M/G/k, which no first-come-first-served policy is better than.
    Single,
    /// A policy of the router.
    Router(Policy),
}

impl Discipline {
    /// The router's random choice.
    pub(crate) const RANDOM: Discipline =
        Discipline::Router(Policy { rule: Rule::Random, bound: Bound::Announced });

    /// Whether what the router knows of workers does not matter.
    pub(crate) fn is_blind(self) -> bool {
        matches!(self, Discipline::Router(policy) if !policy.compares_loads())
    }

    /// Whether a worker may have as many requests as come.
    fn is_unbounded(self) -> bool {
        matches!(self, Discipline::Router(Policy { bound: Bound::Announced, .. }))
    }

    fn policy(self) -> Policy {
        match self {
            Discipline::Single => Policy { rule: Rule::ShortestQueue, bound: Bound::AtMost(1) },
            Discipline::Router(policy) => policy,
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discipline::Single => f.write_str("single"),
            Discipline::Router(policy) => policy.fmt(f),
        }
    }
}

/// A name that no policy of the simulator has. The user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no policy; there are random, pl2, rr, jsq, jbsqN (jbsq3) and single")]
pub struct UnknownDiscipline {
    name: String,
}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    fn from_str(name: &str) -> Result<Discipline, UnknownDiscipline> {
        let unknown = || UnknownDiscipline { name: name.to_owned() };
        match name {
            "single" => Ok(Discipline::Single),
            // It is jsq: workers announce as much as they can here.
            "jbsq" => Err(unknown()),
            name => {
                let policy = name.parse().map_err(|_: UnknownPolicy| unknown())?;
                Ok(Discipline::Router(policy))
            }
        }
    }
}

impl Model {
    /// The half of the delay that a request takes to its worker.
    pub fn way(&self) -> f64 {
        self.delay / 2.0
    }

    /// Checks all of it.
    ///
    /// # Errors
    /// The first parameter that is wrong. The user's mistake.
    pub fn check(&self) -> Result<(), ModelError> {
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(ModelError::Workers(self.workers));
        }
        // NaN is not in ranges.
        if !(0.01..=0.999).contains(&self.load) {
            return Err(ModelError::Load(self.load));
        }
        if self.discipline.is_unbounded() && self.load > UNBOUNDED_LOAD_MAX {
            let Model { discipline, load, .. } = *self;
            return Err(ModelError::Bounded { discipline, load });
        }
        if !(0.0..=DELAY_MAX).contains(&self.delay) {
            return Err(ModelError::Time { name: "delay", value: self.delay });
        }
        if !(0.0..=DELAY_MAX).contains(&self.hold) {
            return Err(ModelError::Time { name: "hold", value: self.hold });
        }
        Ok(())
    }

    /// The router's configuration, times being in ticks, of which a mean service time has so many.
    pub(crate) fn config(&self, ticks: f64) -> Config {
        let policy = self.discipline.policy();
        let can_hold = self.hold > 0.0 && self.discipline != Discipline::Single;
        let can_hold = can_hold && policy.rule == Rule::ShortestQueue;
        let hold = petasos_router::Hold {
            time: Duration::from_nanos((self.hold * ticks) as u64 + 1),
            ..petasos_router::Hold::default()
        };
        Config {
            policy,
            workers_max: self.workers,
            waiting_max: WAITING_MAX,
            waiting_age_max: None,
            liveness: None,
            hold: can_hold.then_some(hold),
            ..Config::default()
        }
    }
}

/// What is wrong with a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Too few or too many workers.
    #[error("{0} workers cannot be simulated; from 1 to {WORKERS_MAX} can")]
    Workers(usize),
    /// No load, or workers could not keep up.
    #[error("a load of {0} cannot be simulated; from 0.01 to 0.999 can")]
    Load(f64),
    /// Workers' queues would meet a bound that the policy is not said to have.
    #[error(
        "a load of {load} cannot be simulated with {discipline}; up to {UNBOUNDED_LOAD_MAX} can: \
         with more, workers have as many requests as they can have, {BOUND_MAX}"
    )]
    Bounded {
        /// Which policy.
        discipline: Discipline,
        /// The load.
        load: f64,
    },
    /// A delay is negative, or too long.
    #[error(
        "a {name} of {value} mean service times cannot be simulated; from 0 to {DELAY_MAX} can"
    )]
    Time {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: f64,
    },
    /// So many requests would be needed, or would take longer, in simulated time, than times can
    /// be.
    #[error("{requests} requests take too long with {workers} workers at a load of {load}")]
    TooLong {
        /// How many requests.
        requests: u64,
        /// How many workers.
        workers: usize,
        /// The load.
        load: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let service = Service::Exponential;
        Model {
            service,
            discipline: Discipline::Single,
            workers: 16,
            load: 0.5,
            delay: 0.0,
            hold: 0.0,
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["random", "pl2", "rr", "jsq", "jbsq1", "jbsq12", "single"] {
            let discipline: Discipline = name.parse().expect("it is one");
            assert_eq!(discipline.to_string(), name);
        }
        for name in ["jbsq", "jbsqN", "jbsq0", "", "Single"] {
            assert!(name.parse::<Discipline>().is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let refused = |change: fn(&mut Model)| {
            let mut model = model();
            change(&mut model);
            model.check().expect_err("it is wrong").to_string()
        };
        assert_eq!(model().check(), Ok(()));
        assert!(refused(|model| model.workers = 0).starts_with("0 workers"));
        assert!(refused(|model| model.load = 1.0).starts_with("a load of 1 "));
        let with = |discipline: &str, load| {
            let discipline = discipline.parse().expect("it is a policy");
            Model { discipline, load, ..model() }.check()
        };
        for policy in ["random", "pl2", "rr", "jsq"] {
            let error = with(policy, 0.996).expect_err("queues meet their bound").to_string();
            assert!(error.contains(policy) && error.contains("4095"), "{error}");
            assert_eq!(with(policy, 0.995), Ok(()));
        }
        assert_eq!((with("jbsq4095", 0.999), with("single", 0.999)), (Ok(()), Ok(())));
        assert!(refused(|model| model.load = f64::NAN).starts_with("a load of NaN"));
        assert!(refused(|model| model.delay = -1.0).starts_with("a delay of -1 "));
        assert!(refused(|model| model.hold = 1e9).starts_with("a hold of 1000000000 "));
    }
}
