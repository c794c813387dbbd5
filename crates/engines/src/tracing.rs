//! Puts trace contexts into requests (W3C Trace Context), and keeps the last spans.
//!
//! A request that has a `traceparent` keeps it, and has a span here if the `traceparent` is marked
//! as recorded. A request without one, or with an invalid one, gets one with the configured
//! probability, and then has a span. A span ends with its call, or when the call is cancelled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_engine::{
    CallId, ClockShift, Code, Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind,
    MethodId, Policy, PolicyError, PolicyKind, Rng, State, Status, TraceContext, Version, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::config::{self, Kind, within};

/// The kind `tracing`.
#[derive(Debug)]
pub struct Tracing;

const VERSION: Version = Version { kind: "tracing", version: 1 };
const KEY: &str = "traceparent";
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// More spans than there ever are.
const FINISHED_MAX: u64 = 1 << 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    probability: f64,
    /// Spans that are kept; the oldest are dropped.
    #[serde(default = "spans_max")]
    spans_max: u32,
}

fn spans_max() -> u32 {
    1024
}

/// A call that is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Span {
    /// The span as a `traceparent`.
    context: String,
    /// That of the caller, if there was one.
    #[serde(default)]
    parent: Option<String>,
    application: u32,
    method: u32,
    peer: u32,
    /// The application serves the call, and does not make it.
    #[serde(default)]
    is_served: bool,
    began_ns: u64,
    #[serde(default)]
    ended_ns: u64,
    #[serde(default)]
    code: String,
}

/// What outlives the policy.
#[derive(Default, Serialize, Deserialize)]
struct Contents {
    #[serde(default)]
    spans: VecDeque<Span>,
    #[serde(default)]
    finished: u64,
}

/// What outlives an engine: the spans of calls under way.
#[derive(Default, Serialize, Deserialize)]
struct EngineContents {
    #[serde(default)]
    calls: Vec<(u64, Span)>,
}

/// Spans that have ended, by application: one with many drops its own.
#[derive(Default)]
struct Kept {
    by_application: BTreeMap<u32, VecDeque<Arc<Span>>>,
    len: usize,
    finished: u64,
}

impl Kept {
    fn of(contents: Contents) -> Kept {
        let mut kept = Kept::default();
        contents.spans.into_iter().for_each(|span| kept.push(span));
        // A state may come from another process: what is counted on has room.
        Kept { finished: contents.finished.min(FINISHED_MAX), ..kept }
    }

    fn push(&mut self, span: Span) {
        self.by_application.entry(span.application).or_default().push_back(Arc::new(span));
        (self.len, self.finished) = (self.len + 1, self.finished + 1);
    }

    /// Drops the oldest span of the application that has the most.
    fn drop_one(&mut self) {
        let longest = self.by_application.iter_mut().max_by_key(|(_, spans)| spans.len());
        let Some((&application, spans)) = longest else { return };
        spans.pop_front();
        if spans.is_empty() {
            self.by_application.remove(&application);
        }
        self.len -= 1;
    }

    fn all(&self) -> Vec<Arc<Span>> {
        self.by_application.values().flatten().cloned().collect()
    }
}

fn in_order(mut spans: Vec<Arc<Span>>) -> Vec<Arc<Span>> {
    spans.sort_by_key(|span| span.ended_ns);
    spans
}

struct Shared {
    probability: f64,
    spans_max: usize,
    /// Taken once for each batch in which spans have ended.
    finished: Mutex<Kept>,
    /// For reports. Written once for each method and engine.
    names: Mutex<BTreeMap<u32, String>>,
}

