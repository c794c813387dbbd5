//! What a router tells, for programs.

use petasos_admin::router as proto;
use serde_json::{Map, Value, json};

use super::forms::texts;

/// A group, for programs.
pub fn group_json(group: &proto::Group) -> Value {
    let mut all = json!({
        "group": group.group(), "data": group.data(),
        "binds": Some(group.binds()).filter(|binds| !binds.is_empty()),
        "services": texts(group.services()), "payload_bytes": group.payload_bytes(),
        "is_active": group.is_active(), "epoch": group.epoch(),
        "epochs_begun": group.epochs_begun(), "workers": group.workers(),
        "clients": group.clients(), "connections": group.connections(),
        "settings": settings_json(group), "waiting": group.waiting(),
        "waiting_bytes": group.waiting_bytes(), "outstanding": group.outstanding(),
        "given": group.given(), "waited": group.waited(), "settled": group.settled(),
    });
    let counted = json!({
        "rejected": counts_json(group.rejected()),
        "turned_away": counts_json(group.turned_away()),
        "dropped": counts_json(group.dropped()), "feedback": group.feedback(),
        "feedback_dropped": counts_json(group.feedback_dropped()), "probes": group.probes(),
        "abandoned": group.abandoned(), "silences": group.silences(),
        "ejections": group.ejections(), "backed_up": group.backed_up(),
        "attaches_refused": group.attaches_refused(), "joins_refused": group.joins_refused(),
        "program": Some(counts_json(group.program())).filter(|_| !group.program().is_empty()),
    });
    if let (Value::Object(all), Value::Object(counted)) = (&mut all, counted) {
        all.extend(counted);
    }
    all
}

/// What is in force in a group.
pub fn settings_json(group: &proto::Group) -> Value {
    let settings = group.settings();
    json!({
        "policy": settings.map(|it| it.policy()), "limit": settings.and_then(|it| it.limit()),
        "waiting_max": settings.map(|it| it.waiting_max()),
        "waiting_age_us": settings.and_then(|it| it.waiting_age_us()),
    })
}

/// A worker, for programs.
pub fn worker_json(worker: &proto::Worker) -> Value {
    json!({
        "worker": worker.worker(), "address": worker.address(), "names": texts(worker.names()),
        "state": worker.state(), "bound": worker.bound(), "limit": worker.limit(),
        "outstanding": worker.outstanding(), "weight": worker.weight(),
        "is_primary": worker.is_primary(), "is_draining": worker.is_draining(),
        "given": worker.given(), "settled": worker.settled(), "heard_us": worker.heard_us(),
    })
}

fn counts_json<'a>(counts: impl IntoIterator<Item = &'a proto::Count>) -> Value {
    let entries = counts.into_iter().map(|it| (it.name().to_owned(), it.count().into()));
    Value::Object(entries.collect::<Map<_, _>>())
}
