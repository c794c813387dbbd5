//! What there is: groups, workers, clients.

use clap::Args;
use petasos_admin::router as proto;
use petasos_cli::admin::counts::duration;
use petasos_cli::admin::forms::texts;
use petasos_cli::admin::router_forms::{group_json, settings_json, worker_json};
use petasos_cli::admin::{ServiceArgs, table};
use petasos_cli::failed::Failed;
use serde_json::{Value, json};

use crate::ctl::show::print;

/// The arguments of `petasos ctl router clients`.
#[derive(Args)]
pub struct ClientsArgs {
    /// Those whose numbers are above this.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u32>,
    /// The most that are listed, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    most: u32,
}

/// Shows groups.
pub fn status(service: &ServiceArgs, group: &str) -> Result<(), Failed> {
    let answer = asked(service, group)?;
    let groups = answer.groups();
    print(
        service,
        || groups.iter().map(group_json).collect(),
        || groups.iter().map(group_text).collect::<Vec<_>>().join("\n"),
    )
}

/// Shows how workers are picked, and how requests wait.
pub fn policy(service: &ServiceArgs, group: &str) -> Result<(), Failed> {
    let answer = asked(service, group)?;
    let groups = answer.groups();
    let json = |group: &proto::Group| {
        let mut settings = settings_json(group);
        settings["group"] = group.group().into();
        settings
    };
    print(
        service,
        || groups.iter().map(json).collect(),
        || {
            let head = ["GROUP", "POLICY", "LIMIT", "WAITING MAX", "WAITING AGE"];
            let row = |group: &proto::Group| {
                let [policy, limit, most, age] = settings_texts(group);
                vec![group.group().to_owned(), policy, limit, most, age]
            };
            table(&head, &groups.iter().map(row).collect::<Vec<_>>())
        },
    )
}

fn asked(
    service: &ServiceArgs,
    group: &str,
) -> Result<petasos::Msg<proto::StatusResponse>, Failed> {
    let mut request = proto::StatusRequest::new();
    request.edit().set_group(group);
    service.ask_router(request, |client, request| client.status(request))
}

/// Lists workers.
pub fn workers(service: &ServiceArgs, group: &str) -> Result<(), Failed> {
    let mut request = proto::ListWorkersRequest::new();
    request.edit().set_group(group);
    let answer = service.ask_router(request, |client, request| client.list_workers(request))?;
    let workers = answer.workers();
    print(
        service,
        || workers.iter().map(worker_json).collect(),
        || {
            let head = [
                "WORKER",
                "ADDRESS",
                "STATE",
                "N",
                "LIMIT",
                "OUTSTANDING",
                "WEIGHT",
                "PRIMARY",
                "GIVEN",
                "SETTLED",
                "HEARD",
                "NAMES",
            ];
            table(&head, &workers.iter().map(worker_row).collect::<Vec<_>>())
        },
    )
}

/// Lists clients.
pub fn clients(service: &ServiceArgs, group: &str, args: &ClientsArgs) -> Result<(), Failed> {
    let mut request = proto::ListClientsRequest::new();
    let mut edit = request.edit();
    edit.set_group(group).set_clients_max(args.most);
    if let Some(after) = args.after {
        edit.set_after(after);
    }
    let answer = service.ask_router(request, |client, request| client.list_clients(request))?;
    let clients = answer.clients();
    let json = || {
        let list: Vec<Value> = clients.iter().map(client_json).collect();
        json!({ "clients": list, "has_more": answer.has_more() })
    };
    print(service, json, || {
        let head = ["CLIENT", "PEER", "REQUESTS", "REJECTED", "WAITING", "NAMES"];
        let mut text = table(&head, &clients.iter().map(client_row).collect::<Vec<_>>());
        if let Some(last) = clients.iter().last().filter(|_| answer.has_more()) {
            text += &format!("there are more: --after {}\n", last.client());
        }
        text
    })
}

/// Policy, limit, room and age.
fn settings_texts(group: &proto::Group) -> [String; 4] {
    let settings = group.settings();
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let limit = settings.and_then(|it| it.limit()).map(|limit| limit.to_string());
    let age = settings.and_then(|it| it.waiting_age_us());
    [
        text(settings.map(|it| it.policy().to_owned())),
        text(limit),
        text(settings.map(|it| it.waiting_max().to_string())),
        duration(age.map(|us| us.saturating_mul(1000))),
    ]
}

