//! What has happened between two answers of the service.

use std::cmp::Reverse;
use std::collections::HashMap;

use clap::ValueEnum;
use petasos_admin as proto;
use petasos_base::quantile_of_counts;
use petasos_report::{terminal_width, with_si_prefix};
use serde_json::{Value, json};

use super::counts::{duration, item_ns, latencies, method, outcomes};
use super::table::table_within;

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Methods that are called most often.
    Rate,
    /// Those that fail most often.
    Failed,
    /// Those with most calls under way.
    UnderWay,
    /// Those that take longest for half of their calls.
    P50,
    /// Those that take longest for one in a hundred.
    P99,
    /// Those that move most bytes.
    Bytes,
    /// By application and method.
    Name,
}

impl Order {
    /// The order that a key chooses.
    pub fn of_key(key: char) -> Option<Order> {
        match key {
            'r' => Some(Order::Rate),
            'f' => Some(Order::Failed),
            'u' => Some(Order::UnderWay),
            '5' => Some(Order::P50),
            '9' => Some(Order::P99),
            'b' => Some(Order::Bytes),
            'n' => Some(Order::Name),
            _ => None,
        }
    }
}

/// Calls of a method.
#[derive(Debug)]
pub struct Calls {
    /// The application's number.
    pub number: u32,
    /// The application's name.
    pub name: String,
    /// Service and method.
    pub method: String,
    /// Where they come from and go to.
    pub way: String,
    /// Calls that begin.
    pub begun_per_s: f64,
    /// Calls that fail.
    pub failed_per_s: f64,
    /// Calls that have begun and are not over.
    pub under_way: u64,
    /// Calls that are over, by the longest that they took, in ns.
    pub latency: Vec<(u64, u64)>,
    /// So long half of them took at most; none if none is over.
    pub p50_ns: Option<u64>,
    /// So long 99 of 100 took at most.
    pub p99_ns: Option<u64>,
    /// Bytes of requests.
    pub request_bytes_per_s: f64,
    /// Bytes of responses.
    pub response_bytes_per_s: f64,
}

/// An engine.
#[derive(Debug)]
pub struct Engine {
    /// The application's number.
    pub number: u32,
    /// The application's name.
    pub name: String,
    /// Its place in the datapath.
    pub place: usize,
    /// The kind of its policy.
    pub kind: String,
    /// Items that pass.
    pub items_per_s: f64,
    /// Calls that it ends.
    pub ended_per_s: f64,
    /// What an item costs, if that was measured.
    pub item_ns: Option<u64>,
}

/// A moment of the service.
#[derive(Debug)]
pub struct Frame {
    seconds: f64,
    applications: usize,
    /// By application, and in the service's order until they are sorted.
    pub calls: Vec<Calls>,
    /// By application, in the order of their datapaths.
    pub engines: Vec<Engine>,
    left_out: u64,
}

impl Frame {
    /// What has happened between two answers.
    pub fn between(earlier: &proto::StatsResponse, now: &proto::StatsResponse) -> Frame {
        let seconds = now.time_ns().saturating_sub(earlier.time_ns()) as f64 / 1e9;
        let before: HashMap<u32, &proto::ApplicationStats> =
            earlier.applications().iter().map(|app| (app.number(), app)).collect();
        let mut frame = Frame {
            seconds,
            applications: now.applications().len(),
            calls: Vec::new(),
            engines: Vec::new(),
            left_out: now.methods_left_out(),
        };
        for app in now.applications() {
            let before = before.get(&app.number()).copied();
            frame.add_calls(before, app);
            frame.add_engines(before, app);
        }
        frame
    }

