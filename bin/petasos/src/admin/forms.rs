//! What there is, as JSON for programs.

use petasos_admin as proto;
use petasos_admin::{AuditEntry, Policy, Quota};
use serde_json::{Value, json};

/// An application, for programs.
pub fn app_json(app: &proto::Application) -> Value {
    json!({
        "number": app.number(), "name": app.name(), "uid": app.uid(), "gid": app.gid(),
        "pid": app.pid(), "calls": app.calls(), "held_bytes": app.held_bytes(),
        "descriptors_waiting": app.descriptors_waiting(), "items_queued": app.items_queued(),
        "items_held": app.items_held(), "engines": app.engines(), "bindings": app.bindings(),
        "serves": texts(app.serves()), "runtime": app.runtime(),
        "policy_number": app.policy_number(), "processor_ns": app.processor_ns(),
        "is_over_quota": app.is_over_quota(),
    })
}

/// A datapath, for programs.
pub fn datapath_json(datapath: &proto::Datapath) -> Value {
    let engines: Vec<Value> = datapath
        .engines()
        .iter()
        .enumerate()
        .map(|(place, engine)| {
            json!({
                "place": place, "kind": engine.kind(), "version": engine.version(),
                "policy": Some(engine.policy()).filter(|id| *id > 0),
                "is_overridden": engine.is_overridden(),
                "without": Some(engine.without()).filter(|without| !without.is_empty()),
                "configuration": parsed(engine.configuration()), "report": parsed(engine.report()),
            })
        })
        .collect();
    json!({ "number": datapath.number(), "name": datapath.name(), "engines": engines })
}

/// A policy, for programs.
pub fn policy_json(policy: &Policy) -> Value {
    json!({
        "id": policy.id(), "application": policy.application(), "kind": policy.kind(),
        "datapaths": policy.datapaths(), "configuration": parsed(policy.configuration()),
        "budget": policy.budget().map(|budget| {
            json!({ "percent": budget.percent(), "over": budget.over() })
        }),
    })
}

/// A quota, for programs.
pub fn quota_json(quota: &Quota, number: Option<u32>) -> Value {
    let [items, message_bytes, metadata_bytes, held_bytes, descriptors, calls, send, receive] =
        quota_values(quota);
    json!({
        "number": number, "application": quota.application(), "items": items,
        "message_bytes": message_bytes, "metadata_bytes": metadata_bytes,
        "held_bytes": held_bytes, "descriptors": descriptors, "calls": calls,
        "send_heap_bytes": send, "receive_heap_bytes": receive,
        "processor_percent": quota.processor_percent(),
    })
}

/// Items, bytes of messages, of metadata, and held, descriptors, calls, and bytes of the heaps.
pub fn quota_values(quota: &Quota) -> [u64; 8] {
    [
        quota.items_max(),
        quota.message_bytes_max(),
        quota.metadata_bytes_max(),
        quota.held_bytes_max(),
        quota.descriptors_max(),
        quota.calls_max(),
        quota.send_heap_bytes(),
        quota.receive_heap_bytes(),
    ]
    .map(Option::unwrap_or_default)
}

/// An entry of the audit log, for programs.
pub fn audit_json(entry: &AuditEntry) -> Value {
    json!({
        "sequence": entry.sequence(), "time_us": entry.time_us(), "uid": entry.uid(),
        "gid": entry.gid(), "pid": entry.pid(), "role": entry.role(), "method": entry.method(),
        "steps": texts(entry.steps()), "status": entry.status(), "message": entry.message(),
        "unrecorded": entry.unrecorded(),
    })
}

/// JSON that the service has sent as text; what is none, as text.
pub fn parsed(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

/// Texts of a list.
pub fn texts(list: &[petasos::message::Text]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}