/// Counts that are not 0, by name.
fn counts_text<'a>(counts: impl IntoIterator<Item = &'a proto::Count>) -> String {
    let counts = counts.into_iter().filter(|it| it.count() > 0);
    let texts: Vec<_> = counts.map(|it| format!("{} {}", it.name(), it.count())).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn group_text(group: &proto::Group) -> String {
    let [policy, limit, most, age] = settings_texts(group);
    let state = if group.is_active() { "active" } else { "standby" };
    let mut rows = vec![
        ("group", format!("{}, {state}", group.group())),
        ("packets", format!("udp {}", group.data())),
    ];
    if !group.binds().is_empty() {
        let services = texts(group.services()).join(", ");
        rows.push(("services", format!("{services}; binds at udp {}", group.binds())));
    }
    let (waiting, bytes) = (group.waiting(), group.waiting_bytes());
    let members = (group.workers(), group.clients(), group.connections());
    let (workers, clients, connections) = members;
    let epoch = (group.epoch(), group.epochs_begun());
    rows.extend([
        ("policy", format!("{policy}, limit {limit}, at most {most} wait, for {age}")),
        ("members", format!("{workers} workers, {clients} clients, {connections} connections")),
        ("waiting", format!("{waiting} requests, {bytes} bytes")),
        ("outstanding", group.outstanding().to_string()),
        ("given", format!("{}, {} after waiting", group.given(), group.waited())),
        ("settled", group.settled().to_string()),
        ("rejected", counts_text(group.rejected())),
        ("turned away", counts_text(group.turned_away())),
        ("dropped", counts_text(group.dropped())),
        (
            "feedback",
            format!("{}; dropped: {}", group.feedback(), counts_text(group.feedback_dropped())),
        ),
        (
            "workers lost",
            format!(
                "{} silences, {} ejections, {} probes, {} abandoned",
                group.silences(),
                group.ejections(),
                group.probes(),
                group.abandoned(),
            ),
        ),
        (
            "refused",
            format!("{} attaches, {} joins", group.attaches_refused(), group.joins_refused()),
        ),
        ("epoch", format!("{}, {} have begun", epoch.0, epoch.1)),
    ]);
    if !group.program().is_empty() {
        rows.push(("program", counts_text(group.program())));
    }
    rows.iter().map(|(name, text)| format!("{name:<13} {text}\n")).collect()
}

fn worker_row(worker: &proto::Worker) -> Vec<String> {
    vec![
        worker.worker().to_string(),
        worker.address().to_owned(),
        worker.state().to_owned(),
        worker.bound().to_string(),
        worker.limit().to_string(),
        worker.outstanding().to_string(),
        worker.weight().to_string(),
        if worker.is_primary() { "yes" } else { "-" }.to_owned(),
        worker.given().to_string(),
        worker.settled().to_string(),
        duration(Some(worker.heard_us().saturating_mul(1000))),
        texts(worker.names()).join(","),
    ]
}

fn client_json(client: &proto::Client) -> Value {
    json!({
        "client": client.client(), "peer": Some(client.peer()).filter(|peer| !peer.is_empty()),
        "names": texts(client.names()), "requests": client.requests(),
        "rejected": client.rejected(), "waiting": client.waiting(),
    })
}

fn client_row(client: &proto::Client) -> Vec<String> {
    vec![
        client.client().to_string(),
        if client.peer().is_empty() { "-" } else { client.peer() }.to_owned(),
        client.requests().to_string(),
        client.rejected().to_string(),
        client.waiting().to_string(),
        texts(client.names()).join(","),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_has_done_is_shown_if_there_is_one() {
        let mut group = proto::Group::new();
        assert!(group_json(&group)["program"].is_null());
        assert!(!group_text(&group).contains("program"), "{}", group_text(&group));
        for (name, count) in [("given", 7), ("parked", 0), ("taken", 9)] {
            group.edit().program_mut().add().set_name(name).set_count(count);
        }
        let program = json!({ "given": 7, "parked": 0, "taken": 9 });
        assert_eq!(group_json(&group)["program"], program);
        let text = group_text(&group);
        assert!(text.lines().any(|line| line == "program       given 7, taken 9"), "{text}");
    }
}
