use petasos_wire::Kind;

use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};
use crate::Recovery;

fn go_back_n() -> Pair {
    Pair::new(Config { recovery: Recovery::GoBackN, ..Config::default() })
}

#[test]
fn w20_without_faults_it_sends_the_same_packets() {
    let mut pair = go_back_n();
    pair.call(Plan::new(50 * PAYLOAD, 50 * PAYLOAD));
    pair.run();
    assert_eq!(pair.sent(Kind::Request).len(), 50);
    assert_eq!(pair.sent(Kind::Response).len(), 50);
    assert_eq!(pair.client.stats().retransmissions, 0);
}

#[test]
fn w20_a_lost_request_packet_is_repeated_with_all_behind_it() {
    let mut pair = go_back_n();
    pair.network.doom(Kind::Request, 5..6, Fate::Lost);
    let method = pair.call(Plan::new(20 * PAYLOAD, 8));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    let indices: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.start).collect();
    let expected: Vec<_> = (0..20).chain(5..20).collect();
    assert_eq!(indices, expected);
    assert_eq!(pair.server.stats().reordered, 14, "what came behind the gap was dropped");
    assert_eq!(pair.client.stats().retransmissions, 15);
    assert_eq!(pair.sent(Kind::Ack)[0].payload_bytes, 0, "no bitmap");
}

#[test]
fn w20_a_lost_response_packet_is_pulled_again_with_all_behind_it() {
    let mut pair = go_back_n();
    pair.network.doom(Kind::Response, 5..6, Fate::Lost);
    let method = pair.call(Plan::new(8, 20 * PAYLOAD));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    let pulls: Vec<_> = pair.sent(Kind::Pull).iter().map(|sent| (sent.start, sent.end)).collect();
    assert_eq!(pulls, [(1, 20), (5, 20)]);
    assert_eq!(pair.client.stats().duplicates, 14, "what came behind the gap was dropped");
}

#[test]
fn w20_a_request_begins_with_its_first_packet() {
    let mut pair = go_back_n();
    pair.network.doom(Kind::Request, 0..1, Fate::Lost);
    let method = pair.call(Plan::new(5 * PAYLOAD, 8));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.server.stats().reordered, 4);
    assert_eq!(pair.sent(Kind::Request).len(), 10);
}

#[test]
fn w20_acknowledgements_that_come_after_the_roll_back_still_count() {
    let mut pair = go_back_n();
    pair.network.doom(Kind::Ack, 0..1, Fate::Late(12_000_000));
    let method = pair.call(Plan::new(60 * PAYLOAD, 8).after_us(50_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.runs, [1]);
}

#[test]
fn w20_w25_acknowledgements_and_pulls_may_be_lost() {
    for kind in [Kind::Ack, Kind::Pull, Kind::Response, Kind::Request] {
        let mut pair = go_back_n();
        pair.network.doom(kind, 0..2, Fate::Lost);
        let method = pair.call(Plan::new(40 * PAYLOAD, 40 * PAYLOAD).after_us(10));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered, "{kind:?}");
    }
}
