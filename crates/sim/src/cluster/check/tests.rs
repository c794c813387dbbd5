//! Every checker rejects the histories that break its rule.

use core::time::Duration;

use petasos_base::Time;
use petasos_endpoint::CallError;

use super::*;
use crate::cluster::plan::Method;

const CLIENT: Life = Life { host: 1, restarts: 0 };
const SERVER: Life = Life { host: 2, restarts: 0 };
const RIGHT: Outcome = Outcome::Response { right: true };

fn plan(method: Method) -> Plan {
    Plan {
        method,
        request_bytes: 10,
        response_bytes: 20,
        delay_nanos: 0,
        timeout: Some(Duration::from_nanos(1000)),
        cancel_after_nanos: None,
    }
}

fn started(call: u64, method: Method) -> Event {
    let timeout_at = Time::from_nanos(1000);
    Event::Started { call, client: CLIENT, server: SERVER, plan: plan(method), timeout_at }
}

fn executed(call: u64) -> Event {
    let request = RequestName(0, 1, 8 + call);
    Event::Executed { call, server: SERVER, request, right: true }
}

fn ended(call: u64, outcome: Outcome) -> Event {
    Event::Ended { call, outcome }
}

fn failed(error: CallError) -> Event {
    ended(1, Outcome::Failed(error))
}

/// The rule that a history breaks, if any. Its events are at 0, 100, 200, … ns.
fn rule(trusting: bool, history: &[Event]) -> Option<&'static str> {
    rule_from(0, trusting, history)
}

fn rule_from(start: u64, trusting: bool, history: &[Event]) -> Option<&'static str> {
    let mut judge = Judge::new(trusting, 50);
    for (step, event) in history.iter().enumerate() {
        judge.note(Time::from_nanos(start + step as u64 * 100), event);
    }
    judge.finish().err().map(|violation| violation.rule)
}

#[test]
fn a_good_history_passes() {
    let history = [started(1, Method::Echo), executed(1), ended(1, RIGHT)];
    assert_eq!(rule(false, &history), None);
}

#[test]
fn a_request_that_runs_twice_is_refused() {
    let request = RequestName(0, 1, 9);
    let elsewhere = Event::Executed { call: 1, server: CLIENT, request, right: true };
    let mut history = [started(1, Method::Echo), executed(1), elsewhere, ended(1, RIGHT)];
    assert_eq!(rule(false, &history), Some("at most once"));
    history[2] = executed(2);
    assert_eq!(rule(false, &history), None);
}

#[test]
fn a_number_that_runs_twice_is_refused_whatever_is_damaged() {
    let request = RequestName(0, 1, 9);
    let damaged = Event::Executed { call: 7, server: SERVER, request, right: false };
    let history = [started(1, Method::Echo), executed(1), damaged, ended(1, RIGHT)];
    assert_eq!(rule(true, &history), Some("once per number"));
    let elsewhere = Event::Executed { call: 7, server: CLIENT, request, right: false };
    let history = [started(1, Method::Echo), executed(1), elsewhere, ended(1, RIGHT)];
    assert_eq!(rule(true, &history), None);
}

#[test]
fn calls_end_exactly_once() {
    let begun = started(1, Method::Echo);
    for trusting in [false, true] {
        let expected = Some("ends exactly once");
        assert_eq!(rule(trusting, &[begun, executed(1)]), expected);
        assert_eq!(rule(trusting, &[executed(1), ended(1, RIGHT)]), expected);
        let again = [begun, executed(1), ended(1, RIGHT), ended(1, RIGHT)];
        assert_eq!(rule(trusting, &again), expected);
        assert_eq!(rule(trusting, &[begun, begun]), expected);
        assert_eq!(rule(trusting, &[begun, Event::Died { host: SERVER }]), expected);
        assert_eq!(rule(trusting, &[begun, Event::Died { host: CLIENT }]), None);
    }
}

#[test]
fn wrong_bytes_are_refused() {
    let request = RequestName(0, 1, 9);
    let wrong = Event::Executed { call: 1, server: SERVER, request, right: false };
    let history = [started(1, Method::Echo), wrong, ended(1, RIGHT)];
    assert_eq!(rule(false, &history), Some("bytes"));
    assert_eq!(rule(true, &history), None);
    let wrong = ended(1, Outcome::Response { right: false });
    assert_eq!(rule(false, &[started(1, Method::Echo), executed(1), wrong]), Some("bytes"));
}

