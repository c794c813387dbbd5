use petasos_wire::{CREDITS_MAX, Kind};

use super::forge::FromServer;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w14_credits_bound_the_packets_in_flight() {
    for credits in [1, 2, 7, 32] {
        let mut pair = Pair::new(Config { credits, ..Config::default() });
        pair.call(Plan::new(50 * PAYLOAD, 50 * PAYLOAD));
        pair.call(Plan::new(50 * PAYLOAD, 50 * PAYLOAD));
        pair.run_for_us(1);
        assert_eq!(pair.client.in_flight(), credits);
        assert_eq!(pair.sent(Kind::Request).len() as u32, credits);
        pair.run();
        assert!((0..2).all(|method| pair.outcome(method) == Outcome::Answered));
        assert_eq!(pair.client.stats().retransmissions, 0);
    }
}

#[test]
fn w14_a_call_that_waits_for_its_handler_holds_no_credit() {
    let mut pair = Pair::new(Config { credits: 4, ..Config::default() });
    pair.call(Plan::new(4 * PAYLOAD, 32).after_us(1_000));
    pair.run_for_us(100);
    assert_eq!(pair.client.in_flight(), 0);
    let quick = pair.call(Plan::new(32, 32));
    pair.run_for_us(100);
    assert_eq!(pair.outcome(quick), Outcome::Answered);
    pair.run();
}

#[test]
fn w14_slots_share_the_credits_fairly() {
    let mut pair = Pair::new(Config { credits: 8, ..Config::default() });
    for _ in 0..4 {
        pair.call(Plan::new(10 * PAYLOAD, 32));
    }
    pair.run_for_us(1);
    for request in 8..12 {
        let sent = pair.sent(Kind::Request);
        assert_eq!(sent.iter().filter(|sent| sent.request == request).count(), 2);
    }
    pair.run();
}

#[test]
fn w10_the_server_changes_its_grant_in_any_packet() {
    let mut pair = Pair::plain();
    pair.server.grant(3);
    pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.sent(Kind::Response)[0].credits, 3);
    pair.call(Plan::new(50 * PAYLOAD, 32));
    pair.run_for_us(1);
    assert_eq!(pair.client.in_flight(), 3);
    pair.server.grant(6);
    pair.run_for_us(10);
    assert_eq!(pair.client.in_flight(), 6);
    pair.run();
}

#[test]
fn w10_a_grant_stays_within_its_field() {
    let mut pair = Pair::plain();
    pair.server.grant(u32::MAX);
    pair.call(Plan::new(32, 32));
    pair.run();
    pair.server.grant(0);
    pair.call(Plan::new(32, 32));
    pair.run();
    let granted: Vec<_> = pair.sent(Kind::Response).iter().map(|sent| sent.credits).collect();
    assert_eq!(granted, [CREDITS_MAX, 1], "at least one, or the client could never ask again");
}

#[test]
fn w14_w25_a_probe_may_exceed_the_window() {
    let mut pair = Pair::new(Config { credits: 4, ..Config::default() });
    pair.call(Plan::new(32, 32).after_us(50_000));
    pair.run_for_us(15_000);
    assert_eq!(pair.client.in_flight(), 0, "acknowledged by now");
    pair.network.doom(Kind::Request, 0..4, Fate::Lost);
    let long = pair.call(Plan::new(4 * PAYLOAD, 32));
    pair.run_for_us(1_000);
    assert_eq!(pair.client.in_flight(), 4, "the window is full of lost packets");
    pair.run();
    assert_eq!(pair.outcome(long), Outcome::Answered);
}

#[test]
fn w10_a_grant_of_nothing_counts_as_one() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(10);
    pair.forge_to_client(&FromServer { credits: 0, ..FromServer::new(Kind::Ack, 8, 1) });
    let next = pair.call(Plan::new(32, 32));
    pair.run_for_us(50);
    assert_eq!(pair.outcome(next), Outcome::Answered);
    pair.run();
}
