//! Limits how many calls begin per second (mRPC, section 7.2).
//!
//! Calls of a key share a token bucket, in all engines of the policy. A request that finds no token
//! waits in its engine, behind earlier requests of its key. If the maximum number already wait, it
//! ends with `RESOURCE_EXHAUSTED`. The messages of a stream wait behind its request. The engine
//! takes the token when it passes the request on, so neither a cancelled call nor an upgrade costs
//! one.

mod waiting;

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    ClockShift, Decompose, Direction, Engine, Item, ItemKind, Policy, PolicyError, PolicyKind,
    State, Status, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::{self, Kind, Limit, within};
use crate::key::{By, Key};
use crate::rate::{Bucket, RATE_MAX, Rate};
use crate::table::{Cache, Kept, Table};
use waiting::Waiting;

/// The kind `rate_limit`.
#[derive(Debug)]
pub struct RateLimit;

const VERSION: Version = Version { kind: "rate_limit", version: 1 };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    rate_per_s: Limit,
    /// Tokens that a bucket has when it is full.
    #[serde(default = "one")]
    burst: u64,
    #[serde(default)]
    by: By,
    /// Items that may wait in each engine; 0 refuses at once.
    #[serde(default = "waiting_max")]
    waiting_max: u32,
    #[serde(default = "keys_max")]
    keys_max: u32,
}

fn one() -> u64 {
    1
}

fn waiting_max() -> u32 {
    1024
}

fn keys_max() -> u32 {
    4096
}

/// What outlives the policy: when each bucket is full again, in nanoseconds of the clock.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    buckets: Vec<(Key, u64)>,
    #[serde(default)]
    rest: u64,
    #[serde(default)]
    passed: u64,
    #[serde(default)]
    refused: u64,
}

/// What the engines share.
struct Shared {
    /// None if there is no limit.
    rate: Option<Rate>,
    by: By,
    waiting_max: usize,
    buckets: Arc<Table<Bucket>>,
    passed: AtomicU64,
    refused: AtomicU64,
}

impl Kept for Bucket {
    fn is_idle(&self, now: Time) -> bool {
        self.is_full(now)
    }
}

impl PolicyKind for RateLimit {
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
        if let Limit::AtMost(rate) = &configuration.rate_per_s {
            within(kind, "rate_per_s", rate, 1..=RATE_MAX)?;
        }
        within(kind, "burst", &configuration.burst, 1..=1_000_000)?;
        within(kind, "waiting_max", &configuration.waiting_max, config::HELD)?;
        within(kind, "keys_max", &configuration.keys_max, config::KEYS)?;
        let contents: Contents = config::contents(state, VERSION)?;
        Ok(Box::new(Limits(Arc::new(Shared::new(&configuration, &contents)))))
    }

    fn carried(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let mut contents: Contents = state.read(VERSION)?;
        let buckets = contents.buckets.iter_mut().map(|(_, full_at_ns)| full_at_ns);
        let all = buckets.chain([&mut contents.rest]);
        all.for_each(|full_at_ns| *full_at_ns = clock.of(*full_at_ns));
        Ok(State::new(VERSION, &contents))
    }
}

impl Shared {
    fn new(configuration: &Configuration, contents: &Contents) -> Shared {
        let buckets = Table::<Bucket>::new(configuration.keys_max);
        for (key, full_at_ns) in &contents.buckets {
            if let Some(bucket) = buckets.restore(*key) {
                bucket.set_full_at_ns(*full_at_ns);
            }
        }
        buckets.rest().set_full_at_ns(contents.rest);
        let rate = match configuration.rate_per_s {
            Limit::AtMost(rate) => Some(Rate::new(rate, configuration.burst)),
            Limit::Unlimited => None,
        };
        Shared {
            rate,
            by: configuration.by,
            waiting_max: configuration.waiting_max as usize,
            buckets: Arc::new(buckets),
            passed: AtomicU64::new(contents.passed),
            refused: AtomicU64::new(contents.refused),
        }
    }
}

