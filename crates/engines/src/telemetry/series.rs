//! The counters of the calls of a key.

use petasos_engine::sync::{AtomicU64, Ordering};
use petasos_engine::{Code, SharedHistogram, Time, log_linear_quantile};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::table::Kept;

/// More calls than there ever are in a bucket of latencies.
const BUCKET_MAX: u64 = 1 << 48;

/// Counters that several threads write.
#[derive(Default)]
pub(super) struct Series {
    begun: AtomicU64,
    /// By the number of the code.
    ended: [AtomicU64; Code::ALL.len()],
    cancelled: AtomicU64,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    /// In nanoseconds.
    latency: SharedHistogram,
}

/// What counters were at a time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    #[serde(default)]
    begun: u64,
    #[serde(default)]
    ended: Vec<u64>,
    #[serde(default)]
    cancelled: u64,
    #[serde(default)]
    request_bytes: u64,
    #[serde(default)]
    response_bytes: u64,
    /// Buckets of the histogram that are not empty.
    #[serde(default)]
    latency: Vec<(usize, u64)>,
}

/// Counts are never forgotten: a key that finds no room shares a series instead.
impl Kept for Series {
    fn is_idle(&self, _: Time) -> bool {
        false
    }
}

fn add(to: &AtomicU64, count: u64) {
    to.fetch_add(count, Ordering::Relaxed);
}

impl Series {
    pub(super) fn begin(&self, bytes: u32) {
        add(&self.begun, 1);
        add(&self.request_bytes, u64::from(bytes));
    }

    pub(super) fn message(&self, is_request: bool, bytes: u32) {
        let to = if is_request { &self.request_bytes } else { &self.response_bytes };
        add(to, u64::from(bytes));
    }

    pub(super) fn end(&self, code: Code, bytes: u32) {
        add(&self.ended[usize::from(code.number())], 1);
        add(&self.response_bytes, u64::from(bytes));
    }

    pub(super) fn latency(&self, nanos: u64) {
        self.latency.record(nanos);
    }

    pub(super) fn cancel(&self) {
        add(&self.cancelled, 1);
    }

    pub(super) fn add(&self, snapshot: &Snapshot) {
        add(&self.begun, snapshot.begun);
        add(&self.cancelled, snapshot.cancelled);
        add(&self.request_bytes, snapshot.request_bytes);
        add(&self.response_bytes, snapshot.response_bytes);
        self.ended.iter().zip(&snapshot.ended).for_each(|(to, count)| add(to, *count));
        // It may come from another process: quantiles are made of the sum of all buckets.
        let of_bucket = |&(index, count): &(usize, u64)| (index, count.min(BUCKET_MAX));
        self.latency.add(&snapshot.latency.iter().map(of_bucket).collect::<Vec<_>>());
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let get = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Snapshot {
            begun: get(&self.begun),
            ended: self.ended.iter().map(get).collect(),
            cancelled: get(&self.cancelled),
            request_bytes: get(&self.request_bytes),
            response_bytes: get(&self.response_bytes),
            latency: self.latency.counts(),
        }
    }
}

impl Snapshot {
    /// For operators.
    pub(super) fn report(&self) -> Value {
        let ended = Code::ALL.iter().zip(&self.ended).filter(|(_, count)| **count > 0);
        let ended: Map<String, Value> =
            ended.map(|(code, count)| (code.name().to_owned(), json!(count))).collect();
        let micros = |part| log_linear_quantile(&self.latency, part) as f64 / 1000.0;
        json!({
            "begun": self.begun,
            "ended": ended,
            "cancelled": self.cancelled,
            "request_bytes": self.request_bytes,
            "response_bytes": self.response_bytes,
            "latency_us": {
                "p50": micros(0.5), "p90": micros(0.9), "p99": micros(0.99),
                "p999": micros(0.999), "max": micros(1.0),
            },
        })
    }
}
