//! What can be set, and what is refused.

use core::time::Duration;

use crate::policy::{BOUND_MAX, Bound, Policy, Rule};
use crate::set::CAPACITY_MAX;

/// The most workers of a group.
pub const WORKERS_MAX: usize = CAPACITY_MAX;
/// The most requests that can wait.
pub const WAITING_MAX: usize = 1 << 20;
/// Priorities are numbers below this.
pub const PRIORITIES: u8 = 16;
/// The paper's limit of requests that are held back (R2P2, section 4.2).
pub const HOLD_REQUESTS: u32 = 32;
/// The most places of a worker on the ring of keys.
const KEY_PLACES_MAX: u16 = 1024;
/// The longest time that can be set: a day.
const DURATION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a router does. [`Config::default`] is R2P2's JBSQ, with the bounds that workers announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which worker gets a request.
    pub policy: Policy,
    /// The most workers, 1 to [`WORKERS_MAX`].
    pub workers_max: usize,
    /// The most requests that wait because no worker may take them, 2 to [`WAITING_MAX`]. Those for
    /// the primary only are at most half of it.
    pub waiting_max: usize,
    /// What a greater priority counts as (RT24): below [`PRIORITIES`].
    pub priority_max: u8,
    /// Requests that have waited this long are dropped; none are without it. A second, unless set.
    pub waiting_age_max: Option<Duration>,
    /// Holds requests back for a moment although workers have free slots.
    pub hold: Option<Hold>,
    /// Asks workers that say nothing whether they are there; none are without it.
    pub liveness: Option<Liveness>,
    /// A worker that joins, or that was ejected, gets its full weight and bound after this long.
    pub slow_start: Option<Duration>,
    /// Workers that fail much more than they serve get nothing for a while.
    pub ejection: Option<Ejection>,
    /// How requests with a key are spread.
    pub keys: Keys,
}

/// The paper's adjustment of JBSQ(n): while all workers have work, a few requests are held back for
/// a moment, since the next feedback may tell which worker is idle first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Beyond this many, the first ones go. 1 or more.
    pub requests_max: u32,
    /// After this long a request goes.
    pub time: Duration,
}

/// What is done about workers that say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// A worker with outstanding requests gets a probe when neither was anything given to it nor
    /// did it settle anything for this long (RT22), and again after twice the time, and so on.
    pub probe_after: Duration,
    /// The longest time between two probes.
    pub probe_after_max: Duration,
    /// A worker that was not heard for this long, and not after two probes, is silent (RT23).
    pub lease: Duration,
    /// A worker that was silent for this long is no member any more, also if it has a connection:
    /// it has to join anew (RT23).
    pub outlive: Duration,
}

/// Ejection of outliers by the part of their requests that have failed, as in gRPC's A50. The
/// router does not see answers: what has failed is what it is told
/// ([`handle_failure`](crate::Router::handle_failure)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Failures are counted for this long; then counting begins again.
    pub interval: Duration,
    /// Fewer failures eject nobody. 1 or more.
    pub failures_min: u32,
    /// Of what was served or has failed, this part must have failed. 1 to 100.
    pub failed_percent: u8,
    /// The first ejection's time, which doubles with each one that follows.
    pub time: Duration,
    /// The longest time of an ejection. After such a time without one, the next is a first one.
    pub time_max: Duration,
    /// At most this part of all workers are out. 0 to 100.
    pub ejected_max_percent: u8,
}

/// Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, SODA 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// How many places on the ring a worker of full weight has, up to 1024. With 0 there is no
    /// ring: requests with a key go as others do.
    pub places: u16,
    /// How many percent more than the average a worker may have. 1 to 1000.
    pub excess_percent: u16,
    /// How many a worker may have in any case, at least 1. With 1, a client that calls one at a
    /// time would find its worker busy: its answer comes before the worker's feedback.
    pub least: u16,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            policy: Policy::JSQ,
            workers_max: 256,
            waiting_max: 1 << 16,
            priority_max: PRIORITIES - 1,
            waiting_age_max: Some(Duration::from_secs(1)),
            hold: None,
            liveness: Some(Liveness::default()),
            slow_start: None,
            ejection: None,
            keys: Keys { places: 0, excess_percent: 25, least: 2 },
        }
    }
}

