//! Every rule rejects the histories that break it.

use core::time::Duration;

use super::*;
use crate::plan::Kind;
use petasos::Status;
use petasos_call::Failure;

const CLIENT: Life = Life { host: 0, restarts: 0 };
const SERVER: Life = Life { host: 2, restarts: 0 };

fn plan(kind: Kind) -> Plan {
    Plan {
        kind,
        request_bytes: 1,
        response_bytes: 1,
        up: 2,
        down: 2,
        piece_bytes: 1,
        handler_nanos: 0,
        client_nanos: 0,
        fails: 0,
        stops_after: None,
        timeout: Some(Duration::from_nanos(1000)),
        cancel_after: None,
    }
}

fn begun(kind: Kind) -> Event {
    let timeout_at = Time::from_nanos(1000);
    Event::Begun { call: 1, client: CLIENT, plan: plan(kind), timeout_at }
}

fn ran(run: u64) -> Event {
    Event::Ran { call: 1, run, server: SERVER, right: true }
}

fn run_ended(run: u64, code: Code) -> Event {
    Event::RunEnded { call: 1, run, code: Some(code) }
}

fn ended(outcome: Outcome) -> Event {
    Event::Ended { call: 1, outcome }
}

fn answer(run: u64, pieces: u32) -> Event {
    ended(Outcome::Answer { run, pieces, right: true })
}

fn failed(failure: Failure) -> Event {
    ended(failure.status().into())
}

fn got_up(index: u32) -> Event {
    Event::GotUp { call: 1, run: 1, index, right: true }
}

fn got_down(run: u64, index: u32) -> Event {
    Event::GotDown { call: 1, run, index, right: true }
}

fn sent_up(index: u32) -> Event {
    Event::SentUp { call: 1, index }
}

fn sent_down(index: u32) -> Event {
    Event::SentDown { call: 1, run: 1, index }
}

const CLOSED: Event = Event::ClosedUp { call: 1 };
const END_TOLD: Event = Event::EndedUp { call: 1, run: 1 };
const CANCELLED: Event = Event::Cancelled { call: 1 };
const DIED: Event = Event::Died { host: SERVER };

/// The rule that a history breaks, if any. Its events are at 0, 100, 200, … ns.
fn rule(history: &[Event]) -> Option<&'static str> {
    let mut judge = Judge::new(excuses(false));
    for (step, event) in history.iter().enumerate() {
        judge.note(Time::from_nanos(step as u64 * 100), event);
    }
    judge.finish().err().map(|violation| violation.rule)
}

fn excuses(retries_streams: bool) -> Excuses {
    Excuses { disruptions: true, retries_streams, ..Excuses::default() }
}

/// Like `rule`, for streams with a retry policy.
fn rule_retried(history: &[Event]) -> Option<&'static str> {
    let mut judge = Judge::new(excuses(true));
    for (step, event) in history.iter().enumerate() {
        judge.note(Time::from_nanos(step as u64 * 100), event);
    }
    judge.finish().err().map(|violation| violation.rule)
}

#[test]
fn streams_that_are_retried_are_judged_by_attempt() {
    let aborted = || run_ended(1, Code::Aborted);
    let again = [begun(Kind::Produce), ran(1), aborted(), ran(2), run_ended(2, Code::Ok)];
    assert_eq!(rule_retried(&[&again[..], &[ended(Outcome::End)]].concat()), None);
    assert_eq!(rule(&again), Some("handlers run as often as allowed"));
    let refused = [begun(Kind::Chat), ran(1), aborted(), DIED, failed(Failure::Draining)];
    assert_eq!(rule_retried(&refused), None, "the last attempt has not run");
    let lost = [begun(Kind::Chat), ran(1), DIED, ran(2)];
    assert_eq!(rule_retried(&lost), Some("only what the policy names is sent again"));
    let claimed = [begun(Kind::Chat), ran(1), DIED, failed(Failure::Draining)];
    assert_eq!(rule_retried(&claimed), Some("what did not run did not run"));
    let sent = [begun(Kind::Produce), ran(1), sent_down(0), got_down(1, 0), aborted(), ran(2)];
    assert_eq!(rule_retried(&sent), Some("what was delivered is not begun anew"));
}