struct Limits(Arc<Shared>);

impl Policy for Limits {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        let (shared, waiting) = (Arc::clone(&self.0), Waiting::default());
        let buckets = Cache::new(&shared.buckets);
        Ok(Box::new(LimitEngine { buckets, shared, waiting, passed: 0 }))
    }

    fn state(&self) -> State {
        let all = self.0.buckets.all();
        let contents = Contents {
            buckets: all.into_iter().map(|(key, bucket)| (key, bucket.full_at_ns())).collect(),
            rest: self.0.buckets.rest().full_at_ns(),
            passed: self.0.passed.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
        };
        State::new(VERSION, &contents)
    }

    fn report(&self) -> Value {
        json!({
            "passed": self.0.passed.load(Ordering::Relaxed),
            "refused": self.0.refused.load(Ordering::Relaxed),
            "keys": self.0.buckets.all().len(),
            "crowded": self.0.buckets.crowded(),
        })
    }
}

struct LimitEngine {
    shared: Arc<Shared>,
    buckets: Cache<Bucket>,
    waiting: Waiting,
    /// Requests that this batch has passed on. The engines of other threads write to the same
    /// counter, so it is written once for each batch.
    passed: u64,
}

impl Engine for LimitEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        self.buckets.refresh();
        let Self { shared, buckets, waiting, passed } = self;
        waiting.release(work, |work, key| shared.take(buckets, key, work.now(), passed));
        match self.shared.rate.is_none() && self.waiting.is_empty() {
            true => self.pass_all(work),
            false => self.handle_all(work),
        }
        let passed = std::mem::take(&mut self.passed);
        if passed > 0 {
            self.shared.passed.fetch_add(passed, Ordering::Relaxed);
        }
        if let Some(due) = self.waiting.due() {
            work.wake_at(due);
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        self.waiting.give_back(decompose);
        None
    }
}

impl Shared {
    /// Takes a token of a key, and counts, or says when there may be one.
    #[inline]
    fn take(
        &self,
        buckets: &mut Cache<Bucket>,
        key: Key,
        now: Time,
        passed: &mut u64,
    ) -> Result<(), Time> {
        if let Some(rate) = &self.rate {
            rate.take(buckets.get(key, now), now)?;
        }
        *passed += 1;
        Ok(())
    }
}

impl LimitEngine {
    /// Without a limit nothing waits, and all that there is to do is to count.
    fn pass_all(&mut self, work: &mut Work<'_>) {
        let mut passed = 0;
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                passed += u64::from(work.kind(&item) == ItemKind::Request);
                work.forward(item);
            }
        }
        self.passed += passed;
    }

    fn handle_all(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                self.handle(work, item);
            }
        }
    }

    fn handle(&mut self, work: &mut Work<'_>, item: Item) {
        let kind = work.kind(&item);
        let is_request = kind == ItemKind::Request;
        if !is_request && !self.waiting.has_earlier(work, &item) {
            return work.forward(item);
        }
        // The request is void then, and so is everything else of its call but this.
        if kind == ItemKind::Cancel {
            return work.forward(item);
        }
        let key = self.shared.by.key(work.call(&item));
        let mut due = self.waiting.due_of(key);
        if due.is_none() {
            let (buckets, passed) = (&mut self.buckets, &mut self.passed);
            match self.shared.take(buckets, key, work.now(), passed) {
                Ok(()) => return work.forward(item),
                Err(later) => due = Some(later),
            }
        }
        if self.waiting.len() >= self.shared.waiting_max {
            self.waiting.drop_void(work);
        }
        if self.waiting.len() >= self.shared.waiting_max {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return work.end(item, Status::resource_exhausted("the rate of calls is limited"));
        }
        self.waiting.push(work, item, key, due.expect("it waits"));
    }
}
