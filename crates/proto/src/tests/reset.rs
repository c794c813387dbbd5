use petasos_wire::Kind;

use super::forge::FromServer;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w23_a_reset_fails_every_call() {
    let mut pair = Pair::new(Config { slots: 2, ..Config::default() });
    for bytes in [32, 5 * PAYLOAD, 32, 32] {
        pair.call(Plan::new(bytes, 32).after_us(100));
    }
    pair.run_for_us(10);
    assert_eq!((pair.client.busy(), pair.client.backlog()), (2, 2));
    pair.forge_to_client(&FromServer::new(Kind::Reset, 2, 0));
    assert!((0..4).all(|method| pair.outcome(method) == Outcome::Reset));
    assert_eq!(pair.client.in_flight(), 0);
    pair.run();
}

#[test]
fn w23_a_reset_counts_whatever_request_provoked_it() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(10);
    pair.forge_to_client(&FromServer::new(Kind::Reset, 4711, 0));
    assert_eq!(pair.outcome(method), Outcome::Reset);
    pair.run();
}

#[test]
fn w4_w23_a_reset_with_another_tag_is_dropped() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(10);
    let mut bytes = FromServer::new(Kind::Reset, 8, 0).to_bytes();
    bytes[6] ^= 1;
    pair.client_packet(&bytes);
    assert_eq!(pair.client.stats().inconsistent, 1);
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
}
