//! Refuses calls to failing peers, so that the peers can recover and callers do not wait for them
//! (Nygard, "Release It!").
//!
//! A *closed* breaker passes calls. It *opens* after a configured number of consecutive failures,
//! or if the share of failures within a window is too high. An open breaker ends calls with
//! `UNAVAILABLE`; they have not run. After a configured time the breaker is *half open*, and passes
//! a number of calls as probes. If all probes succeed, the breaker closes. At the first failure it
//! opens again. If probes do not end, further ones may pass after the same time. Calls that began
//! before a change of the breaker no longer affect it.

mod breaker;

use std::sync::Arc;

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{
    CallId, ClockShift, Code, Decompose, Engine, Item, Policy, PolicyError, PolicyKind, State,
    Status, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::config::{self, Failure, Kind, millis, within};
use crate::gate::{self, Gate};
use crate::key::{By, Key};
use crate::table::{Cache, Table};
use breaker::{Breaker, Entry, Epoch, Limits, Ratio};

/// The kind `circuit_breaker`.
#[derive(Debug)]
pub struct CircuitBreaker;

const VERSION: Version = Version { kind: "circuit_breaker", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default = "peer")]
    by: By,
    #[serde(default)]
    consecutive_failures: Option<u64>,
    #[serde(default)]
    ratio: Option<RatioConfiguration>,
    open_ms: u64,
    #[serde(default = "probes")]
    probes: u64,
    /// Codes that count as failures.
    #[serde(default = "failures")]
    failures: Vec<Failure>,
    #[serde(default = "keys_max")]
    keys_max: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RatioConfiguration {
    failures: f64,
    window_ms: u64,
    /// With fewer calls in a window, the ratio says nothing.
    calls_min: u64,
}

fn peer() -> By {
    By::Peer
}

fn probes() -> u64 {
    1
}

fn keys_max() -> u32 {
    4096
}

fn failures() -> Vec<Failure> {
    let codes =
        [Code::Unavailable, Code::DeadlineExceeded, Code::Internal, Code::Unknown, Code::DataLoss];
    codes.map(Failure).to_vec()
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    breakers: Vec<(Key, Entry)>,
    #[serde(default)]
    rest: Entry,
    #[serde(default)]
    refused: u64,
}

/// What outlives an engine: the calls under way, with their keys and the epochs of breakers in
/// which they began.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    calls: Vec<(u64, Key, Epoch)>,
}

struct Shared {
    by: By,
    limits: Limits,
    /// By the number of the code.
    is_failure: [bool; Code::ALL.len()],
    breakers: Arc<Table<Breaker>>,
    refused: AtomicU64,
}

impl PolicyKind for CircuitBreaker {
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
        Ok(Box::new(Breakers(Arc::new(Shared::new(&configuration, &contents)))))
    }

    fn carried(&self, state: State, clock: ClockShift) -> Result<State, PolicyError> {
        let mut contents: Contents = state.read(VERSION)?;
        let breakers = contents.breakers.iter_mut().map(|(_, entry)| entry);
        breakers.chain([&mut contents.rest]).for_each(|entry| entry.carry(clock));
        Ok(State::new(VERSION, &contents))
    }
}

