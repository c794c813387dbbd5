use petasos_wire::Kind;

use super::forge::FromServer;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};
use crate::Sharer;

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
    let mut pair = Pair::new(Config { credits: 4, credits_max: 12, ..Config::default() });
    pair.server.take_share(4);
    pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.sent(Kind::Response)[0].credits, 3);
    pair.call(Plan::new(50 * PAYLOAD, 32));
    pair.run_for_us(1);
    assert_eq!(pair.client.in_flight(), 3);
    pair.server.take_share(2);
    pair.run_for_us(10);
    assert_eq!(pair.client.in_flight(), 5, "one more for each packet that has arrived");
    pair.run_for_us(20);
    assert_eq!(pair.client.in_flight(), 6);
    pair.run();
}

#[test]
fn w26_a_share_is_at_least_a_packet_and_at_most_what_was_agreed() {
    let mut pair = Pair::new(Config { credits: 2, credits_max: 12, ..Config::default() });
    for holders in [1, 13] {
        pair.server.take_share(holders);
        pair.call(Plan::new(50 * PAYLOAD, 32));
        pair.run();
    }
    pair.server.leave_share();
    pair.call(Plan::new(32, 32));
    pair.run();
    let granted: Vec<_> = pair.sent(Kind::Response).iter().map(|sent| sent.credits).collect();
    assert_eq!(granted, [12, 1, 2], "at least one, or the client could never ask again");
}

#[test]
fn w26_a_client_takes_no_more_than_was_agreed() {
    let mut pair = Pair::new(Config { credits: 2, credits_max: 6, ..Config::default() });
    pair.call(Plan::new(32, 32).after_us(100));
    pair.run_for_us(10);
    pair.forge_to_client(&FromServer { credits: 999, ..FromServer::new(Kind::Ack, 8, 1) });
    pair.call(Plan::new(50 * PAYLOAD, 32));
    pair.run_for_us(1);
    assert_eq!(pair.client.in_flight(), 6);
    pair.run();
}

#[test]
fn w26_silence_ends_a_grant() {
    let mut pair = Pair::new(Config { credits: 2, credits_max: 6, ..Config::default() });
    pair.server.take_share(1);
    pair.call(Plan::new(50 * PAYLOAD, 32));
    pair.run();
    for (silence_us, in_flight) in [(6_000, 6), (20_000, 2)] {
        pair.run_for_us(silence_us);
        pair.call(Plan::new(50 * PAYLOAD, 32));
        pair.run_for_us(1);
        assert_eq!(pair.client.in_flight(), in_flight, "after {silence_us} us");
        pair.run();
    }
}

#[test]
fn w26_pulls_have_the_clients_own_share_and_leave_requests_theirs() {
    let mut pair = Pair::new(Config { credits: 4, credits_max: 12, ..Config::default() });
    pair.client.take_share(2);
    let long = pair.call(Plan::new(32, 100 * PAYLOAD));
    pair.run_for_us(100);
    assert_eq!(pair.client.in_flight(), 6, "half of the room");
    let request = pair.call(Plan::new(20 * PAYLOAD, 32));
    pair.run_for_us(1);
    assert_eq!(pair.client.in_flight(), 6 + 4, "beside all of the server's credits");
    pair.run();
    assert_eq!((pair.outcome(long), pair.outcome(request)), (Outcome::Answered, Outcome::Answered));
    assert_eq!(pair.client.stats().retransmissions, 0);
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
