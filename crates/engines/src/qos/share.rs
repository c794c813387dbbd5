//! How the engines of a policy divide its rate.

use std::ops::RangeInclusive;
use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use serde::Deserialize;

/// The range of weights.
pub(super) const WEIGHT: RangeInclusive<u32> = 1..=1000;

/// The weight of an application.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Weight {
    /// Its name.
    pub(super) application: String,
    pub(super) weight: u32,
}

/// An engine's part in the sum of the weights of those that hold items.
pub(super) struct Activity {
    /// The sum. It says nothing about other memory, so that no ordering is needed.
    all: Arc<AtomicU64>,
    weight: u64,
    is_active: bool,
}

impl Activity {
    pub(super) fn new(all: &Arc<AtomicU64>) -> Activity {
        Activity { all: Arc::clone(all), weight: 1, is_active: false }
    }

    /// The weight of the application of which the items are.
    pub(super) fn set_weight(&mut self, weight: u64) {
        if weight != self.weight {
            let was_active = self.is_active;
            self.set(false);
            self.weight = weight;
            self.set(was_active);
        }
    }

    /// Whether the engine holds items.
    pub(super) fn set(&mut self, is_active: bool) {
        if is_active != self.is_active {
            self.is_active = is_active;
            if is_active {
                self.all.fetch_add(self.weight, Ordering::Relaxed);
            } else {
                self.all.fetch_sub(self.weight, Ordering::Relaxed);
            }
        }
    }

    /// What an item costs of the whole rate: more than it has, as others have parts in it.
    pub(super) fn cost(&self, bytes: u32) -> u64 {
        let all = self.all.load(Ordering::Relaxed).max(self.weight);
        u64::from(bytes).max(1).saturating_mul(all) / self.weight
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.set(false);
    }
}