impl PolicyKind for Tracing {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let Configuration { probability, spans_max } = config::parse(kind, configuration)?;
        within(kind, "probability", &probability, config::SHARE)?;
        within(kind, "spans_max", &spans_max, 1..=65_536)?;
        let contents: Contents = config::contents(state, VERSION)?;
        let shared = Shared {
            probability,
            spans_max: spans_max as usize,
            finished: Mutex::new(Kept::of(contents)),
            names: Mutex::default(),
        };
        shared.finish(&mut Vec::new());
        Ok(Box::new(Traced(Arc::new(shared))))
    }

    /// Spans that have ended stay with the process that has recorded them: it is that one which
    /// sends them to the collector.
    fn carried(&self, state: State, _: ClockShift) -> Result<State, PolicyError> {
        let Contents { finished, .. } = state.read(VERSION)?;
        Ok(State::new(VERSION, &Contents { finished, ..Contents::default() }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Takes spans over that have ended, and drops others if they are too many.
    fn finish(&self, spans: &mut Vec<Span>) {
        let mut kept = lock(&self.finished);
        spans.drain(..).for_each(|span| kept.push(span));
        while kept.len > self.spans_max {
            kept.drop_one();
        }
    }

    /// Engines wait for the lock: what takes time is done without it.
    fn look(&self) -> (Vec<Arc<Span>>, u64) {
        let kept = lock(&self.finished);
        let (spans, finished) = (kept.all(), kept.finished);
        drop(kept);
        (in_order(spans), finished)
    }
}

struct Traced(Arc<Shared>);

impl Policy for Traced {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let contents: EngineContents = config::contents(state, VERSION)?;
        let mut calls = Calls::default();
        for (call, span) in contents.calls {
            let _ = calls.insert(CallId::from_number(call), span);
        }
        let (shared, ended) = (Arc::clone(&self.0), Vec::new());
        Ok(Box::new(TracingEngine { shared, calls, ended }))
    }

    fn state(&self) -> State {
        let (spans, finished) = self.0.look();
        let spans = spans.iter().map(|span| Span::clone(span)).collect();
        State::new(VERSION, &Contents { spans, finished })
    }

    fn report(&self) -> Value {
        let (spans, finished) = self.0.look();
        let names = lock(&self.0.names).clone();
        let one = |span: &Arc<Span>| {
            let mut report = json!(**span);
            report["method"] = match names.get(&span.method) {
                Some(name) => json!(name),
                None => json!(span.method),
            };
            report
        };
        json!({
            "finished": finished,
            "spans": spans.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

struct TracingEngine {
    shared: Arc<Shared>,
    calls: Calls<Span>,
    /// Spans that have ended in this batch.
    ended: Vec<Span>,
}

impl Engine for TracingEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        _: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        lock(&self.shared.names).entry(method.0).or_insert_with(|| name.to_owned());
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                match work.kind(&item) {
                    ItemKind::Request => {
                        self.begin(work, &item, direction == Direction::Inbound);
                    }
                    ItemKind::End => {
                        let code = work.status(&item).map_or(Code::Ok, Status::code);
                        self.end(work, &item, code);
                    }
                    ItemKind::Cancel => self.end(work, &item, Code::Cancelled),
                    ItemKind::Message | ItemKind::Close | ItemKind::Head => {}
                }
                work.forward(item);
            }
        }
        if !self.ended.is_empty() {
            self.shared.finish(&mut self.ended);
        }
    }

    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        let open = self.calls.into_open(decompose);
        let calls = open.map(|(id, span)| (id.to_number(), span)).collect();
        Some(State::new(VERSION, &EngineContents { calls }))
    }
}

impl TracingEngine {
    fn begin(&mut self, work: &mut Work<'_>, item: &Item, is_served: bool) {
        let given = work.metadata(item).get(KEY).and_then(TraceContext::from_traceparent);
        let (context, parent) = match given {
            Some(given) if !given.is_sampled() => return,
            Some(given) => {
                let span_id = some_id(work.rng()).to_be_bytes();
                (TraceContext { span_id, ..given }.to_string(), Some(given.to_string()))
            }
            None if !work.rng().chance(self.shared.probability) => return,
            None => {
                let context = new_context(work.rng()).to_string();
                let metadata = work.metadata_mut(item);
                metadata.remove(KEY);
                metadata.append(KEY, &context).expect("it is ASCII");
                (context, None)
            }
        };
        let call = work.call(item);
        let span = Span {
            context,
            parent,
            application: call.application.0,
            method: call.method.0,
            peer: call.peer.0,
            is_served,
            began_ns: work.now().as_nanos(),
            ended_ns: 0,
            code: String::new(),
        };
        let _ = self.calls.insert(work.call_id(item), span);
    }

    fn end(&mut self, work: &Work<'_>, item: &Item, code: Code) {
        if let Some(span) = self.calls.remove(work.call_id(item)) {
            let (ended_ns, code) = (work.now().as_nanos(), code.name().to_owned());
            self.ended.push(Span { ended_ns, code, ..span });
        }
    }
}

/// Zero is no identifier.
fn some_id(rng: &mut Rng) -> u64 {
    rng.next_u64().max(1)
}

fn new_context(rng: &mut Rng) -> TraceContext {
    let trace = u128::from(some_id(rng)) << 64 | u128::from(rng.next_u64());
    let span_id = some_id(rng).to_be_bytes();
    TraceContext { trace_id: trace.to_be_bytes(), span_id, flags: SAMPLED }
}
