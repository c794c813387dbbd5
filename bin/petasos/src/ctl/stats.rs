//! What the service counts, since applications have attached.

use clap::Args;
use petasos_admin as proto;
use petasos_base::quantile_of_counts;
use petasos_cli::admin::counts::{calls_summary, duration, item_ns, latencies, method, outcomes};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde_json::{Value, json};

use super::show::print;

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
        text.push_str(&format!("{left_out} methods are counted together: name an application\n"));
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
