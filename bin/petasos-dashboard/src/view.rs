//! What the page is told, as JSON: frames of what has happened, and what there is now.
//!
//! Lists are bounded: what is left out is counted. In frames, which are many, rows are arrays.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use petasos_admin as proto;
use petasos_base::quantile_of_counts;
use petasos_cli::admin::counts::{calls_summary, item_ns, latencies};
use petasos_cli::admin::forms::{app_json, audit_json, datapath_json, policy_json, quota_json};
use petasos_cli::admin::{Calls, Engine, Frame};
use serde_json::{Value, json};

/// The most rows of a list in a frame.
const FRAME_ROWS_MAX: usize = 200;
/// The most rows of methods in what there is now.
const CALLS_MAX: usize = 500;

/// What has happened between two answers of the service.
///
/// A row of calls ends with: begun per s, failed per s, under way, p50 and p99 in ns, bytes per s.
pub fn frame(frame: &Frame) -> Value {
    let mut all = Sum::default();
    let mut sides: BTreeMap<(u32, &str), Sum> = BTreeMap::new();
    for calls in &frame.calls {
        if calls.is_once() {
            all.add(calls);
        }
        let side = if calls.way.starts_with("from") { "serves" } else { "makes" };
        sides.entry((calls.number, side)).or_default().add(calls);
    }
    let mut busy: Vec<&Calls> = frame.calls.iter().filter(|calls| is_busy(calls)).collect();
    busy.sort_by(|one, other| other.begun_per_s.total_cmp(&one.begun_per_s));
    let mut engines: Vec<&Engine> =
        frame.engines.iter().filter(|engine| engine.items_per_s > 0.0).collect();
    engines.sort_by(|one, other| other.items_per_s.total_cmp(&one.items_per_s));
    let left_out = busy.len().saturating_sub(FRAME_ROWS_MAX);
    let calls = busy.iter().take(FRAME_ROWS_MAX).map(|calls| calls_row(calls));
    let engines = engines.iter().take(FRAME_ROWS_MAX).map(|engine| engine_row(engine));
    let sides = sides.iter().take(2 * FRAME_ROWS_MAX);
    json!({
        "all": all.row(vec![]),
        "applications": sides.map(|((number, side), sum)| sum.row(vec![json!(number), json!(side)]))
            .collect::<Vec<_>>(),
        "calls": calls.collect::<Vec<_>>(),
        "engines": engines.collect::<Vec<_>>(),
        "left_out": left_out,
    })
}

/// What there is now.
pub fn overview(now: &proto::Overview) -> Value {
    let (calls, calls_left_out) = now.stats().map(calls).unwrap_or_default();
    let applications = now.applications().map_or(&[][..], |it| it.applications());
    let datapaths = now.datapaths().map_or(&[][..], |it| it.datapaths());
    let policies = now.policies().map_or(&[][..], |it| it.policies());
    let quotas = now.quotas().map_or(&[][..], |it| it.quotas());
    let attached = now.quotas().map_or(&[][..], |it| it.attached());
    let attached =
        attached.iter().filter_map(|one| Some(quota_json(one.quota()?, Some(one.number()))));
    let entries = now.audit().map_or(&[][..], |it| it.entries());
    json!({
        "applications": applications.iter().map(app_json).collect::<Vec<_>>(),
        "applications_gone": now.stats().map(|stats| stats.applications_gone()),
        "calls": calls,
        "calls_left_out": calls_left_out,
        "engines": now.stats().map(engines).unwrap_or_default(),
        "datapaths": datapaths.iter().map(datapath_json).collect::<Vec<_>>(),
        "policies": policies.iter().map(policy_json).collect::<Vec<_>>(),
        "policies_file": now.policies().map(|it| it.file()).filter(|file| !file.is_empty()),
        "quotas": quotas.iter().map(|quota| quota_json(quota, None)).collect::<Vec<_>>(),
        "quotas_attached": attached.collect::<Vec<_>>(),
        "audit": entries.iter().map(audit_json).collect::<Vec<_>>(),
    })
}

/// Calls by application, method and way, those that were called most; how many are left out.
fn calls(stats: &proto::StatsResponse) -> (Vec<Value>, u64) {
    let apps = stats.applications().iter();
    let mut all: Vec<_> =
        apps.flat_map(|app| app.calls().iter().map(move |calls| (app, calls))).collect();
    all.sort_by_key(|(_, calls)| Reverse(calls.begun()));
    let left_out = all.len().saturating_sub(CALLS_MAX) as u64 + stats.methods_left_out();
    let rows = all.iter().take(CALLS_MAX).map(|(app, calls)| {
        let mut row = calls_summary(calls, &latencies(calls));
        row["number"] = app.number().into();
        row
    });
    (rows.collect(), left_out)
}

fn engines(stats: &proto::StatsResponse) -> Vec<Value> {
    let of = |app: &proto::ApplicationStats| {
        let engines = app.engines().iter().enumerate();
        let row = |(place, engine): (usize, &proto::EngineStats)| {
            json!({
                "number": app.number(), "place": place, "kind": engine.kind(),
                "items": engine.items(), "ended": engine.ended(),
                "item_ns": item_ns(engine.sampled_ns(), engine.sampled_items()),
            })
        };
        engines.map(row).collect::<Vec<_>>()
    };
    stats.applications().iter().flat_map(of).collect()
}

fn is_busy(calls: &Calls) -> bool {
    calls.begun_per_s > 0.0
        || calls.failed_per_s > 0.0
        || calls.under_way > 0
        || !calls.latency.is_empty()
}

