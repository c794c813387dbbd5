use petasos_wire::Kind;

use super::forge::FromClient;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

fn one_slot() -> Pair {
    Pair::new(Config { slots: 1, ..Config::default() })
}

#[test]
fn w21_a_cancelled_call_frees_its_slot_at_once() {
    let mut pair = one_slot();
    let first = pair.call(Plan::new(32, 32).after_us(1_000));
    let second = pair.call(Plan::new(32, 32));
    pair.cancel_after(first, 100_000);
    pair.run();
    assert_eq!(pair.outcome(first), Outcome::Cancelled);
    assert_eq!(pair.outcome(second), Outcome::Answered);
    assert!(pair.outcomes[&second].1.nanos_since(pair.outcomes[&first].1) < 20_000);
    assert_eq!(pair.server.stats().cancels, 1);
    assert_eq!(pair.server.stats().responses_stale, 1, "the handler's answer comes too late");
}

#[test]
fn w21_a_response_that_crosses_the_cancellation_is_ignored() {
    for response in [32, 5 * PAYLOAD] {
        let mut pair = one_slot();
        let method = pair.call(Plan::new(32, response));
        pair.cancel_after(method, 7_000);
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Cancelled);
        assert_eq!(pair.client.stats().stale, 1);
        assert!(pair.server.kept_mut(0).is_none(), "the server has released the response");
    }
}

#[test]
fn w21_a_call_can_be_cancelled_at_any_moment() {
    for cancel_us in 0..40 {
        let mut pair = one_slot();
        let plan = Plan::new(40 * PAYLOAD, 40 * PAYLOAD).after_us(5);
        let first = pair.call(plan);
        let second = pair.call(plan);
        pair.cancel_after(first, cancel_us * 1000);
        pair.run();
        assert_eq!(pair.outcome(first), Outcome::Cancelled, "at {cancel_us} us");
        assert_eq!(pair.outcome(second), Outcome::Answered);
    }
}

#[test]
fn w21_a_lost_cancellation_does_no_harm() {
    let mut pair = one_slot();
    pair.network.doom(Kind::Cancel, 0..1, Fate::Lost);
    let first = pair.call(Plan::new(5 * PAYLOAD, 32).after_us(1_000));
    let second = pair.call(Plan::new(5 * PAYLOAD, 32).after_us(1_000));
    pair.cancel_after(first, 100_000);
    pair.run();
    assert_eq!(pair.outcome(second), Outcome::Answered);
    assert_eq!(pair.runs, [1, 1]);
}

#[test]
fn w15_w21_a_request_packet_after_the_cancellation_does_not_run() {
    let mut pair = one_slot();
    pair.network.doom(Kind::Request, 1..2, Fate::Late(1_000_000));
    let method = pair.call(Plan::new(2 * PAYLOAD, 32));
    pair.cancel_after(method, 100_000);
    pair.run();
    assert_eq!(pair.runs, [0]);
    assert_eq!(pair.server.stats().stale, 1);
}

#[test]
fn a_waiting_call_is_cancelled_without_a_packet() {
    let mut pair = one_slot();
    let first = pair.call(Plan::new(32, 32).after_us(1_000));
    let second = pair.call(Plan::new(32, 32));
    pair.cancel_after(second, 100_000);
    pair.run();
    assert_eq!(pair.outcome(first), Outcome::Answered);
    assert_eq!(pair.outcome(second), Outcome::Cancelled);
    assert_eq!(pair.sent(Kind::Cancel).len(), 0);
}

#[test]
fn w21_a_cancellation_of_another_request_is_dropped() {
    let mut pair = one_slot();
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(50);
    pair.forge_to_server(&FromClient::bare(Kind::Cancel, 2, 0, 0));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.server.stats().stale, 1);
    assert_eq!(pair.server.stats().cancels, 0);
}

#[test]
fn w21_a_cancellation_that_arrives_twice_counts_once() {
    let mut pair = one_slot();
    pair.network.doom(Kind::Cancel, 0..1, Fate::Twice);
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.cancel_after(method, 50_000);
    pair.run();
    assert_eq!(pair.server.stats().cancels, 1);
    assert_eq!(pair.server.stats().stale, 1);
}
