//! What has happened between two answers of a router.

use std::collections::HashMap;

use petasos_admin::router as proto;
use petasos_report::{terminal_width, with_si_prefix};
use serde_json::{Value, json};

use super::counts::duration;
use super::table::table_within;

/// What has happened between two answers of a router.
pub struct RoutedFrame {
    /// How long that is.
    pub seconds: f64,
    /// In the order in which they were configured.
    pub groups: Vec<GroupRow>,
    /// By group and number.
    pub workers: Vec<WorkerRow>,
}

/// A group.
pub struct GroupRow {
    /// Its name.
    pub group: String,
    policy: String,
    /// Requests that were given to workers.
    pub given_per_s: f64,
    /// Requests that were rejected.
    pub rejected_per_s: f64,
    /// Requests that wait.
    pub waiting: u64,
    waiting_bytes: u64,
    /// Requests and probes that workers have.
    pub outstanding: u64,
    workers: u32,
    clients: u64,
}

/// A worker.
pub struct WorkerRow {
    /// Its group's name.
    pub group: String,
    /// Its number.
    pub worker: u32,
    address: String,
    state: String,
    bound: u32,
    /// Requests and probes that it has.
    pub outstanding: u64,
    weight: u32,
    /// Requests and probes that it was given.
    pub given_per_s: f64,
    /// Requests and probes that it has settled.
    pub settled_per_s: f64,
    heard_us: u64,
}

fn rejected(group: &proto::Group) -> u64 {
    group.rejected().iter().map(|count| count.count()).sum()
}

impl RoutedFrame {
    /// What has happened between two answers.
    pub fn between(earlier: &proto::WatchResponse, now: &proto::WatchResponse) -> RoutedFrame {
        let seconds = now.time_ns().saturating_sub(earlier.time_ns()) as f64 / 1e9;
        let mut frame = RoutedFrame { seconds, groups: Vec::new(), workers: Vec::new() };
        let before: HashMap<_, _> = earlier.groups().iter().map(|it| (it.group(), it)).collect();
        let groups = now.groups().iter();
        let groups = groups.map(|it| frame.group_row(it, before.get(it.group()).copied()));
        frame.groups = groups.collect();
        let of_group = |list: &'_ proto::ListWorkersResponse| list.group().to_owned();
        let before: HashMap<_, _> = earlier
            .workers()
            .iter()
            .flat_map(|list| {
                list.workers().iter().map(move |it| ((of_group(list), it.worker()), it))
            })
            .collect();
        let mut workers = Vec::new();
        for list in now.workers() {
            for worker in list.workers() {
                let key = (of_group(list), worker.worker());
                let before = before.get(&key).copied();
                workers.push(frame.worker_row(list.group(), worker, before));
            }
        }
        frame.workers = workers;
        frame
    }

    /// Counts of what began after the earlier answer are whole.
    fn rate(&self, now: u64, before: Option<u64>) -> f64 {
        let more = now.saturating_sub(before.unwrap_or(0)) as f64;
        if self.seconds > 0.0 { more / self.seconds } else { 0.0 }
    }

    fn group_row(&self, group: &proto::Group, before: Option<&proto::Group>) -> GroupRow {
        GroupRow {
            group: group.group().to_owned(),
            policy: group.settings().map(|it| it.policy().to_owned()).unwrap_or_default(),
            given_per_s: self.rate(group.given(), before.map(proto::Group::given)),
            rejected_per_s: self.rate(rejected(group), before.map(rejected)),
            waiting: group.waiting(),
            waiting_bytes: group.waiting_bytes(),
            outstanding: group.outstanding(),
            workers: group.workers(),
            clients: group.clients(),
        }
    }