impl Configuration {
    fn check(&self, kind: &Kind) -> Result<(), PolicyError> {
        within(kind, "open_ms", &self.open_ms, config::DURATION_MS)?;
        within(kind, "probes", &self.probes, 1..=1000)?;
        within(kind, "keys_max", &self.keys_max, config::KEYS)?;
        config::listed(kind, "failures", &self.failures, Code::ALL.len())?;
        if let Some(count) = &self.consecutive_failures {
            within(kind, "consecutive_failures", count, 1..=1_000_000)?;
        }
        if let Some(ratio) = &self.ratio {
            within(kind, "ratio.failures", &ratio.failures, 0.01..=1.0)?;
            within(kind, "ratio.window_ms", &ratio.window_ms, config::DURATION_MS)?;
            within(kind, "ratio.calls_min", &ratio.calls_min, 1..=1_000_000)?;
        }
        if self.consecutive_failures.is_none() && self.ratio.is_none() {
            return Err(kind.wrong("`consecutive_failures`, `ratio` or both must be there"));
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        let ratio = self.ratio.as_ref().map(|ratio| Ratio {
            failures: ratio.failures,
            window_ns: millis(ratio.window_ms),
            calls_min: ratio.calls_min,
        });
        let consecutive = self.consecutive_failures.unwrap_or(u64::MAX);
        Limits { consecutive, ratio, open_ns: millis(self.open_ms), probes: self.probes }
    }
}

impl Shared {
    fn new(configuration: &Configuration, contents: &Contents) -> Shared {
        let breakers = Table::<Breaker>::new(configuration.keys_max);
        for (key, entry) in &contents.breakers {
            if let Some(breaker) = breakers.restore(*key) {
                breaker.restore(entry);
            }
        }
        breakers.rest().restore(&contents.rest);
        let is_failure = Code::ALL.map(|code| configuration.failures.contains(&Failure(code)));
        Shared {
            by: configuration.by,
            limits: configuration.limits(),
            is_failure,
            breakers: Arc::new(breakers),
            refused: AtomicU64::new(contents.refused),
        }
    }
}

struct Breakers(Arc<Shared>);

impl Policy for Breakers {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let contents: EngineContents = config::contents(state, VERSION)?;
        let shared = Arc::clone(&self.0);
        let mut calls = Calls::default();
        for (call, key, epoch) in contents.calls {
            let breaker = shared.breakers.restore(key);
            let breaker = breaker.unwrap_or_else(|| Arc::clone(shared.breakers.rest()));
            let _ = calls.insert(CallId::from_number(call), Under { key, breaker, epoch });
        }
        let cache = Cache::new(&shared.breakers);
        Ok(Box::new(BreakerEngine { shared, cache, calls }))
    }

    fn state(&self) -> State {
        let all = self.0.breakers.all().into_iter();
        let contents = Contents {
            breakers: all.map(|(key, breaker)| (key, breaker.entry())).collect(),
            rest: self.0.breakers.rest().entry(),
            refused: self.0.refused.load(Ordering::Relaxed),
        };
        State::new(VERSION, &contents)
    }

    fn report(&self) -> Value {
        let all = self.0.breakers.all();
        let open = all.iter().filter(|(_, breaker)| !breaker.is_closed());
        json!({
            "refused": self.0.refused.load(Ordering::Relaxed),
            "keys": all.len(),
            "not_closed": open.map(|(key, _)| key.to_string()).collect::<Vec<_>>(),
        })
    }
}

/// A call that is under way.
struct Under {
    key: Key,
    breaker: Arc<Breaker>,
    epoch: Epoch,
}

struct BreakerEngine {
    shared: Arc<Shared>,
    cache: Cache<Breaker>,
    calls: Calls<Under>,
}

impl Engine for BreakerEngine {
    fn work(&mut self, work: &mut Work<'_>) {
        gate::pass(self, work);
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let open = self.calls.into_open(decompose);
        let calls = open.map(|(id, call)| (id.to_number(), call.key, call.epoch)).collect();
        Some(State::new(VERSION, &EngineContents { calls }))
    }
}

impl Gate for BreakerEngine {
    type Under = Under;

    fn refresh(&mut self) {
        self.cache.refresh();
    }

    fn admit(&mut self, work: &Work<'_>, item: &Item) -> bool {
        let key = self.shared.by.key(work.call(item));
        let breaker = self.cache.get(key, work.now());
        let Some(epoch) = breaker.admit(&self.shared.limits, work.now()) else { return false };
        let breaker = Arc::clone(breaker);
        let _ = self.calls.insert(work.call_id(item), Under { key, breaker, epoch });
        true
    }

    fn refuse(&self) -> Status {
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        Status::unavailable("the circuit breaker is open")
    }

    fn calls(&mut self) -> &mut Calls<Under> {
        &mut self.calls
    }

    fn record(&self, work: &Work<'_>, under: &Under, code: Option<Code>) {
        let Some(code) = code else { return };
        let is_failure = self.shared.is_failure[usize::from(code.number())];
        under.breaker.record(&self.shared.limits, work.now(), under.epoch, is_failure);
    }
}
