//! What operators see, as messages.

use petasos::Msg;
use petasos::message::ListMut;
use petasos_admin::router as proto;
use petasos_router::Bound;
use petasos_router_control::{
    Adjustment, ClientSnapshot, GroupSnapshot, TierStats, WorkerSnapshot, WorkerState,
};

use crate::groups::GroupView;

/// A group.
pub fn fill_group(view: &GroupView, at: &GroupSnapshot, group: &mut proto::GroupMut<'_>) {
    let outstanding: u64 = at.workers.iter().map(|it| it.state.account.outstanding()).sum();
    let GroupSnapshot { counts, stats, .. } = at;
    group
        .set_group(view.listen.to_string())
        .set_data(view.data.to_string())
        .set_binds(view.binds.map_or(String::new(), |binds| binds.to_string()))
        .set_payload_bytes(at.payload_bytes)
        .set_is_active(at.active.0)
        .set_epoch(at.epoch.0.into())
        .set_epochs_begun(at.epoch.1)
        .set_workers(at.workers.len() as u32)
        .set_clients(at.clients as u64)
        .set_connections(at.connections as u64)
        .set_waiting(at.waiting as u64)
        .set_waiting_bytes(at.waiting_bytes as u64)
        .set_outstanding(outstanding)
        .set_given(stats.given)
        .set_waited(stats.waited)
        .set_settled(counts.settled)
        .set_feedback(counts.feedback)
        .set_probes(stats.probes)
        .set_abandoned(counts.abandoned)
        .set_silences(counts.silences)
        .set_ejections(counts.ejections)
        .set_backed_up(stats.backed_up)
        .set_attaches_refused(at.refused.0)
        .set_joins_refused(at.refused.1);
    group.services_mut().extend(&at.services);
    fill_settings(&at.adjustment, &mut group.settings_mut());
    fill_counts(at.rejections.iter(), &mut group.rejected_mut());
    fill_counts(turned_away(at), &mut group.turned_away_mut());
    fill_counts(dropped(at), &mut group.dropped_mut());
    fill_counts(feedback_dropped(at), &mut group.feedback_dropped_mut());
    fill_counts(program(at), &mut group.program_mut());
}

/// Why requests were rejected that had come as far as the queue.
pub fn turned_away(at: &GroupSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let counts = &at.counts;
    [
        ("full", counts.overflowed),
        ("nobody", counts.unwanted),
        ("expired", counts.expired),
        ("aged", counts.aged),
    ]
    .into_iter()
}

/// Packets that were dropped without an answer.
pub fn dropped(at: &GroupSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let stats = &at.stats;
    [
        ("malformed", stats.malformed),
        ("void", stats.void),
        ("from_strangers", stats.from_strangers),
        ("repeated", stats.repeated),
        ("orphaned", stats.orphaned),
    ]
    .into_iter()
}

/// Feedback that was not heeded.
pub fn feedback_dropped(at: &GroupSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let (stats, counts) = (&at.stats, &at.counts);
    [
        ("void", stats.void_feedback),
        ("from_strangers", counts.from_strangers),
        ("stale", counts.stale),
        ("wrong_counts", counts.wrong_counts),
    ]
    .into_iter()
}

/// What the program in front of the plane has done, if there is one.
pub fn program(at: &GroupSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    at.tier.iter().flat_map(TierStats::iter)
}

/// All of what was turned down, for people.
pub fn turned_down(at: &GroupSnapshot) -> Vec<(String, u64)> {
    let rejected = at.rejections.iter().map(|(code, count)| (format!("rejected as {code}"), count));
    let packets = dropped(at).map(|(reason, count)| (format!("dropped as {reason}"), count));
    let feedback = feedback_dropped(at);
    let feedback = feedback.map(|(reason, count)| (format!("feedback dropped as {reason}"), count));
    rejected.chain(packets).chain(feedback).collect()
}

fn fill_counts(
    counts: impl Iterator<Item = (&'static str, u64)>,
    list: &mut ListMut<'_, proto::Count>,
) {
    for (name, count) in counts {
        list.add().set_name(name).set_count(count);
    }
}

fn fill_settings(at: &Adjustment, settings: &mut proto::SettingsMut<'_>) {
    settings.set_policy(at.policy.to_string()).set_waiting_max(at.waiting_max as u64);
    if let Bound::AtMost(limit) = at.policy.bound {
        settings.set_limit(limit.into());
    }
    if let Some(age) = at.waiting_age_max {
        settings.set_waiting_age_us(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    }
}

/// The workers of a group.
pub fn fill_workers(
    view: &GroupView,
    at: &GroupSnapshot,
    edit: &mut proto::ListWorkersResponseMut<'_>,
) {
    edit.set_group(view.listen.to_string());
    let mut list = edit.workers_mut();
    for worker in &at.workers {
        let is_primary = at.primary == Some(worker.worker);
        fill_worker(worker, is_primary, &mut list.add());
    }
}

fn fill_worker(at: &WorkerSnapshot, is_primary: bool, worker: &mut proto::WorkerMut<'_>) {
    let WorkerSnapshot { state, .. } = at;
    worker
        .set_worker(at.worker.into())
        .set_address(at.address.to_string())
        .set_state(state_name(state))
        .set_bound(state.bound.into())
        .set_limit(state.limit.into())
        .set_outstanding(state.account.outstanding())
        .set_weight(state.weight.into())
        .set_is_primary(is_primary)
        .set_is_draining(state.is_draining)
        .set_given(state.account.given())
        .set_settled(state.account.settled())
        .set_heard_us(u64::try_from(at.heard_ago.as_micros()).unwrap_or(u64::MAX));
    worker.names_mut().extend(&at.names);
}

/// What is to be said of a worker first.
pub fn state_name(state: &WorkerState) -> &'static str {
    match state {
        WorkerState { is_lost: true, .. } => "broken",
        WorkerState { is_silent: true, .. } => "silent",
        WorkerState { ejected_until: Some(_), .. } => "ejected",
        WorkerState { is_draining: true, account, .. } if account.outstanding() == 0 => "drained",
        WorkerState { is_draining: true, .. } => "draining",
        WorkerState { is_held_back: true, .. } => "joining",
        _ => "there",
    }
}

/// Some clients of a group.
pub fn clients(
    view: &GroupView,
    clients: &[ClientSnapshot],
    has_more: bool,
) -> Msg<proto::ListClientsResponse> {
    let mut response = proto::ListClientsResponse::new();
    let mut edit = response.edit();
    edit.set_group(view.listen.to_string()).set_has_more(has_more);
    let mut list = edit.clients_mut();
    for at in clients {
        let mut client = list.add();
        client
            .set_client(at.client)
            .set_peer(at.peer.map_or(String::new(), |peer| peer.to_string()))
            .set_requests(at.counts.requests)
            .set_rejected(at.counts.rejected)
            .set_waiting(at.waiting as u64);
        client.names_mut().extend(&at.names);
    }
    response
}
