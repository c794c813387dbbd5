//! Counts calls, failures and bytes, and measures latencies.
//!
//! The policy counts a call when its request passes, and counts its outcome when its end passes.
//! The latency is the time between the two. A cancelled call counts as cancelled and has no
//! latency. Each key has a series of a fixed size. Keys without room share one.

mod series;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_engine::{
    CallId, Code, Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId,
    Policy, PolicyError, PolicyKind, State, Status, Time, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::config::{self, Kind, within};
use crate::key::{By, Key};
use crate::table::{Cache, Table};
use series::{Series, Snapshot};

/// The kind `telemetry`.
#[derive(Debug)]
pub struct Telemetry;

const VERSION: Version = Version { kind: "telemetry", version: 1 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default = "everything")]
    by: By,
    #[serde(default = "series_max")]
    series_max: u32,
}

fn everything() -> By {
    By::Everything
}

fn series_max() -> u32 {
    1024
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    series: Vec<(Key, Snapshot)>,
    #[serde(default)]
    rest: Snapshot,
}

/// What outlives an engine: the calls under way, with their keys and when they began.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    calls: Vec<(u64, Key, u64)>,
}

struct Shared {
    by: By,
    series: Arc<Table<Series>>,
    /// For reports. Written once for each method and engine.
    names: Mutex<BTreeMap<u32, String>>,
}

impl PolicyKind for Telemetry {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Configuration { by, series_max } = config::parse(kind, configuration)?;
        within(kind, "series_max", &series_max, config::KEYS)?;
        let contents: Contents = config::contents(state, VERSION)?;
        let series = Table::<Series>::new(series_max);
        series.rest().add(&contents.rest);
        for (key, snapshot) in &contents.series {
            let found = series.restore(*key);
            found.as_ref().unwrap_or(series.rest()).add(snapshot);
        }
        let (series, names) = (Arc::new(series), Mutex::default());
        Ok(Box::new(Counted(Arc::new(Shared { by, series, names }))))
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, BTreeMap<u32, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Counted(Arc<Shared>);

impl Policy for Counted {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let contents: EngineContents = config::contents(state, VERSION)?;
        let shared = Arc::clone(&self.0);
        let (mut cache, mut calls) = (Cache::new(&shared.series), Calls::default());
        for (call, key, began) in contents.calls {
            let began = Time::from_nanos(began);
            let series = Arc::clone(cache.get(key, began));
            let _ = calls.insert(CallId::from_number(call), Under { key, series, began });
        }
        Ok(Box::new(TelemetryEngine { shared, cache, calls }))
    }

    fn state(&self) -> State {
        let all = self.0.series.all();
        let series = all.into_iter().map(|(key, series)| (key, series.snapshot())).collect();
        State::new(VERSION, &Contents { series, rest: self.0.series.rest().snapshot() })
    }

    fn report(&self) -> Value {
        let names = self.0.names();
        let one = |(key, series): (Key, Arc<Series>)| {
            let mut report = series.snapshot().report();
            report["application"] = json!(key.application);
            report["peer"] = json!(key.peer);
            let name = |number: u32| names.get(&number).cloned().unwrap_or(number.to_string());
            report["method"] = json!(key.method.map(name));
            report
        };
        json!({
            "series": self.0.series.all().into_iter().map(one).collect::<Vec<_>>(),
            "rest": self.0.series.rest().snapshot().report(),
        })
    }
}

/// A call that is under way.
struct Under {
    key: Key,
    series: Arc<Series>,
    began: Time,
}

struct TelemetryEngine {
    shared: Arc<Shared>,
    cache: Cache<Series>,
    calls: Calls<Under>,
}

impl Engine for TelemetryEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        _: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        self.shared.names().entry(method.0).or_insert_with(|| name.to_owned());
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        self.cache.refresh();
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                self.count(work, &item);
                work.forward(item);
            }
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let open = self.calls.into_open(decompose);
        let of = |(id, call): (CallId, Under)| (id.to_number(), call.key, call.began.as_nanos());
        Some(State::new(VERSION, &EngineContents { calls: open.map(of).collect() }))
    }
}

impl TelemetryEngine {
    fn count(&mut self, work: &Work<'_>, item: &Item) {
        let (call, id, bytes) = (work.call(item), work.call_id(item), work.bytes(item));
        let is_request = work.direction(item) == call.requests;
        match work.kind(item) {
            ItemKind::Request => {
                let (key, began) = (self.shared.by.key(call), work.now());
                let series = Arc::clone(self.cache.get(key, began));
                series.begin(bytes);
                let _ = self.calls.insert(id, Under { key, series, began });
            }
            ItemKind::Message => match self.calls.get_mut(id) {
                Some(under) => under.series.message(is_request, bytes),
                None => self.unseen(work, item).message(is_request, bytes),
            },
            ItemKind::End => {
                let code = work.status(item).map_or(Code::Ok, Status::code);
                match self.calls.remove(id) {
                    Some(under) => {
                        under.series.end(code, bytes);
                        under.series.latency(work.now().nanos_since(under.began));
                    }
                    None => self.unseen(work, item).end(code, bytes),
                }
            }
            ItemKind::Cancel => match self.calls.remove(id) {
                Some(under) => under.series.cancel(),
                None => self.unseen(work, item).cancel(),
            },
            ItemKind::Close | ItemKind::Head => {}
        }
    }

    /// The series of a call whose request did not pass here.
    fn unseen(&mut self, work: &Work<'_>, item: &Item) -> &Series {
        self.cache.get(self.shared.by.key(work.call(item)), work.now())
    }
}
