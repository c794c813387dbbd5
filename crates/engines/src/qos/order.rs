//! The orders in which items leave.

use petasos_engine::{PolicyError, Time};
use serde::Deserialize;

use super::share::WEIGHT;
use crate::config::{Kind, RULES_MAX, listed, within};
use crate::pattern::Methods;

/// A byte of an item of weight 1 moves its class on by this much.
const BYTE: u64 = 1 << 10;

/// The order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    SmallFirst {
        /// Items of more bytes are large.
        threshold_bytes: u32,
    },
    EarliestDeadline,
    /// Methods that are in none have a share of weight 1 together.
    Shares(Vec<Share>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Share {
    methods: Methods,
    weight: u32,
}

impl Order {
    pub(super) fn check(&self, kind: &Kind) -> Result<(), PolicyError> {
        let Order::Shares(shares) = self else { return Ok(()) };
        listed(kind, "order.shares", shares, RULES_MAX)?;
        shares
            .iter()
            .try_for_each(|share| within(kind, "order.shares.weight", &share.weight, WEIGHT))
    }

    /// The class of a method: 0 if it is in no share.
    pub(super) fn class(&self, method: &str) -> usize {
        let Order::Shares(shares) = self else { return 0 };
        shares.iter().position(|share| share.methods.matches(method)).map_or(0, |at| at + 1)
    }

    /// Whether items of this rank wait for others.
    pub(super) fn waits(&self, rank: u64) -> bool {
        matches!(self, Order::SmallFirst { .. }) && rank > 0
    }

    /// Whether a request of so many bytes counts as in flight.
    pub(super) fn counts(&self, bytes: u32) -> bool {
        match self {
            Order::SmallFirst { threshold_bytes } => bytes > *threshold_bytes,
            _ => true,
        }
    }

    fn weight(&self, class: usize) -> u64 {
        match self {
            Order::Shares(shares) if class > 0 => u64::from(shares[class - 1].weight),
            _ => 1,
        }
    }
}

/// How far the classes are with what they send.
#[derive(Default)]
pub(super) struct Tags {
    /// The rank of the item that left last.
    now: u64,
    /// Where the next item of each class starts.
    next: Vec<u64>,
}

impl Tags {
    /// The rank of an item that has come.
    pub(super) fn rank(&mut self, order: &Order, class: usize, bytes: u32, deadline: Time) -> u64 {
        match order {
            Order::SmallFirst { threshold_bytes } => u64::from(bytes > *threshold_bytes),
            Order::EarliestDeadline => deadline.as_nanos(),
            Order::Shares(shares) => {
                self.next.resize(shares.len() + 1, 0);
                let start = self.next[class].max(self.now);
                let length = u64::from(bytes).max(1) * BYTE / order.weight(class);
                self.next[class] = start + length;
                start
            }
        }
    }

    /// An item has left, and one of this rank is the next. Without one, all classes begin anew.
    pub(super) fn passed(&mut self, next: Option<u64>) {
        match next {
            Some(rank) => self.now = self.now.max(rank),
            None if self.now == 0 && self.next.is_empty() => {}
            None => {
                self.now = 0;
                self.next.fill(0);
            }
        }
    }
}
