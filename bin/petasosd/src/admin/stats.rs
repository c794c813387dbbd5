//! What is counted, as messages.

use petasos::{Code, Msg};
use petasos_admin as proto;
use petasos_base::log_linear_highest;
use petasos_service::{Sums, Way};

use crate::stats::{ApplicationStats, Snapshot};

/// An answer of what was counted.
pub fn response(snapshot: &Snapshot) -> Msg<proto::StatsResponse> {
    let mut response = proto::StatsResponse::new();
    fill(snapshot, &mut response.edit());
    response
}

/// Puts what was counted into an answer.
pub fn fill(snapshot: &Snapshot, edit: &mut proto::StatsResponseMut<'_>) {
    edit.set_time_ns(snapshot.time.as_nanos())
        .set_methods_left_out(snapshot.rows_left_out as u64)
        .set_applications_gone(snapshot.gone.applications);
    let mut list = edit.applications_mut();
    for application in &snapshot.applications {
        fill_application(&mut list.add(), application);
    }
    let mut list = edit.gone_mut();
    for way in Way::ALL {
        let sums = snapshot.gone.sums(way);
        if sums.begun > 0 {
            fill_sums(&mut list.add(), way, sums);
        }
    }
}

fn fill_application(to: &mut proto::ApplicationStatsMut<'_>, application: &ApplicationStats) {
    to.set_number(application.number.0)
        .set_name(&*application.name)
        .set_refused(application.refused);
    let mut list = to.calls_mut();
    for row in &application.rows {
        let mut calls = list.add();
        fill_sums(&mut calls, row.way, &row.sums);
        calls.set_method(row.method.as_deref().unwrap_or_default());
        let mut latency = calls.latency_mut();
        for (index, count) in row.latency.counts() {
            latency.add().set_latency_max_ns(log_linear_highest(index)).set_calls(count);
        }
    }
    let mut list = to.engines_mut();
    for (kind, counts) in &application.engines {
        list.add()
            .set_kind(&**kind)
            .set_items(counts.items)
            .set_ended(counts.ended)
            .set_sampled_ns(counts.sampled_ns)
            .set_sampled_items(counts.sampled_items);
    }
}

fn fill_sums(to: &mut proto::CallStatsMut<'_>, way: Way, sums: &Sums) {
    to.set_way(way.name())
        .set_begun(sums.begun)
        .set_under_way(sums.under_way())
        .set_request_bytes(sums.request_bytes)
        .set_response_bytes(sums.response_bytes)
        .set_latency_ns(sums.latency_ns);
    let mut ended = to.ended_mut();
    for (code, calls) in Code::ALL.iter().zip(sums.ended).filter(|(_, calls)| *calls > 0) {
        ended.add().set_code(code.name()).set_calls(calls);
    }
}