impl Default for Hold {
    fn default() -> Hold {
        Hold { requests_max: HOLD_REQUESTS, time: Duration::from_micros(10) }
    }
}

impl Default for Liveness {
    fn default() -> Liveness {
        Liveness {
            probe_after: Duration::from_millis(2),
            probe_after_max: Duration::from_millis(20),
            lease: Duration::from_millis(50),
            outlive: Duration::from_secs(10),
        }
    }
}

impl Default for Ejection {
    fn default() -> Ejection {
        Ejection {
            interval: Duration::from_secs(10),
            failures_min: 10,
            failed_percent: 50,
            time: Duration::from_secs(1),
            time_max: Duration::from_secs(300),
            ejected_max_percent: 25,
        }
    }
}

impl Config {
    /// Checks all of it.
    ///
    /// # Errors
    /// The first setting that is wrong. The operator's mistake.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("workers_max", self.workers_max, 1, WORKERS_MAX)?;
        within("waiting_max", self.waiting_max, 2, WAITING_MAX)?;
        within("priority_max", self.priority_max.into(), 0, usize::from(PRIORITIES) - 1)?;
        if let Bound::AtMost(bound) = self.policy.bound {
            within("bound", bound.into(), 1, BOUND_MAX.into())?;
        }
        for (name, time) in
            [("waiting_age_max", self.waiting_age_max), ("slow_start", self.slow_start)]
        {
            time.map_or(Ok(()), |time| lasts(name, time))?;
        }
        within("keys.places", self.keys.places.into(), 0, KEY_PLACES_MAX.into())?;
        within("keys.excess_percent", self.keys.excess_percent.into(), 1, 1000)?;
        within("keys.least", self.keys.least.into(), 1, u16::MAX.into())?;
        self.hold.map_or(Ok(()), |hold| hold.check(self))?;
        self.ejection.map_or(Ok(()), |ejection| ejection.check())?;
        self.liveness.map_or(Ok(()), |liveness| liveness.check())
    }
}

impl Liveness {
    fn check(self) -> Result<(), ConfigError> {
        let times = [
            ("liveness.probe_after", self.probe_after),
            ("liveness.probe_after_max", self.probe_after_max),
            ("liveness.lease", self.lease),
            ("liveness.outlive", self.outlive),
        ];
        times.into_iter().try_for_each(|(name, time)| lasts(name, time))?;
        // All are usual mistakes: the second would never be reached, or at once.
        times.windows(2).try_for_each(|pair| ordered(pair[0], pair[1]))
    }
}

impl Hold {
    fn check(self, config: &Config) -> Result<(), ConfigError> {
        // One more must have room, even if as many as can wait for the primary.
        let room = config.waiting_max.div_ceil(2);
        within("hold.requests_max", self.requests_max as usize, 1, room - 1)?;
        lasts("hold.time", self.time)?;
        match config.policy {
            Policy { rule: Rule::ShortestQueue, .. } => Ok(()),
            policy => Err(ConfigError::HoldWithout { policy }),
        }
    }
}

impl Ejection {
    fn check(self) -> Result<(), ConfigError> {
        lasts("ejection.interval", self.interval)?;
        within("ejection.failures_min", self.failures_min as usize, 1, u32::MAX as usize)?;
        within("ejection.failed_percent", self.failed_percent.into(), 1, 100)?;
        lasts("ejection.time", self.time)?;
        lasts("ejection.time_max", self.time_max)?;
        within("ejection.ejected_max_percent", self.ejected_max_percent.into(), 0, 100)?;
        ordered(("ejection.time", self.time), ("ejection.time_max", self.time_max))
    }
}

fn within(name: &'static str, value: usize, least: usize, most: usize) -> Result<(), ConfigError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::OutOfRange { name, value, least, most }),
    }
}

