use petasos_wire::{Kind, MESSAGE_BYTES_MAX, RejectCode};

use super::forge::FromServer;
use super::link::{DELAY_NS, Fate};
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w8_responses_of_all_sizes_arrive() {
    for bytes in [0, 1, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 2 * PAYLOAD, 200 * PAYLOAD + 3] {
        let mut pair = Pair::plain();
        let method = pair.call(Plan::new(8, bytes));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered, "{bytes} B");
        let responses = pair.sent(Kind::Response);
        assert_eq!(responses.len() as u32, bytes.div_ceil(PAYLOAD).max(1));
        assert_eq!((responses[0].value, responses[0].later), (bytes, false));
        let later = responses[1..].iter().zip(1..);
        assert!(later.into_iter().all(|(sent, index)| sent.later && sent.value == index));
    }
}

#[test]
fn w16_the_response_acknowledges_a_request_of_many_packets() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(10 * PAYLOAD, 32));
    pair.run();
    let mut kinds = vec![Kind::Request; 10];
    kinds.push(Kind::Response);
    assert_eq!(pair.kinds(), kinds);
}

#[test]
fn w16_a_response_overtakes_the_acknowledgement() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Ack, 0..100, Fate::Late(10 * DELAY_NS));
    let method = pair.call(Plan::new(10 * PAYLOAD, 3 * PAYLOAD).after_us(1));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.client.stats().retransmissions, 0);
    assert!(pair.client.stats().stale > 0, "the acknowledgement comes too late to matter");
}

#[test]
fn w19_a_long_response_costs_one_round_trip_more() {
    let mut pair = Pair::plain();
    let start = pair.now;
    let small = pair.call(Plan::new(8, 8));
    let long = pair.call(Plan::new(8, 30 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcomes[&small].1, start.plus_nanos(2 * DELAY_NS));
    assert_eq!(pair.outcomes[&long].1, start.plus_nanos(4 * DELAY_NS));
    assert_eq!(pair.sent(Kind::Pull).len(), 1);
}

#[test]
fn w15_a_lost_response_is_sent_again_without_running_the_handler() {
    for bytes in [32, 5 * PAYLOAD] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Response, 0..1, Fate::Lost);
        let method = pair.call(Plan::new(32, bytes));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
        assert_eq!(pair.runs, [1]);
        assert_eq!(pair.server.stats().responses_repeated, 1);
    }
}

#[test]
fn w15_a_response_is_kept_until_its_slot_is_used_again() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    pair.call(Plan::new(32, 32));
    pair.run();
    let first = pair.server.request_in(0);
    assert!(pair.server.response_of(0, first).is_some());
    pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(50);
    assert!(pair.server.response_of(0, first).is_none(), "the next request releases it");
    pair.run();
}

#[test]
fn a_short_response_takes_the_short_cut_only_where_it_may() {
    let mut pair = Pair::new(Config { slots: 1, response_bytes_max: 100, ..Config::default() });
    let first = pair.call(Plan::new(32, 64));
    pair.run();
    assert!(pair.server.respond_short(1, 8).is_none(), "the call is answered already");
    let second = pair.call(Plan::new(32, 16).after_us(50));
    pair.run_for_us(20);
    assert!(pair.server.respond_short(1, 16).is_none(), "another request");
    assert!(pair.server.respond_short(2, 101).is_none(), "over the limit");
    pair.run();
    assert_eq!((pair.outcome(first), pair.outcome(second)), (Outcome::Answered, Outcome::Answered));
    assert_eq!(pair.server.stats().responses, 2);
}

#[test]
fn a_response_that_arrives_twice_completes_once() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Response, 0..100, Fate::Twice);
    pair.call(Plan::new(32, 32));
    pair.call(Plan::new(32, 5 * PAYLOAD));
    pair.run();
    assert_eq!(pair.client.stats().calls_completed, 2);
    let stats = pair.client.stats();
    assert_eq!(stats.duplicates + stats.stale, 6, "each of the six second copies is dropped");
}

#[test]
fn w21_a_response_longer_than_the_call_takes_ends_it() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 5 * PAYLOAD).takes(4 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Overlong);
    assert_eq!(pair.kinds(), [Kind::Request, Kind::Response, Kind::Cancel]);
    assert_eq!(pair.server.stats().cancels, 1);
}

#[test]
fn a_response_over_the_sessions_limit_is_refused_at_the_server() {
    let mut pair = Pair::new(Config { response_bytes_max: 100, ..Config::default() });
    let method = pair.call(Plan::new(32, 101));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Rejected(Some(RejectCode::HandlerFailed)));
}

#[test]
fn w5_a_late_answer_of_a_worker_does_not_reach_the_next_call() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    let first = pair.call(Plan::new(32, 32).after_us(3_000).timeout_us(1_000));
    let second = pair.call(Plan::new(32, 32).after_us(3_000));
    pair.run();
    assert_eq!(pair.outcome(first), Outcome::Expired);
    assert_eq!(pair.outcome(second), Outcome::Answered);
    assert_eq!(pair.server.stats().responses_stale, 1);
}

#[test]
fn w8_responses_that_contradict_themselves_are_dropped() {
    let first = |value, payload| FromServer::new(Kind::Response, 8, value).with_payload(payload);
    let later = |value, payload| FromServer { later: true, ..first(value, payload) };
    for forged in [
        first(1, 0),
        first(PAYLOAD + 1, 1),
        first(MESSAGE_BYTES_MAX, 5),
        later(1, PAYLOAD as usize),
        later(MESSAGE_BYTES_MAX, 0),
    ] {
        let mut pair = Pair::plain();
        pair.call(Plan::new(32, 32).after_us(100));
        pair.run_for_us(10);
        pair.forge_to_client(&forged);
        assert_eq!(pair.client.stats().inconsistent, 1, "{forged:?}");
        pair.run();
    }
}
