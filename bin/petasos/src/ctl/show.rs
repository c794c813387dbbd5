//! What there is: applications, datapaths and kinds.

use clap::Args;
use petasos_admin as proto;
use petasos_cli::admin::forms::{app_json, datapath_json, texts};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use petasos_cli::output;
use serde_json::{Value, json};

/// The arguments of `petasos ctl datapath`.
#[derive(Args)]
pub struct DatapathArgs {
    /// An application by its name or its number; all without it.
    #[arg(value_name = "APPLICATION", default_value = "")]
    application: String,
    /// Show what policies report: counters, limits, who is refused.
    #[arg(long)]
    reports: bool,
}

/// Lists applications.
pub fn apps(service: &ServiceArgs) -> Result<(), Failed> {
    let request = proto::ListApplicationsRequest::new();
    let answer = service.ask(request, |client, request| client.list_applications(request))?;
    let list = answer.applications();
    let json = || list.iter().map(app_json).collect();
    print(service, json, || {
        let head = [
            "NUMBER",
            "NAME",
            "USER",
            "PID",
            "CALLS",
            "HELD BYTES",
            "WAITING",
            "RUNTIME",
            "ENGINES",
            "SERVES",
        ];
        let rows: Vec<Vec<String>> = list
            .iter()
            .map(|app| {
                vec![
                    app.number().to_string(),
                    app.name().to_owned(),
                    app.uid().to_string(),
                    app.pid().map_or_else(|| "?".to_owned(), |pid| pid.to_string()),
                    app.calls().to_string(),
                    app.held_bytes().to_string(),
                    app.descriptors_waiting().to_string(),
                    app.runtime().to_string(),
                    app.engines().to_string(),
                    texts(app.serves()).join(","),
                ]
            })
            .collect();
        table(&head, &rows)
    })
}

/// Shows the engines of applications.
pub fn datapath(service: &ServiceArgs, args: &DatapathArgs) -> Result<(), Failed> {
    let mut request = proto::ListDatapathsRequest::new();
    request.edit().set_application(&args.application).set_with_reports(args.reports);
    let answer = service.ask(request, |client, request| client.list_datapaths(request))?;
    let list = answer.datapaths();
    let json = || list.iter().map(datapath_json).collect();
    print(service, json, || {
        let mut head =
            vec!["NUMBER", "NAME", "PLACE", "KIND", "VERSION", "POLICY", "CONFIGURATION"];
        if args.reports {
            head.push("REPORT");
        }
        let rows = list.iter().flat_map(datapath_rows).map(|mut row| {
            row.resize(head.len(), String::new());
            row
        });
        table(&head, &rows.collect::<Vec<_>>())
    })
}

/// A row for each engine, its report last; one without cells about engines if there is none.
fn datapath_rows(datapath: &proto::Datapath) -> Vec<Vec<String>> {
    let (number, name) = (datapath.number().to_string(), datapath.name().to_owned());
    if datapath.engines().is_empty() {
        return vec![vec![number, name, "-".to_owned()]];
    }
    let engines = datapath.engines().iter().enumerate();
    let rows = engines.map(|(place, engine)| {
        let policy = match (engine.policy(), engine.is_overridden()) {
            (0, _) => "-".to_owned(),
            (id, false) => id.to_string(),
            (id, true) => format!("{id} (changed)"),
        };
        vec![
            number.clone(),
            name.clone(),
            place.to_string(),
            match engine.without() {
                "" => engine.kind().to_owned(),
                without => format!("{} (taken out, {without})", engine.kind()),
            },
            engine.version().to_string(),
            policy,
            engine.configuration().to_owned(),
            engine.report().to_owned(),
        ]
    });
    rows.collect()
}

/// Lists kinds of policies.
pub fn kinds(service: &ServiceArgs) -> Result<(), Failed> {
    let request = proto::ListKindsRequest::new();
    let answer = service.ask(request, |client, request| client.list_kinds(request))?;
    let list = answer.kinds();
    let one = |kind: &proto::Kind| json!({ "kind": kind.name(), "version": kind.version() });
    print(
        service,
        || list.iter().map(one).collect(),
        || {
            let row = |kind: &proto::Kind| vec![kind.name().to_owned(), kind.version().to_string()];
            table(&["KIND", "VERSION"], &list.iter().map(row).collect::<Vec<_>>())
        },
    )
}

/// Prints an answer for programs or for people.
pub fn print(
    service: &ServiceArgs,
    json: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failed> {
    let text = match service.json {
        true => json().to_string(),
        false => text(),
    };
    Ok(output::answer(text.as_bytes())?)
}
