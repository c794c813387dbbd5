//! What the service counts of calls and engines, for people and programs.

use petasos_admin as proto;
use petasos_base::quantile_of_counts;
use petasos_report::duration_us;
use serde_json::{Map, Value, json};

/// Calls that are over: with success, cancelled, failed.
pub fn outcomes(calls: &proto::CallStats) -> [u64; 3] {
    let mut sums = [0; 3];
    for ended in calls.ended() {
        let place = match ended.code() {
            "OK" => 0,
            "CANCELLED" => 1,
            _ => 2,
        };
        sums[place] += ended.calls();
    }
    sums
}

/// Counts by the longest latency.
pub fn latencies(calls: &proto::CallStats) -> Vec<(u64, u64)> {
    calls.latency().iter().map(|bucket| (bucket.latency_max_ns(), bucket.calls())).collect()
}

/// A time for people; `-` for none.
pub fn duration(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "-".to_owned(), |nanos| duration_us(nanos as f64 / 1e3))
}

/// What a method is called that stands for all others.
pub fn method(calls: &proto::CallStats) -> &str {
    match calls.method() {
        "" => "(others)",
        method => method,
    }
}

/// What an item of an engine costs, in ns; none if that was not measured.
pub fn item_ns(sampled_ns: u64, sampled_items: u64) -> Option<u64> {
    sampled_ns.checked_div(sampled_items)
}

/// Calls of a method but for the buckets of their latencies, for programs.
pub fn calls_summary(calls: &proto::CallStats, latency: &[(u64, u64)]) -> Value {
    let ended = calls.ended().iter().map(|ended| (ended.code().to_owned(), ended.calls().into()));
    json!({
        "method": Some(calls.method()).filter(|method| !method.is_empty()), "way": calls.way(),
        "begun": calls.begun(), "under_way": calls.under_way(),
        "ended": ended.collect::<Map<String, Value>>(),
        "request_bytes": calls.request_bytes(), "response_bytes": calls.response_bytes(),
        "latency_ns": calls.latency_ns(), "p50_ns": quantile_of_counts(latency, 0.5),
        "p99_ns": quantile_of_counts(latency, 0.99),
    })
}