#[test]
fn outcomes_need_causes() {
    use Method::*;
    let cases: [(Method, &[Event], Event); 12] = [
        (Echo, &[], ended(1, RIGHT)),
        (Silent, &[executed(1)], ended(1, RIGHT)),
        (Overlong, &[executed(1)], ended(1, RIGHT)),
        (Echo, &[executed(1)], failed(CallError::Timeout)),
        (Echo, &[executed(1)], failed(CallError::Cancelled)),
        (Echo, &[executed(1)], failed(CallError::PeerFailed)),
        (Echo, &[executed(1)], failed(CallError::SessionClosed)),
        (Echo, &[], failed(CallError::UnknownMethod)),
        (Echo, &[executed(1)], failed(CallError::Overloaded)),
        (Echo, &[executed(1)], failed(CallError::HandlerFailed)),
        (Declined, &[], failed(CallError::Declined)),
        (Overlong, &[], failed(CallError::ResponseTooLarge)),
    ];
    for (method, middle, end) in cases {
        let history = [&[started(1, method)], middle, &[end]].concat();
        assert_eq!(rule(false, &history), Some("outcomes have causes"), "{history:?}");
    }
}

#[test]
fn causes_justify_outcomes() {
    let peer_failed = Event::PeerFailed { client: CLIENT, server: SERVER };
    let cases: [(Method, Event, CallError); 7] = [
        (Method::Echo, Event::Cancelled { call: 1 }, CallError::Cancelled),
        (Method::Echo, peer_failed, CallError::PeerFailed),
        (Method::Unknown, executed(2), CallError::UnknownMethod),
        (Method::Echo, executed(2), CallError::Overloaded),
        (Method::Echo, Event::Unanswered { call: 1 }, CallError::HandlerFailed),
        (Method::Declined, executed(1), CallError::Declined),
        (Method::Overlong, executed(1), CallError::ResponseTooLarge),
    ];
    for (method, cause, error) in cases {
        assert_eq!(rule(false, &[started(1, method), cause, failed(error)]), None, "{error:?}");
    }
    let history = [started(1, Method::Silent), executed(1), failed(CallError::Timeout)];
    assert_eq!(rule_from(800, false, &history), None);
}

#[test]
fn a_failure_before_the_call_is_no_cause() {
    let other = Event::PeerFailed { client: SERVER, server: CLIENT };
    let before = Event::PeerFailed { client: CLIENT, server: SERVER };
    let history = [before, started(1, Method::Echo), other, failed(CallError::PeerFailed)];
    assert_eq!(rule(false, &history), Some("outcomes have causes"));
}

#[test]
fn a_timeout_noticed_late_is_refused() {
    let history = [started(1, Method::Silent), executed(1), failed(CallError::Timeout)];
    assert_eq!(rule_from(900, false, &history), Some("outcomes have causes"));
}

#[test]
fn what_hosts_keep_is_refused() {
    let good = HostAtRest {
        life: CLIENT,
        running: 1,
        calls: 0,
        lent_bytes: 100,
        lent_bytes_max: 1000,
        panics: 0,
        silent: 1,
        retained_bytes_max: 100,
        closed: false,
    };
    let rule = |host: HostAtRest| host.check().err().map(|violation| violation.rule);
    assert_eq!(rule(good), None);
    assert_eq!(rule(HostAtRest { calls: 1, ..good }), Some("no call is left"));
    assert_eq!(rule(HostAtRest { running: 2, ..good }), Some("no handler is left"));
    assert_eq!(rule(HostAtRest { lent_bytes: 101, ..good }), Some("buffers come back"));
    assert_eq!(rule(HostAtRest { panics: 1, ..good }), Some("no panics"));
    let over = HostAtRest { lent_bytes_max: 99, ..good };
    assert_eq!(rule(over), Some("the pool keeps its limit"));
    let closed = HostAtRest { running: 0, closed: true, ..good };
    assert_eq!(rule(closed), Some("buffers come back"));
    assert_eq!(rule(HostAtRest { lent_bytes: 0, ..closed }), None);
    assert_eq!(rule(HostAtRest { running: 1, ..closed }), Some("no handler is left"));
}

#[test]
fn lost_packets_and_storms_are_refused() {
    let good = NetworkAtRest {
        unaccounted: 0,
        in_flight: 0,
        sent: 22_000,
        needed: 10_000,
        amplification_max: 2.0,
    };
    let rule = |network: NetworkAtRest| network.check().err().map(|violation| violation.rule);
    assert_eq!(rule(good), None);
    let lost = NetworkAtRest { unaccounted: 1, ..good };
    assert_eq!(rule(lost), Some("packets are accounted for"));
    let busy = NetworkAtRest { unaccounted: 1, in_flight: 1, ..good };
    assert_eq!(rule(busy), Some("the network falls silent"));
    let storm = NetworkAtRest { sent: 22_001, ..good };
    assert_eq!(rule(storm), Some("no storms of retransmissions"));
}
