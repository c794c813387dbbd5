//! Refuses excessive retries, so that they do not keep a failing server down.
//!
//! Each first attempt that passes saves a part of a retry, and a retry spends a whole one. In
//! addition, a few retries per second always pass, for callers that rarely call (as in Finagle's
//! `RetryBudget` and Envoy's retry budgets). Savings have a limit, so old ones do not accumulate.
//!
//! A refused retry ends with `UNAVAILABLE` and `grpc-retry-pushback-ms: -1`. After this, gRPC's
//! clients do not try again (gRFC A6: a negative number asks for no further attempt).

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    ClockShift, Decompose, Direction, Engine, Item, ItemKind, Policy, PolicyError, PolicyKind,
    RETRY_PUSHBACK, State, Status, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, within};
use crate::key::{By, Key};
use crate::rate::{Bucket, Rate};
use crate::table::{Cache, Kept, Table, Touched};

/// The kind `retry_budget`.
#[derive(Debug)]
pub struct RetryBudget;

const VERSION: Version = Version { kind: "retry_budget", version: 1 };
/// What a retry costs. Savings are counted in parts of it.
const RETRY: u64 = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    by: By,
    /// Retries for each first attempt.
    ratio: f64,
    #[serde(default)]
    min_per_s: u64,
    /// Retries that can be saved.
    #[serde(default = "saved_max")]
    saved_max: u64,
    #[serde(default = "keys_max")]
    keys_max: u32,
}

fn saved_max() -> u64 {
    100
}

fn keys_max() -> u32 {
    4096
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    budgets: Vec<(Key, Entry)>,
    #[serde(default)]
    rest: Entry,
    #[serde(default)]
    retried: u64,
    #[serde(default)]
    refused: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Entry {
    /// In thousandths of retries.
    #[serde(default)]
    saved: u64,
    /// When the bucket of the retries that pass anyway is full again.
    #[serde(default)]
    full_at_ns: u64,
}

#[derive(Default)]
struct Budget {
    saved: AtomicU64,
    anyway: Bucket,
    used: Touched,
}

impl Kept for Budget {
    fn is_idle(&self, now: Time) -> bool {
        let is_new = self.saved.load(Ordering::Relaxed) == 0 && self.anyway.is_full(now);
        is_new || self.used.is_old(now)
    }
}

impl Budget {
    fn entry(&self) -> Entry {
        let saved = self.saved.load(Ordering::Relaxed);
        Entry { saved, full_at_ns: self.anyway.full_at_ns() }
    }

    fn restore(&self, entry: &Entry, saved_max: u64) {
        self.saved.store(entry.saved.min(saved_max), Ordering::Relaxed);
        self.anyway.set_full_at_ns(entry.full_at_ns);
    }
}

struct Shared {
    by: By,
    /// In thousandths.
    ratio: u64,
    /// In thousandths.
    saved_max: u64,
    anyway: Option<Rate>,
    budgets: Arc<Table<Budget>>,
    retried: AtomicU64,
    refused: AtomicU64,
}

impl PolicyKind for RetryBudget {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let configuration: Configuration = config::parse(kind, configuration)?;
        within(kind, "ratio", &configuration.ratio, 0.0..=10.0)?;
        within(kind, "min_per_s", &configuration.min_per_s, 0..=1_000_000)?;
        within(kind, "saved_max", &configuration.saved_max, 1..=1_000_000)?;
        within(kind, "keys_max", &configuration.keys_max, config::KEYS)?;
        let contents: Contents = config::contents(state, VERSION)?;
        Ok(Box::new(Budgets(Arc::new(Shared::new(&configuration, &contents)))))
    }

    fn carried(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let mut contents: Contents = state.read(VERSION)?;
        let budgets = contents.budgets.iter_mut().map(|(_, entry)| entry);
        let all = budgets.chain([&mut contents.rest]);
        all.for_each(|entry| entry.full_at_ns = clock.of(entry.full_at_ns));
        Ok(State::new(VERSION, &contents))
    }
}

impl Shared {
    fn new(configuration: &Configuration, contents: &Contents) -> Shared {
        let saved_max = configuration.saved_max * RETRY;
        let budgets = Table::<Budget>::new(configuration.keys_max);
        for (key, entry) in &contents.budgets {
            if let Some(budget) = budgets.restore(*key) {
                budget.restore(entry, saved_max);
            }
        }
        budgets.rest().restore(&contents.rest, saved_max);
        let rate = configuration.min_per_s;
        Shared {
            by: configuration.by,
            ratio: (configuration.ratio * RETRY as f64).round() as u64,
            saved_max,
            anyway: (rate > 0).then(|| Rate::new(rate, rate)),
            budgets: Arc::new(budgets),
            retried: AtomicU64::new(contents.retried),
            refused: AtomicU64::new(contents.refused),
        }
    }

    /// Whether an attempt may pass.
    fn admit(&self, budget: &Budget, attempt: u8, now: Time) -> bool {
        budget.used.touch(now);
        if attempt == 0 {
            self.save(budget);
            return true;
        }
        let may = self.spend(budget)
            || self.anyway.as_ref().is_some_and(|rate| rate.take(&budget.anyway, now).is_ok());
        let counter = if may { &self.retried } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        may
    }

    fn save(&self, budget: &Budget) {
        // Mostly as much is saved as can be: then nothing is written.
        if budget.saved.load(Ordering::Relaxed) < self.saved_max {
            let more = |saved: u64| Some(saved.saturating_add(self.ratio).min(self.saved_max));
            let _ = budget.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    fn spend(&self, budget: &Budget) -> bool {
        let less = |saved: u64| saved.checked_sub(RETRY);
        budget.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

struct Budgets(Arc<Shared>);

impl Policy for Budgets {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        let shared = Arc::clone(&self.0);
        Ok(Box::new(BudgetEngine { cache: Cache::new(&shared.budgets), shared }))
    }

    fn state(&self) -> State {
        let all = self.0.budgets.all().into_iter();
        let contents = Contents {
            budgets: all.map(|(key, budget)| (key, budget.entry())).collect(),
            rest: self.0.budgets.rest().entry(),
            retried: self.0.retried.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
        };
        State::new(VERSION, &contents)
    }

    fn report(&self) -> Value {
        json!({
            "retried": self.0.retried.load(Ordering::Relaxed),
            "refused": self.0.refused.load(Ordering::Relaxed),
            "keys": self.0.budgets.all().len(),
        })
    }
}

struct BudgetEngine {
    shared: Arc<Shared>,
    cache: Cache<Budget>,
}

impl Engine for BudgetEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        self.cache.refresh();
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                if work.kind(&item) == ItemKind::Request && !self.admit(work, &item) {
                    work.end(item, refusal());
                } else {
                    work.forward(item);
                }
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

impl BudgetEngine {
    fn admit(&mut self, work: &Work<'_>, item: &Item) -> bool {
        let call = work.call(item);
        let budget = self.cache.get(self.shared.by.key(call), work.now());
        self.shared.admit(budget, call.attempt, work.now())
    }
}

fn refusal() -> Status {
    let mut status = Status::unavailable("there have been too many retries");
    status.metadata_mut().append(RETRY_PUSHBACK, "-1").expect("the key is allowed");
    status
}