fn lasts(name: &'static str, time: Duration) -> Result<(), ConfigError> {
    match time.is_zero() || time > DURATION_MAX {
        true => Err(ConfigError::Time { name, time }),
        false => Ok(()),
    }
}

fn ordered(
    (name, time): (&'static str, Duration),
    (other, most): (&'static str, Duration),
) -> Result<(), ConfigError> {
    match time <= most {
        true => Ok(()),
        false => Err(ConfigError::Order { name, time, other, most }),
    }
}

/// Why a configuration is refused. The operator's mistake; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number is too small or too large.
    #[error("`{name}` is {value}, but must be from {least} to {most}")]
    OutOfRange {
        /// Which one.
        name: &'static str,
        /// What it is.
        value: usize,
        /// The least that it can be.
        least: usize,
        /// The most that it can be.
        most: usize,
    },
    /// A time is zero, or longer than a day.
    #[error("`{name}` is {time:?}, but must be more than 0 and at most a day")]
    Time {
        /// Which one.
        name: &'static str,
        /// What it is.
        time: Duration,
    },
    /// Requests are held back until a worker is idle, but the policy does not prefer idle ones.
    #[error("`hold` needs the policy jsq or jbsqN, not {policy}")]
    HoldWithout {
        /// The policy.
        policy: Policy,
    },
    /// A time is longer than one that it must not exceed.
    #[error("`{name}` is {time:?}, but must not exceed `{other}`, {most:?}")]
    Order {
        /// Which one.
        name: &'static str,
        /// What it is.
        time: Duration,
        /// Which one it must not exceed.
        other: &'static str,
        /// What that is.
        most: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.check().expect_err("it is wrong").to_string()
    }

    #[test]
    fn defaults_are_right() {
        let optional = Config {
            hold: Some(Hold::default()),
            ejection: Some(Ejection::default()),
            ..Config::default()
        };
        assert_eq!((Config::default().check(), optional.check()), (Ok(()), Ok(())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let ejection = |change: fn(&mut Ejection)| {
            let mut ejection = Ejection::default();
            change(&mut ejection);
            Some(ejection)
        };
        let cases = [
            (
                refusal(|of| of.workers_max = 4097),
                "`workers_max` is 4097, but must be from 1 to 4096",
            ),
            (refusal(|of| of.waiting_max = 1), "`waiting_max` is 1, but must be from 2 to 1048576"),
            (refusal(|of| of.priority_max = 16), "`priority_max` is 16, but must be from 0 to 15"),
            (
                refusal(|of| (of.waiting_max, of.hold) = (63, Some(Hold::default()))),
                "`hold.requests_max` is 32, but must be from 1 to 31",
            ),
            (
                refusal(|of| of.policy.bound = Bound::AtMost(0)),
                "`bound` is 0, but must be from 1 to 4095",
            ),
            (
                refusal(|of| of.slow_start = Some(Duration::ZERO)),
                "`slow_start` is 0ns, but must be more than 0 and at most a day",
            ),
            (
                refusal(|of| {
                    let lease = Duration::from_millis(10);
                    of.liveness = Some(Liveness { lease, ..Liveness::default() });
                }),
                "`liveness.probe_after_max` is 20ms, but must not exceed `liveness.lease`, 10ms",
            ),
            (
                refusal(|of| {
                    of.hold = Some(Hold::default());
                    of.policy.rule = Rule::Random;
                }),
                "`hold` needs the policy jsq or jbsqN, not random",
            ),
            (
                refusal(|of| of.ejection = ejection(|of| of.failed_percent = 101)),
                "`ejection.failed_percent` is 101, but must be from 1 to 100",
            ),
            (
                refusal(|of| of.ejection = ejection(|of| of.time_max = Duration::from_millis(1))),
                "`ejection.time` is 1s, but must not exceed `ejection.time_max`, 1ms",
            ),
            (
                refusal(|of| of.keys.excess_percent = 0),
                "`keys.excess_percent` is 0, but must be from 1 to 1000",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
