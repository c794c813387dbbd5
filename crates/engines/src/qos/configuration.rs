//! The configuration of the policy.

use petasos_engine::PolicyError;
use serde::Deserialize;

use super::order::Order;
use super::share::{self, Weight};
use crate::config::{self, Kind, Limit, RULES_MAX, listed, within};

/// Among whose messages there is an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    /// Those of one application. Applications divide what there is by weight.
    #[default]
    Application,
    /// Those of all applications of a runtime that the policy applies to.
    Runtime,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Configuration {
    pub(super) order: Order,
    #[serde(default)]
    pub(super) scope: Scope,
    #[serde(default = "unlimited")]
    pub(super) bytes_per_s: Limit,
    /// Bytes that may go at once.
    #[serde(default = "burst_bytes")]
    pub(super) burst_bytes: u64,
    /// Bytes of requests that may be without an answer, of each application or, by scope, of all of
    /// a runtime. A single one always may.
    #[serde(default = "unlimited")]
    pub(super) in_flight_bytes_max: Limit,
    /// Of applications that are not listed, each has the weight 1.
    #[serde(default)]
    pub(super) applications: Vec<Weight>,
    #[serde(default = "held_max")]
    pub(super) held_max: u32,
    #[serde(default = "hold_max_us")]
    pub(super) hold_max_us: u64,
}

fn unlimited() -> Limit {
    Limit::Unlimited
}

fn burst_bytes() -> u64 {
    65_536
}

fn held_max() -> u32 {
    1024
}

fn hold_max_us() -> u64 {
    1000
}

impl Configuration {
    pub(super) fn check(&self, kind: &Kind) -> Result<(), PolicyError> {
        self.order.check(kind)?;
        self.check_scope(kind)?;
        if let Limit::AtMost(rate) = &self.bytes_per_s {
            within(kind, "bytes_per_s", rate, 1..=1_000_000_000_000)?;
        }
        if let Limit::AtMost(bytes) = &self.in_flight_bytes_max {
            within(kind, "in_flight_bytes_max", bytes, 1..=1 << 40)?;
        }
        within(kind, "burst_bytes", &self.burst_bytes, 1..=1 << 32)?;
        within(kind, "held_max", &self.held_max, config::HELD)?;
        within(kind, "hold_max_us", &self.hold_max_us, config::DURATION_US)?;
        if !self.applications.is_empty() {
            listed(kind, "applications", &self.applications, RULES_MAX)?;
        }
        let mut weights = self.applications.iter().map(|known| known.weight);
        weights.try_for_each(|weight| within(kind, "applications.weight", &weight, share::WEIGHT))
    }

    fn check_scope(&self, kind: &Kind) -> Result<(), PolicyError> {
        let wrong = |why: &str| Err(kind.wrong(format!("`scope` is `runtime`: {why}")));
        if self.scope == Scope::Application {
            return Ok(());
        }
        if matches!(self.order, Order::Shares(_)) {
            return wrong("`order` must be `small_first` or `earliest_deadline`");
        }
        if !self.applications.is_empty() {
            return wrong("its applications have no shares, so leave `applications` out");
        }
        let is_unlimited = |limit| matches!(limit, Limit::Unlimited);
        if is_unlimited(self.bytes_per_s) && is_unlimited(self.in_flight_bytes_max) {
            return wrong("nothing waits without `bytes_per_s` or `in_flight_bytes_max`");
        }
        Ok(())
    }
}
