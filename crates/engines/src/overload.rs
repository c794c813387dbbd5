//! Finds out how many calls at a time a server can take, and refuses others before the server sees
//! them.
//!
//! The limit follows the latency, as in Netflix's concurrency-limits (`Gradient2Limit`). It grows
//! by a few calls at a time as long as calls take no longer than their long-run latency times a
//! tolerance. If they take longer, it shrinks in proportion. Calls that end because of overload
//! (`UNAVAILABLE`, `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED`, or cancelled at their deadline)
//! reduce it by a tenth, as in `AIMDLimit` of the same library. The limit changes once for each
//! window, and only if half of it was used.
//!
//! A call that exceeds the limit ends with `RESOURCE_EXHAUSTED` and has not run. An entry of
//! metadata may name a class of calls that may use only a part of the limit, so that other calls
//! find room. Streams pass and are not counted: their duration says nothing about the load.

mod limiter;

use std::collections::BTreeMap;
use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    CallId, Code, Decompose, Engine, Item, Policy, PolicyError, PolicyKind, State, Status, Time,
    Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::config::{self, Kind, RULES_MAX, millis, within};
use crate::gate::{self, Gate};
use crate::key::{By, Key};
use crate::table::{Cache, Table};
use limiter::{Entry, Limiter, Limits, Outcome};

/// The kind `overload`.
#[derive(Debug)]
pub struct Overload;

const VERSION: Version = Version { kind: "overload", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default = "peer")]
    by: By,
    #[serde(default = "calls_initial")]
    calls_initial: u64,
    #[serde(default = "calls_min")]
    calls_min: u64,
    #[serde(default = "calls_max")]
    calls_max: u64,
    /// How much longer calls may take before the limit shrinks.
    #[serde(default = "tolerance")]
    tolerance: f64,
    #[serde(default = "window_ms")]
    window_ms: u64,
    #[serde(default)]
    priorities: Option<Priorities>,
    #[serde(default = "keys_max")]
    keys_max: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Priorities {
    /// Of the entry of metadata.
    key: String,
    /// By its value, the part of the limit that calls may use. Other calls may use all of it.
    shares: BTreeMap<String, f64>,
}

fn peer() -> By {
    By::Peer
}

fn calls_initial() -> u64 {
    20
}

fn calls_min() -> u64 {
    1
}

fn calls_max() -> u64 {
    10_000
}

fn tolerance() -> f64 {
    1.5
}

fn window_ms() -> u64 {
    100
}

fn keys_max() -> u32 {
    1024
}

/// What outlives the policy. Calls that are under way are the engines' to tell.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    limiters: Vec<(Key, Entry)>,
    #[serde(default)]
    rest: Entry,
    #[serde(default)]
    refused: u64,
}

/// What outlives an engine: the calls under way, with their keys and when they began.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    calls: Vec<(u64, Key, u64)>,
}

struct Shared {
    by: By,
    limits: Limits,
    priorities: Option<Priorities>,
    limiters: Arc<Table<Limiter>>,
    refused: AtomicU64,
}

impl PolicyKind for Overload {
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
        configuration.check(kind)?;
        let contents: Contents = config::contents(state, VERSION)?;
        Ok(Box::new(Limiters(Arc::new(Shared::new(configuration, &contents)))))
    }
}

impl Configuration {
    fn check(&self, kind: &Kind) -> Result<(), PolicyError> {
        within(kind, "calls_min", &self.calls_min, 1..=1_000_000)?;
        within(kind, "calls_max", &self.calls_max, self.calls_min..=1_000_000)?;
        within(kind, "calls_initial", &self.calls_initial, self.calls_min..=self.calls_max)?;
        within(kind, "tolerance", &self.tolerance, 1.0..=10.0)?;
        within(kind, "window_ms", &self.window_ms, config::DURATION_MS)?;
        within(kind, "keys_max", &self.keys_max, config::KEYS)?;
        let Some(Priorities { shares, .. }) = &self.priorities else { return Ok(()) };
        let all: Vec<&f64> = shares.values().collect();
        config::listed(kind, "priorities.shares", &all, RULES_MAX)?;
        all.iter().try_for_each(|share| within(kind, "priorities.shares", *share, config::SHARE))
    }
}

