//! What the page of a router is told, as JSON: frames of what has happened, and what there is now.
//!
//! Lists are bounded: what is left out is counted. In frames, which are many, rows are arrays.

use std::cmp::Reverse;

use petasos_admin::router as proto;
use petasos_cli::admin::router_forms::{group_json, worker_json};
use petasos_cli::admin::{GroupRow, RoutedFrame, WorkerRow};
use serde_json::{Value, json};

/// The most rows of a list in a frame.
const FRAME_ROWS_MAX: usize = 200;
/// The most rows of a list in what there is now.
const ROWS_MAX: usize = 1000;

/// What has happened between two answers of the router.
///
/// A row of a group is its name, given and rejected per s, and how many wait and are outstanding.
/// One of a worker is its group's name, its number, how many are outstanding, and given and settled
/// per s.
pub fn frame(frame: &RoutedFrame) -> Value {
    let mut workers: Vec<&WorkerRow> = frame.workers.iter().collect();
    workers.sort_by(|one, other| other.given_per_s.total_cmp(&one.given_per_s));
    let left_out = workers.len().saturating_sub(FRAME_ROWS_MAX);
    let groups = frame.groups.iter().take(FRAME_ROWS_MAX).map(group_row);
    let workers = workers.into_iter().take(FRAME_ROWS_MAX).map(worker_row);
    json!({
        "groups": groups.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
        "left_out": left_out,
    })
}

fn group_row(row: &GroupRow) -> Value {
    json!([row.group, row.given_per_s, row.rejected_per_s, row.waiting, row.outstanding])
}

fn worker_row(row: &WorkerRow) -> Value {
    json!([row.group, row.worker, row.outstanding, row.given_per_s, row.settled_per_s])
}

/// What there is now: groups, and the workers of all, of which those with most requests are told.
pub fn overview(now: &proto::WatchResponse) -> Value {
    let lists = now.workers().iter();
    let all = lists.flat_map(|list| list.workers().iter().map(move |it| (list.group(), it)));
    let mut workers: Vec<_> = all.collect();
    let left_out = workers.len().saturating_sub(ROWS_MAX);
    if left_out > 0 {
        workers.sort_by_key(|(_, worker)| Reverse(worker.outstanding()));
        workers.truncate(ROWS_MAX);
        workers.sort_by_key(|(group, worker)| (*group, worker.worker()));
    }
    let of_group = |(group, worker): (&str, &proto::Worker)| {
        let mut row = worker_json(worker);
        row["group"] = group.into();
        row
    };
    json!({
        "groups": now.groups().iter().take(ROWS_MAX).map(group_json).collect::<Vec<_>>(),
        "workers": workers.into_iter().map(of_group).collect::<Vec<_>>(),
        "workers_left_out": left_out,
    })
}

#[cfg(test)]
mod tests {
    use petasos::Msg;

    use super::*;

    /// So many workers, each of which has its number of requests.
    fn told(at_ns: u64, given: u64, workers: usize) -> Msg<proto::WatchResponse> {
        let mut all = proto::WatchResponse::new();
        let mut edit = all.edit();
        edit.set_time_ns(at_ns);
        let mut groups = edit.groups_mut();
        let mut group = groups.add();
        group.set_group("127.0.0.1:7000").set_given(given).set_waiting(3).set_outstanding(5);
        let mut rejected = group.rejected_mut();
        rejected.add().set_name("queue-full").set_count(given / 10);
        let mut lists = edit.workers_mut();
        let mut list = lists.add();
        list.set_group("127.0.0.1:7000");
        let mut rows = list.workers_mut();
        for number in 0..workers {
            let number = number as u32;
            rows.add().set_worker(number).set_given(given).set_outstanding(number.into());
        }
        all
    }

    #[test]
    fn rates_are_those_between_two_answers() {
        let (before, now) = (told(1_000_000_000, 100, 1), told(3_000_000_000, 300, 1));
        let frame = frame(&RoutedFrame::between(&before, &now));
        assert_eq!(frame["groups"], json!([["127.0.0.1:7000", 100.0, 10.0, 3, 5]]));
        assert_eq!(frame["workers"], json!([["127.0.0.1:7000", 0, 0, 100.0, 0.0]]));
        let overview = overview(&now);
        assert_eq!(overview["groups"][0]["rejected"], json!({ "queue-full": 30 }));
        assert_eq!(overview["workers"][0]["group"], "127.0.0.1:7000");
    }

    #[test]
    fn lists_are_bounded_and_say_what_they_leave_out() {
        let (before, now) = (told(1, 0, 1200), told(2, 9, 1200));
        let frame = frame(&RoutedFrame::between(&before, &now));
        assert_eq!(frame["workers"].as_array().map(Vec::len), Some(FRAME_ROWS_MAX));
        assert_eq!(frame["left_out"], 1000);
        let overview = overview(&now);
        let workers = overview["workers"].as_array().expect("a list");
        assert_eq!((workers.len(), &overview["workers_left_out"]), (ROWS_MAX, &json!(200)));
        assert_eq!((&workers[0]["worker"], &workers[999]["worker"]), (&json!(200), &json!(1199)));
    }
}
