use petasos_wire::Kind;

use super::forge::FromClient;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

fn with_done() -> Pair {
    Pair::new(Config { slots: 1, done: true, ..Config::default() })
}

#[test]
fn w21_done_releases_the_response() {
    let mut pair = with_done();
    let method = pair.call(Plan::new(32, 5 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.kinds().last(), Some(&Kind::Done));
    assert!(pair.server.kept_mut(0).is_none());
    assert_eq!(pair.server.stats().cancels, 0, "the call was not cancelled");
}

#[test]
fn w21_a_lost_done_leaves_the_response_to_the_next_request() {
    let mut pair = with_done();
    pair.network.doom(Kind::Done, 0..1, Fate::Lost);
    pair.call(Plan::new(32, 5 * PAYLOAD));
    pair.run();
    assert!(pair.server.kept_mut(0).is_some());
    let next = pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.outcome(next), Outcome::Answered);
}

#[test]
fn w15_w21_a_repeated_request_after_done_does_not_run() {
    let mut pair = with_done();
    pair.network.doom(Kind::Request, 0..1, Fate::Late(50_000_000));
    let method = pair.call(Plan::new(32, 5 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.runs, [1]);
    assert_eq!(pair.server.stats().stale, 1);
}

#[test]
fn w21_done_before_the_response_is_dropped() {
    let mut pair = with_done();
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(50);
    pair.forge_to_server(&FromClient::bare(Kind::Done, 1, 0, 0));
    assert_eq!(pair.server.stats().stale, 1);
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
}
