//! What is counted, for Prometheus.

use std::fmt;
use std::sync::Arc;

use petasos_operator::{Escaped, Page};
use petasos_router_control::{GroupSnapshot, WorkerSnapshot};

use super::view;
use crate::groups::GroupView;

type Groups = [(GroupView, Arc<GroupSnapshot>)];
/// A metric of a group: its name, its type, its help text, and its value.
type OfGroup = (&'static str, &'static str, &'static str, fn(&GroupSnapshot) -> u64);
/// A metric of a worker.
type OfWorker = (&'static str, &'static str, &'static str, fn(&WorkerSnapshot) -> f64);
/// A metric with a value for each reason: the label's name, and the values.
type ByReason = (&'static str, &'static str, &'static str, fn(&GroupSnapshot) -> Reasons);
type Reasons = Vec<(&'static str, u64)>;

const OF_GROUPS: [OfGroup; 19] = [
    ("router_active", "gauge", "The router says that it is active: 1, or 0.", |at| {
        at.active.0.into()
    }),
    ("router_workers", "gauge", "Workers.", |at| at.workers.len() as u64),
    ("router_clients", "gauge", "Clients that are attached.", |at| at.clients as u64),
    ("router_connections", "gauge", "Connections of members.", |at| at.connections as u64),
    ("router_waiting_requests", "gauge", "Requests that wait.", |at| at.waiting as u64),
    ("router_waiting_bytes", "gauge", "Bytes of requests that wait.", |at| at.waiting_bytes as u64),
    ("router_waiting_requests_max", "gauge", "The most requests that wait.", |at| {
        at.adjustment.waiting_max as u64
    }),
    ("router_given_total", "counter", "Requests that were given to workers.", |at| at.stats.given),
    ("router_waited_total", "counter", "Of these, those that had to wait.", |at| at.stats.waited),
    ("router_settled_total", "counter", "Requests and probes that workers have settled.", |at| {
        at.counts.settled
    }),
    ("router_feedback_total", "counter", "Feedback that was heeded.", |at| at.counts.feedback),
    ("router_probes_total", "counter", "Probes of workers that said nothing.", |at| {
        at.stats.probes
    }),
    (
        "router_abandoned_total",
        "counter",
        "Requests and probes of workers whose membership has ended.",
        |at| at.counts.abandoned,
    ),
    ("router_silences_total", "counter", "How often a worker became silent.", |at| {
        at.counts.silences
    }),
    ("router_ejections_total", "counter", "How often a worker was ejected.", |at| {
        at.counts.ejections
    }),
    ("router_backed_up_total", "counter", "Turns without receiving, to send first.", |at| {
        at.stats.backed_up
    }),
    ("router_attaches_refused_total", "counter", "Attempts to attach that were refused.", |at| {
        at.refused.0
    }),
    ("router_joins_refused_total", "counter", "Attempts to join that were refused.", |at| {
        at.refused.1
    }),
    ("router_epochs_total", "counter", "Epochs that have begun.", |at| at.epoch.1),
];

const BY_REASON: [ByReason; 6] = [
    ("router_rejected_total", "code", "Rejections, by the code that clients are told.", |at| {
        at.rejections.iter().collect()
    }),
    (
        "router_turned_away_total",
        "reason",
        "Requests that came as far as the queue and were rejected.",
        |at| view::turned_away(at).collect(),
    ),
    ("router_dropped_total", "reason", "Packets that were dropped without an answer.", |at| {
        view::dropped(at).collect()
    }),
    ("router_feedback_dropped_total", "reason", "Feedback that was not heeded.", |at| {
        view::feedback_dropped(at).collect()
    }),
    ("router_packet_io_total", "what", "What the plane's packet I/O has done.", |at| {
        at.io.iter().collect()
    }),
    ("router_program_total", "what", "What the program before the plane has done.", |at| {
        view::program(at).collect()
    }),
];

const OF_WORKERS: [OfWorker; 7] = [
    ("router_worker_outstanding", "gauge", "Requests and probes that a worker has.", |it| {
        it.state.account.outstanding() as f64
    }),
    ("router_worker_bound", "gauge", "How many a worker takes at a time: n.", |it| {
        it.state.bound.into()
    }),
    ("router_worker_limit", "gauge", "How many a worker may have; 0: it gets none.", |it| {
        it.state.limit.into()
    }),
    ("router_worker_weight", "gauge", "A worker's part, in percent of a full one's.", |it| {
        it.state.weight.into()
    }),
    ("router_worker_given_total", "counter", "Requests and probes of a worker.", |it| {
        it.state.account.given() as f64
    }),
    ("router_worker_settled_total", "counter", "Of these, those that it has settled.", |it| {
        it.state.account.settled() as f64
    }),
    ("router_worker_heard_seconds", "gauge", "How long ago a worker was heard.", |it| {
        it.heard_ago.as_secs_f64()
    }),
];

/// The page.
pub fn text(groups: &Groups) -> String {
    let mut page = Page::default();
    write(&mut page, groups).expect("strings take all that is written");
    page.into_text()
}

fn write(page: &mut Page, groups: &Groups) -> fmt::Result {
    for (name, kind, help, value) in OF_GROUPS {
        page.head(name, kind, help)?;
        for (group, at) in groups {
            page.line(name, &label(group), "", value(at))?;
        }
    }
    for (name, label_name, help, values) in BY_REASON {
        page.head(name, "counter", help)?;
        for (group, at) in groups {
            for (reason, value) in values(at) {
                page.line(name, &label(group), &format!("{label_name}=\"{reason}\""), value)?;
            }
        }
    }
    for (name, kind, help, value) in OF_WORKERS {
        page.head(name, kind, help)?;
        for (group, at) in groups {
            for worker in &at.workers {
                page.line(name, &label(group), &worker_label(worker), value(worker))?;
            }
        }
    }
    let name = "router_worker_state";
    page.head(name, "gauge", "1 for the state that a worker is in.")?;
    for (group, at) in groups {
        for worker in &at.workers {
            let state = view::state_name(&worker.state);
            let more = format!("{},state=\"{state}\"", worker_label(worker));
            page.line(name, &label(group), &more, 1)?;
        }
    }
    Ok(())
}

fn label(group: &GroupView) -> String {
    format!("group=\"{}\"", group.listen)
}

/// A worker chooses its address within its host, and it has the form of one.
fn worker_label(worker: &WorkerSnapshot) -> String {
    let address = worker.address.to_string();
    format!("worker=\"{}\",address=\"{}\"", worker.worker, Escaped(&address))
}