/// Calls of several rows together.
#[derive(Default)]
struct Sum {
    begun_per_s: f64,
    failed_per_s: f64,
    under_way: u64,
    latency: BTreeMap<u64, u64>,
    bytes_per_s: f64,
}

impl Sum {
    fn add(&mut self, calls: &Calls) {
        self.begun_per_s += calls.begun_per_s;
        self.failed_per_s += calls.failed_per_s;
        self.under_way += calls.under_way;
        self.bytes_per_s += bytes_per_s(calls);
        for (nanos, count) in &calls.latency {
            *self.latency.entry(*nanos).or_default() += count;
        }
    }

    fn row(&self, mut row: Vec<Value>) -> Value {
        let latency: Vec<(u64, u64)> =
            self.latency.iter().map(|(at, count)| (*at, *count)).collect();
        row.extend([
            rounded(self.begun_per_s),
            rounded(self.failed_per_s),
            self.under_way.into(),
            quantile_of_counts(&latency, 0.5).into(),
            quantile_of_counts(&latency, 0.99).into(),
            rounded(self.bytes_per_s),
        ]);
        row.into()
    }
}

fn calls_row(calls: &Calls) -> Value {
    let mut sum = Sum::default();
    sum.add(calls);
    sum.row(vec![json!(calls.number), json!(calls.method), json!(calls.way)])
}

fn engine_row(engine: &Engine) -> Value {
    json!([
        engine.number,
        engine.place,
        engine.kind,
        rounded(engine.items_per_s),
        rounded(engine.ended_per_s),
        engine.item_ns,
        engine.load(),
    ])
}

fn bytes_per_s(calls: &Calls) -> f64 {
    calls.request_bytes_per_s + calls.response_bytes_per_s
}

/// Rates in hundredths are short, and exact enough.
fn rounded(rate: f64) -> Value {
    ((rate * 100.0).round() / 100.0).into()
}

#[cfg(test)]
mod tests {
    use petasos::Msg;

    use super::*;

    /// Two applications, of which one calls the other `begun` times, each in 1 or 9 µs, and many
    /// methods that nobody calls.
    fn stats(seconds: u64, begun: u64, methods: usize) -> Msg<proto::StatsResponse> {
        let mut stats = proto::StatsResponse::new();
        let mut edit = stats.edit();
        edit.set_time_ns(seconds * 1_000_000_000);
        let mut list = edit.applications_mut();
        for (number, way) in [(1, "to-local"), (2, "from-local")] {
            let mut app = list.add();
            app.set_number(number).set_name("<b>");
            let mut calls = app.calls_mut();
            let mut one = calls.add();
            one.set_method("a.B/C").set_way(way).set_begun(begun).set_request_bytes(10 * begun);
            one.ended_mut().add().set_code("INTERNAL").set_calls(begun);
            let mut latency = one.latency_mut();
            latency.add().set_latency_max_ns(1000).set_calls(begun);
            latency.add().set_latency_max_ns(9000).set_calls(begun / 4);
            for method in 0..methods {
                calls.add().set_method(format!("a.B/M{method}")).set_way(way);
            }
            app.engines_mut().add().set_kind("null").set_items(2 * begun);
        }
        stats
    }

    #[test]
    fn a_call_between_two_applications_counts_once_and_for_both() {
        let (earlier, now) = (stats(10, 100, 0), stats(12, 300, 0));
        let frame = frame(&Frame::between(&earlier, &now));
        assert_eq!(frame["all"], json!([100.0, 100.0, 0, 1000, 9000, 1000.0]));
        let applications = json!([
            [1, "makes", 100.0, 100.0, 0, 1000, 9000, 1000.0],
            [2, "serves", 100.0, 100.0, 0, 1000, 9000, 1000.0],
        ]);
        assert_eq!(frame["applications"], applications);
        let one = json!([1, "a.B/C", "to-local", 100.0, 100.0, 0, 1000, 9000, 1000.0]);
        assert_eq!(frame["calls"][0], one);
        assert_eq!(frame["engines"][0], json!([1, 0, "null", 200.0, 0.0, null, null]));
    }

    #[test]
    fn lists_are_bounded_and_say_what_they_leave_out() {
        let (earlier, mut now) = (stats(1, 0, 900), stats(2, 0, 900));
        let mut edit = now.edit();
        let mut apps = edit.applications_mut();
        let mut app = apps.at(0);
        let mut calls = app.calls_mut();
        for place in 0..900 {
            calls.at(place).set_begun(1 + place as u64);
        }
        let frame = frame(&Frame::between(&earlier, &now));
        assert_eq!(frame["calls"].as_array().map(Vec::len), Some(FRAME_ROWS_MAX));
        assert_eq!((&frame["left_out"], &frame["calls"][0][3]), (&json!(700), &json!(900.0)));
        let mut whole = proto::Overview::new();
        let mut edit = whole.edit();
        edit.stats_mut().set_methods_left_out(7);
        let empty = overview(&whole);
        assert_eq!((&empty["calls"], &empty["calls_left_out"]), (&json!([]), &json!(7)));
        let (rows, left_out) = super::calls(&now);
        assert_eq!((rows.len(), left_out), (CALLS_MAX, 2 * 901 - CALLS_MAX as u64));
        assert_eq!((&rows[0]["begun"], &rows[0]["number"]), (&json!(900), &json!(1)));
    }
}