    fn worker_row(
        &self,
        group: &str,
        worker: &proto::Worker,
        before: Option<&proto::Worker>,
    ) -> WorkerRow {
        // Another worker may have this number now.
        let before = before.filter(|before| before.given() <= worker.given());
        WorkerRow {
            group: group.to_owned(),
            worker: worker.worker(),
            address: worker.address().to_owned(),
            state: worker.state().to_owned(),
            bound: worker.bound(),
            outstanding: worker.outstanding(),
            weight: worker.weight(),
            given_per_s: self.rate(worker.given(), before.map(proto::Worker::given)),
            settled_per_s: self.rate(worker.settled(), before.map(proto::Worker::settled)),
            heard_us: worker.heard_us(),
        }
    }

    /// All groups in a line.
    pub fn summary(&self) -> String {
        let sum = |of: fn(&GroupRow) -> f64| self.groups.iter().map(of).sum::<f64>();
        let waiting: u64 = self.groups.iter().map(|group| group.waiting).sum();
        let groups = if self.groups.len() == 1 { "group" } else { "groups" };
        format!(
            "{} {groups}, {} given/s, {} rejected/s, {waiting} waiting",
            self.groups.len(),
            with_si_prefix(sum(|group| group.given_per_s)),
            with_si_prefix(sum(|group| group.rejected_per_s)),
        )
    }

    /// Workers, and groups.
    pub fn tables_within(&self, width: usize) -> [String; 2] {
        let workers: Vec<_> = self.workers.iter().map(WorkerRow::row).collect();
        let groups: Vec<_> = self.groups.iter().map(GroupRow::row).collect();
        let worker_head = [
            "GROUP",
            "WORKER",
            "ADDRESS",
            "STATE",
            "N",
            "OUTSTANDING",
            "WEIGHT",
            "GIVEN/S",
            "SETTLED/S",
            "HEARD",
        ];
        let group_head = [
            "GROUP",
            "POLICY",
            "WAITING",
            "BYTES",
            "OUTSTANDING",
            "GIVEN/S",
            "REJECTED/S",
            "WORKERS",
            "CLIENTS",
        ];
        [table_within(&worker_head, &workers, width), table_within(&group_head, &groups, width)]
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let [workers, groups] = self.tables_within(terminal_width());
        format!("{}\n\n{groups}\n{workers}", self.summary())
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let groups: Vec<Value> = self.groups.iter().map(GroupRow::json).collect();
        let workers: Vec<Value> = self.workers.iter().map(WorkerRow::json).collect();
        json!({ "seconds": self.seconds, "groups": groups, "workers": workers })
    }
}

impl GroupRow {
    fn row(&self) -> Vec<String> {
        vec![
            self.group.clone(),
            self.policy.clone(),
            self.waiting.to_string(),
            self.waiting_bytes.to_string(),
            self.outstanding.to_string(),
            with_si_prefix(self.given_per_s),
            with_si_prefix(self.rejected_per_s),
            self.workers.to_string(),
            self.clients.to_string(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "group": self.group, "policy": self.policy, "waiting": self.waiting,
            "waiting_bytes": self.waiting_bytes, "outstanding": self.outstanding,
            "given_per_s": self.given_per_s, "rejected_per_s": self.rejected_per_s,
            "workers": self.workers, "clients": self.clients,
        })
    }
}

impl WorkerRow {
    fn row(&self) -> Vec<String> {
        vec![
            self.group.clone(),
            self.worker.to_string(),
            self.address.clone(),
            self.state.clone(),
            self.bound.to_string(),
            self.outstanding.to_string(),
            self.weight.to_string(),
            with_si_prefix(self.given_per_s),
            with_si_prefix(self.settled_per_s),
            duration(Some(self.heard_us.saturating_mul(1000))),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "group": self.group, "worker": self.worker, "address": self.address,
            "state": self.state, "bound": self.bound, "outstanding": self.outstanding,
            "weight": self.weight, "given_per_s": self.given_per_s,
            "settled_per_s": self.settled_per_s, "heard_us": self.heard_us,
        })
    }
}