fn breaks(expected: &'static str, histories: &[&[Event]]) {
    for history in histories {
        assert_eq!(rule(history), Some(expected), "{history:?}");
    }
}

#[test]
fn good_histories_pass() {
    let unary = [begun(Kind::Once), ran(1), run_ended(1, Code::Ok), answer(1, 0)];
    let retried = [begun(Kind::Named), ran(1), run_ended(1, Code::Aborted), ran(2)];
    let retried = [&retried[..], &[run_ended(2, Code::Ok), answer(2, 0)]].concat();
    let both = [begun(Kind::Chat), sent_up(0), ran(1), got_up(0), sent_down(0), got_down(1, 0)];
    let both =
        [&both[..], &[CLOSED, END_TOLD, run_ended(1, Code::Ok), ended(Outcome::End)]].concat();
    let lost = [begun(Kind::Once), ran(1), DIED, failed(Failure::Lost)];
    let refused = [begun(Kind::Once), DIED, failed(Failure::Draining)];
    let given_up = [begun(Kind::Once), ran(1), CANCELLED];
    for history in [&unary[..], &retried, &both, &lost, &refused, &given_up] {
        assert_eq!(rule(history), None, "{history:?}");
    }
}

#[test]
fn calls_end_once() {
    let unary = [begun(Kind::Once), ran(1), run_ended(1, Code::Ok), answer(1, 0)];
    breaks("calls end", &[&unary[..3]]);
    breaks(
        "calls end once",
        &[
            &[&unary[..], &[answer(1, 0)]].concat(),
            &[&unary[..], &[CANCELLED]].concat(),
            &[&unary[..3], &[CANCELLED, answer(1, 0)]].concat(),
        ],
    );
    breaks("calls begin once", &[&[begun(Kind::Once), begun(Kind::Once)]]);
    breaks("what happens belongs to a call", &[&[ran(1)]]);
    assert_eq!(rule(&[begun(Kind::Once), Event::Died { host: CLIENT }]), None);
}

#[test]
fn handlers_run_as_often_as_the_policy_allows() {
    for kind in [Kind::Once, Kind::Produce, Kind::Collect, Kind::Chat] {
        let end = run_ended(1, Code::Aborted);
        breaks("handlers run as often as allowed", &[&[begun(kind), ran(1), end, ran(2)]]);
    }
    let many: Vec<Event> = [begun(Kind::Hedged)].into_iter().chain((1..=4).map(ran)).collect();
    breaks("handlers run as often as allowed", &[&many]);
    breaks(
        "only what the policy names is sent again",
        &[
            &[begun(Kind::Named), ran(1), ran(2)],
            &[begun(Kind::Named), ran(1), run_ended(1, Code::Ok), ran(2)],
            &[begun(Kind::Named), ran(1), Event::RunEnded { call: 1, run: 1, code: None }, ran(2)],
        ],
    );
    assert_eq!(rule(&[begun(Kind::Repeated), ran(1), ran(2), CANCELLED]), None);
}

#[test]
fn what_is_said_not_to_have_run_has_not_and_does_not() {
    let not_run = [Failure::NotConnected, Failure::TooMuch, Failure::Overloaded, Failure::Draining];
    for failure in not_run {
        breaks(
            "what did not run did not run",
            &[&[begun(Kind::Once), ran(1), DIED, failed(failure)]],
        );
    }
    let refused = [begun(Kind::Chat), DIED, failed(Failure::Draining), ran(1)];
    breaks("what did not run does not run", &[&refused]);
}

