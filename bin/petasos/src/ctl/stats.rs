//! What the service counts, since applications have attached.

use clap::Args;
use petasos_admin as proto;
use petasos_base::quantile_of_counts;
use petasos_report::duration_us;
use serde_json::{Map, Value, json};

use super::ServiceArgs;
use super::show::print;
use super::table::table;
use crate::typed::Failed;

/// The arguments of `petasos ctl stats`.
#[derive(Args)]
pub struct StatsArgs {
    /// An application by its name or its number; all without it.
    #[arg(value_name = "APPLICATION", default_value = "")]
    application: String,
}

/// Shows what is counted.
pub fn run(service: &ServiceArgs, args: &StatsArgs) -> Result<(), Failed> {
    let mut request = proto::StatsRequest::new();
    request.edit().set_application(&args.application);
    let answer = service.ask(request, |client, request| client.stats(request))?;
    print(service, || json_of(&answer), || text(&answer))
}

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

fn text(answer: &proto::StatsResponse) -> String {
    let head = [
        "NUMBER",
        "NAME",
        "METHOD",
        "WAY",
        "BEGUN",
        "UNDER WAY",
        "OK",
        "CANCELLED",
        "FAILED",
        "P50",
        "P99",
        "REQUEST BYTES",
        "RESPONSE BYTES",
    ];
    let applications = answer.applications().iter();
    let calls = applications.flat_map(|app| app.calls().iter().map(move |calls| (app, calls)));
    let rows: Vec<_> = calls.map(|(app, calls)| row(app, calls)).collect();
    let mut text = table(&head, &rows);
    let applications = answer.applications().iter();
    let engines = applications.flat_map(|app| {
        let engines = app.engines().iter().enumerate();
        engines.map(move |(place, engine)| engine_row(app, place, engine))
    });
    let head = ["NUMBER", "NAME", "PLACE", "ENGINE", "ITEMS", "ENDED CALLS", "COST OF AN ITEM"];
    text.push('\n');
    text.push_str(&table(&head, &engines.collect::<Vec<_>>()));
    if answer.methods_left_out() > 0 {
        let left_out = answer.methods_left_out();
        text.push_str(&format!("{left_out} methods are left out: name an application\n"));
    }
    text
}

fn row(app: &proto::ApplicationStats, calls: &proto::CallStats) -> Vec<String> {
    let (latency, [ok, cancelled, failed]) = (latencies(calls), outcomes(calls));
    vec![
        app.number().to_string(),
        app.name().to_owned(),
        method(calls).to_owned(),
        calls.way().to_owned(),
        calls.begun().to_string(),
        calls.under_way().to_string(),
        ok.to_string(),
        cancelled.to_string(),
        failed.to_string(),
        duration(quantile_of_counts(&latency, 0.5)),
        duration(quantile_of_counts(&latency, 0.99)),
        calls.request_bytes().to_string(),
        calls.response_bytes().to_string(),
    ]
}

fn engine_row(
    app: &proto::ApplicationStats,
    place: usize,
    engine: &proto::EngineStats,
) -> Vec<String> {
    vec![
        app.number().to_string(),
        app.name().to_owned(),
        place.to_string(),
        engine.kind().to_owned(),
        engine.items().to_string(),
        engine.ended().to_string(),
        duration(item_ns(engine.sampled_ns(), engine.sampled_items())),
    ]
}

/// All of it, for programs.
fn json_of(answer: &proto::StatsResponse) -> Value {
    let applications: Vec<Value> = answer.applications().iter().map(application_json).collect();
    let gone: Vec<Value> = answer.gone().iter().map(calls_json).collect();
    json!({
        "time_ns": answer.time_ns(), "applications": applications,
        "methods_left_out": answer.methods_left_out(),
        "applications_gone": answer.applications_gone(), "gone": gone,
    })
}

fn application_json(app: &proto::ApplicationStats) -> Value {
    let calls: Vec<Value> = app.calls().iter().map(calls_json).collect();
    let engines: Vec<Value> = app
        .engines()
        .iter()
        .map(|engine| {
            json!({
                "kind": engine.kind(), "items": engine.items(), "ended": engine.ended(),
                "sampled_ns": engine.sampled_ns(), "sampled_items": engine.sampled_items(),
            })
        })
        .collect();
    json!({
        "number": app.number(), "name": app.name(), "calls": calls, "engines": engines,
        "refused": app.refused(),
    })
}

fn calls_json(calls: &proto::CallStats) -> Value {
    let latency = latencies(calls);
    let mut json = calls_summary(calls, &latency);
    json["latency"] = json!(latency);
    json
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