    fn add_calls(
        &mut self,
        before: Option<&proto::ApplicationStats>,
        app: &proto::ApplicationStats,
    ) {
        let key = |calls: &proto::CallStats| (calls.method().to_owned(), calls.way().to_owned());
        let before: HashMap<_, &proto::CallStats> =
            before.iter().flat_map(|app| app.calls()).map(|calls| (key(calls), calls)).collect();
        for calls in app.calls() {
            let before = before.get(&key(calls)).copied();
            let seconds = self.seconds;
            let rate = |count: fn(&proto::CallStats) -> u64| {
                rate(seconds, count(calls), before.map_or(0, count))
            };
            let latency = newer(before, calls);
            self.calls.push(Calls {
                number: app.number(),
                name: app.name().to_owned(),
                method: method(calls).to_owned(),
                way: calls.way().to_owned(),
                begun_per_s: rate(|calls| calls.begun()),
                failed_per_s: rate(|calls| outcomes(calls)[2]),
                under_way: calls.under_way(),
                p50_ns: quantile_of_counts(&latency, 0.5),
                p99_ns: quantile_of_counts(&latency, 0.99),
                latency,
                request_bytes_per_s: rate(|calls| calls.request_bytes()),
                response_bytes_per_s: rate(|calls| calls.response_bytes()),
            });
        }
    }

    fn add_engines(
        &mut self,
        before: Option<&proto::ApplicationStats>,
        app: &proto::ApplicationStats,
    ) {
        for (place, engine) in app.engines().iter().enumerate() {
            let before = before.and_then(|app| app.engines().get(place));
            // Another engine may have this place now.
            let before = before.filter(|before| {
                before.kind() == engine.kind() && before.items() <= engine.items()
            });
            let since = |count: fn(&proto::EngineStats) -> u64| {
                count(engine).saturating_sub(before.map_or(0, count))
            };
            let nanos = since(|engine| engine.sampled_ns());
            self.engines.push(Engine {
                number: app.number(),
                name: app.name().to_owned(),
                place,
                kind: engine.kind().to_owned(),
                items_per_s: rate(self.seconds, since(|engine| engine.items()), 0),
                ended_per_s: rate(self.seconds, since(|engine| engine.ended()), 0),
                item_ns: item_ns(nanos, since(|engine| engine.sampled_items())),
            });
        }
    }

    /// Brings the methods into an order.
    pub fn sort(&mut self, order: Order) {
        let down = |calls: &mut Vec<Calls>, of: fn(&Calls) -> f64| {
            calls.sort_by(|one, other| of(other).total_cmp(&of(one)));
        };
        self.calls.sort_by(|one, other| {
            let key = |calls: &Calls| (calls.name.clone(), calls.number, calls.method.clone());
            key(one).cmp(&key(other))
        });
        match order {
            Order::Rate => down(&mut self.calls, |calls| calls.begun_per_s),
            Order::Failed => down(&mut self.calls, |calls| calls.failed_per_s),
            Order::UnderWay => self.calls.sort_by_key(|calls| Reverse(calls.under_way)),
            Order::P50 => self.calls.sort_by_key(|calls| Reverse(calls.p50_ns)),
            Order::P99 => self.calls.sort_by_key(|calls| Reverse(calls.p99_ns)),
            Order::Bytes => down(&mut self.calls, |calls| {
                calls.request_bytes_per_s + calls.response_bytes_per_s
            }),
            Order::Name => {}
        }
    }

    /// A line about all of it.
    pub fn summary(&self) -> String {
        let once = || self.calls.iter().filter(|calls| calls.is_once());
        let rate: f64 = once().map(|calls| calls.begun_per_s).sum();
        let failed: f64 = once().map(|calls| calls.failed_per_s).sum();
        let under_way: u64 = once().map(|calls| calls.under_way).sum();
        let applications = if self.applications == 1 { "application" } else { "applications" };
        format!(
            "{} {applications}, {} calls/s, {} failed/s, {under_way} under way",
            self.applications,
            with_si_prefix(rate),
            with_si_prefix(failed),
        )
    }