#[test]
fn answers_come_from_handlers() {
    breaks(
        "answers are those of handlers",
        &[
            &[begun(Kind::Once), answer(1, 0)],
            &[begun(Kind::Once), ran(1), answer(1, 0)],
            &[begun(Kind::Once), ran(1), run_ended(1, Code::Aborted), answer(1, 0)],
            &[begun(Kind::Produce), ended(Outcome::End)],
            &[begun(Kind::Produce), ran(1), ended(Outcome::End)],
        ],
    );
    let counted = [begun(Kind::Collect), sent_up(0), ran(1), got_up(0), run_ended(1, Code::Ok)];
    breaks(
        "what the client is told was read was read",
        &[&[&counted[..], &[answer(1, 2)]].concat()],
    );
    let wrong = Outcome::Answer { run: 1, pieces: 0, right: false };
    breaks(
        "messages keep their bytes",
        &[&[begun(Kind::Once), ran(1), run_ended(1, Code::Ok), ended(wrong)]],
    );
}

#[test]
fn messages_come_once_in_order_and_before_the_end() {
    let up = [begun(Kind::Chat), sent_up(0), sent_up(1), ran(1)];
    let with = |more: &[Event]| [&up[..], more].concat();
    breaks(
        "messages come once and in order",
        &[
            &with(&[got_up(1)]),
            &with(&[got_up(0), got_up(0)]),
            &with(&[sent_down(0), sent_down(1), got_down(1, 1)]),
            &with(&[sent_down(0), sent_down(1), got_down(1, 0), got_down(1, 0)]),
        ],
    );
    breaks(
        "messages come that were sent",
        &[&with(&[got_up(0), got_up(1), got_up(2)]), &with(&[got_down(1, 0)])],
    );
    breaks(
        "a stream ends behind its last message",
        &[
            &with(&[got_up(0), END_TOLD]),
            &with(&[CLOSED, got_up(0), END_TOLD]),
            &with(&[sent_down(0), run_ended(1, Code::Ok), ended(Outcome::End)]),
        ],
    );
    breaks("a stream ends once", &[&with(&[CLOSED, got_up(0), got_up(1), END_TOLD, END_TOLD])]);
    breaks("a stream that has ended stays so", &[&with(&[Event::EndedOtherwise { call: 1 }])]);
    breaks(
        "nothing comes when the call is over",
        &[&with(&[sent_down(0), CANCELLED, got_down(1, 0)])],
    );
}

#[test]
fn failures_need_causes() {
    breaks(
        "failures have causes",
        &[
            &[begun(Kind::Once), failed(Failure::Timeout)],
            &[begun(Kind::Once), failed(Failure::Lost)],
            &[begun(Kind::Once), ran(1), failed(Failure::HandlerFailed)],
            &[begun(Kind::Once), failed(Failure::Overloaded)],
            &[begun(Kind::Once), ended(Status::aborted("as planned").into())],
        ],
    );
    let mut late = vec![begun(Kind::Once)];
    late.extend((1..=9).map(ran).take(1));
    late.resize(10, Event::Drained { host: SERVER });
    late.push(failed(Failure::Timeout));
    assert_eq!(rule(&late), None);
}

#[test]
fn what_hosts_keep_is_refused() {
    let good = AtRest {
        life: CLIENT,
        held: petasos_runtime::Held::default(),
        unfinished: (0, 0, 0),
        failures: (0, 0),
    };
    let rule = |host: AtRest| host.check().err().map(|violation| violation.rule);
    assert_eq!(rule(good), None);
    let held = petasos_runtime::Held { slots: 1, ..Default::default() };
    assert_eq!(rule(AtRest { held, ..good }), Some("nothing is left in the loop"));
    assert_eq!(rule(AtRest { unfinished: (0, 1, 0), ..good }), Some("no call is left"));
    assert_eq!(rule(AtRest { unfinished: (0, 0, 1), ..good }), Some("buffers come back"));
    assert_eq!(rule(AtRest { failures: (1, 0), ..good }), Some("no panics"));
    assert_eq!(rule(AtRest { failures: (0, 1), ..good }), Some("peers keep the rules"));
}