impl Shared {
    fn new(configuration: Configuration, contents: &Contents) -> Shared {
        let limits = Limits {
            initial: configuration.calls_initial,
            least: configuration.calls_min,
            most: configuration.calls_max,
            tolerance: configuration.tolerance,
            window_ns: millis(configuration.window_ms),
        };
        let limiters = Table::<Limiter>::new(configuration.keys_max);
        for (key, entry) in &contents.limiters {
            if let Some(limiter) = limiters.restore(*key) {
                limiter.restore(entry);
            }
        }
        limiters.rest().restore(&contents.rest);
        Shared {
            by: configuration.by,
            limits,
            priorities: configuration.priorities,
            limiters: Arc::new(limiters),
            refused: AtomicU64::new(contents.refused),
        }
    }

    /// The part of the limit that a call may use.
    fn share(&self, work: &Work<'_>, item: &Item) -> f64 {
        let Some(Priorities { key, shares }) = &self.priorities else { return 1.0 };
        let class = work.metadata(item).get(key);
        class.and_then(|class| shares.get(class)).copied().unwrap_or(1.0)
    }
}

struct Limiters(Arc<Shared>);

impl Policy for Limiters {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let contents: EngineContents = config::contents(state, VERSION)?;
        let shared = Arc::clone(&self.0);
        let (mut cache, mut calls) = (Cache::new(&shared.limiters), Calls::default());
        for (call, key, began) in contents.calls {
            let began = Time::from_nanos(began);
            let limiter = Arc::clone(cache.get(key, began));
            limiter.enter();
            let _ = calls.insert(CallId::from_number(call), Under { key, limiter, began });
        }
        Ok(Box::new(OverloadEngine { shared, cache, calls }))
    }

    fn state(&self) -> State {
        let all = self.0.limiters.all().into_iter();
        let contents = Contents {
            limiters: all.map(|(key, limiter)| (key, limiter.entry())).collect(),
            rest: self.0.limiters.rest().entry(),
            refused: self.0.refused.load(Ordering::Relaxed),
        };
        State::new(VERSION, &contents)
    }

    fn report(&self) -> Value {
        let all = self.0.limiters.all();
        let one = |(key, limiter): &(Key, Arc<Limiter>)| {
            json!({
                "key": key.to_string(),
                "limit": limiter.limit(&self.0.limits),
                "calls": limiter.calls(),
            })
        };
        json!({
            "refused": self.0.refused.load(Ordering::Relaxed),
            "limits": all.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

/// A call that is under way. It counts until this is dropped.
struct Under {
    key: Key,
    limiter: Arc<Limiter>,
    began: Time,
}

impl Drop for Under {
    fn drop(&mut self) {
        self.limiter.leave();
    }
}

struct OverloadEngine {
    shared: Arc<Shared>,
    cache: Cache<Limiter>,
    calls: Calls<Under>,
}

impl Engine for OverloadEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        gate::pass(self, work);
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let open = self.calls.into_open(decompose);
        let of = |(id, call): (CallId, Under)| (id.to_number(), call.key, call.began.as_nanos());
        Some(State::new(VERSION, &EngineContents { calls: open.map(of).collect() }))
    }
}

/// What the end of a call says about the load; without a code, it was given up.
fn outcome(code: Option<Code>) -> Outcome {
    match code {
        Some(Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted) => {
            Outcome::Overload
        }
        None | Some(Code::Cancelled) => Outcome::Nothing,
        Some(_) => Outcome::Answer,
    }
}

impl Gate for OverloadEngine {
    type Under = Under;

    fn refresh(&mut self) {
        self.cache.refresh();
    }

    fn admit(&mut self, work: &Work<'_>, item: &Item) -> bool {
        if work.call(item).is_stream {
            return true;
        }
        let key = self.shared.by.key(work.call(item));
        let limiter = self.cache.get(key, work.now());
        let share = self.shared.share(work, item);
        if !limiter.admit(&self.shared.limits, share) {
            return false;
        }
        let (limiter, began) = (Arc::clone(limiter), work.now());
        let _ = self.calls.insert(work.call_id(item), Under { key, limiter, began });
        true
    }

    fn refuse(&self) -> Status {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        Status::resource_exhausted("too many calls at a time")
    }

    fn calls(&mut self) -> &mut Calls<Under> {
        &mut self.calls
    }

    fn record(&self, work: &Work<'_>, under: &Under, code: Option<Code>) {
        let latency_ns = work.now().nanos_since(under.began);
        under.limiter.record(&self.shared.limits, work.now(), outcome(code), latency_ns);
    }
}