    /// Its tables, in lines of at most this many character cells where that can be.
    pub fn tables_within(&self, width: usize) -> [String; 2] {
        let head = [
            "NUMBER",
            "NAME",
            "METHOD",
            "WAY",
            "CALLS/S",
            "FAILED/S",
            "UNDER WAY",
            "P50",
            "P99",
            "REQUEST B/S",
            "RESPONSE B/S",
        ];
        let calls: Vec<_> = self.calls.iter().map(Calls::row).collect();
        let engines: Vec<_> = self.engines.iter().map(Engine::row).collect();
        let engine_head =
            ["NUMBER", "NAME", "PLACE", "ENGINE", "ITEMS/S", "ENDED/S", "COST OF AN ITEM", "LOAD"];
        [table_within(&head, &calls, width), table_within(&engine_head, &engines, width)]
    }

    /// All of it, for people.
    pub fn to_text(&self) -> String {
        let [calls, engines] = self.tables_within(terminal_width());
        let mut text = format!("{}\n\n{calls}\n{engines}", self.summary());
        if self.left_out > 0 {
            text.push_str(&format!("{} methods are counted together\n", self.left_out));
        }
        text
    }

    /// All of it, for programs.
    pub fn to_json(&self) -> Value {
        let calls: Vec<Value> = self.calls.iter().map(Calls::to_json).collect();
        let engines: Vec<Value> = self.engines.iter().map(Engine::to_json).collect();
        json!({
            "seconds": self.seconds, "calls": calls, "engines": engines,
            "methods_left_out": self.left_out,
        })
    }
}

fn rate(seconds: f64, now: u64, before: u64) -> f64 {
    if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

/// Latencies of calls that are over since an earlier answer.
fn newer(before: Option<&proto::CallStats>, now: &proto::CallStats) -> Vec<(u64, u64)> {
    let before: HashMap<u64, u64> = before.map(latencies).unwrap_or_default().into_iter().collect();
    let since = |(nanos, calls): (u64, u64)| {
        let calls = calls.saturating_sub(before.get(&nanos).copied().unwrap_or(0));
        (calls > 0).then_some((nanos, calls))
    };
    latencies(now).into_iter().filter_map(since).collect()
}

impl Calls {
    /// Whether they are to be counted where all calls are: one between two applications is counted
    /// by both, and its caller's count is enough.
    pub fn is_once(&self) -> bool {
        self.way != "from-local"
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            self.name.clone(),
            self.method.clone(),
            self.way.clone(),
            with_si_prefix(self.begun_per_s),
            with_si_prefix(self.failed_per_s),
            self.under_way.to_string(),
            duration(self.p50_ns),
            duration(self.p99_ns),
            with_si_prefix(self.request_bytes_per_s),
            with_si_prefix(self.response_bytes_per_s),
        ]
    }

    fn to_json(&self) -> Value {
        json!({
            "number": self.number, "name": self.name, "method": self.method, "way": self.way,
            "begun_per_s": self.begun_per_s, "failed_per_s": self.failed_per_s,
            "under_way": self.under_way, "p50_ns": self.p50_ns, "p99_ns": self.p99_ns,
            "request_bytes_per_s": self.request_bytes_per_s,
            "response_bytes_per_s": self.response_bytes_per_s,
        })
    }
}

impl Engine {
    /// The part of a processor that it takes, as far as that was measured.
    pub fn load(&self) -> Option<f64> {
        self.item_ns.map(|nanos| nanos as f64 * self.items_per_s / 1e9)
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.number.to_string(),
            self.name.clone(),
            self.place.to_string(),
            self.kind.clone(),
            with_si_prefix(self.items_per_s),
            with_si_prefix(self.ended_per_s),
            duration(self.item_ns),
            self.load().map_or_else(|| "-".to_owned(), |load| format!("{:.2} %", load * 100.0)),
        ]
    }

    fn to_json(&self) -> Value {
        json!({
            "number": self.number, "name": self.name, "place": self.place, "kind": self.kind,
            "items_per_s": self.items_per_s, "ended_per_s": self.ended_per_s,
            "item_ns": self.item_ns, "load": self.load(),
        })
    }
}
