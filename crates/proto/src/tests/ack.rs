use petasos_wire::{BITMAP_WORDS_MAX, Kind};

use super::forge::FromServer;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn w17_one_acknowledgement_returns_a_batch_of_credits() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(64 * PAYLOAD, 8).after_us(100));
    pair.run();
    let acks: Vec<_> = pair.sent(Kind::Ack).iter().map(|sent| sent.value).collect();
    assert_eq!(acks, [32, 64], "one per batch of arrivals");
    assert!(pair.sent(Kind::Ack).iter().all(|sent| sent.payload_bytes == 0), "nothing is missing");
}

#[test]
fn w18_a_bitmap_names_what_arrived_beyond_the_gap() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 5..6, Fate::Lost);
    let method = pair.call(Plan::new(20 * PAYLOAD, 8));
    pair.run();
    let ack = pair.sent(Kind::Ack)[0];
    assert_eq!((ack.value, ack.payload_bytes), (5, 8));
    let requests = pair.sent(Kind::Request);
    assert_eq!(requests.len(), 21, "the lost packet alone is sent again");
    assert_eq!(requests[20].start, 5);
    assert_eq!(pair.client.stats().timeouts, 0);
    assert_eq!(pair.outcome(method), Outcome::Answered);
}

#[test]
fn w17_w25_lost_acknowledgements_are_repaired() {
    for lost in [0..1, 0..2, 1..2] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Ack, lost, Fate::Lost);
        let method = pair.call(Plan::new(64 * PAYLOAD, 8).after_us(100_000));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
        let requests = pair.sent(Kind::Request).len();
        assert!(requests < 64 + 16, "probes repair it, not a whole window: {requests}");
    }
}

/// The window is longer than what a bitmap can tell, and the first packet is lost twice: the
/// probe at the window's end gets answers that say nothing new.
#[test]
fn w18_w25_a_gap_behind_the_bitmaps_reach_is_repaired() {
    let credits = 4 * 64 * BITMAP_WORDS_MAX as u32 - 1;
    let mut pair = Pair::new(Config { credits, ..Config::default() });
    pair.network.doom(Kind::Request, 0..1, Fate::Lost);
    pair.network.doom(Kind::Request, credits..credits + 1, Fate::Lost);
    let method = pair.call(Plan::new(5000 * PAYLOAD, 8));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
}

#[test]
fn w17_w18_acknowledgements_that_cannot_be_are_dropped() {
    let ack = |value, payload| FromServer::new(Kind::Ack, 8, value).with_payload(payload);
    for forged in [ack(21, 0), ack(u32::MAX, 0), ack(5, 7), ack(5, BITMAP_WORDS_MAX * 8 + 8)] {
        let mut pair = Pair::plain();
        let method = pair.call(Plan::new(20 * PAYLOAD, 8));
        pair.run_for_us(1);
        pair.forge_to_client(&forged);
        assert_eq!(pair.client.stats().inconsistent, 1, "{forged:?}");
        assert_eq!(pair.client.in_flight(), 20);
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
    }
}

#[test]
fn w17_an_old_acknowledgement_takes_nothing_back() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Ack, 0..1, Fate::Late(1_000_000));
    pair.network.doom(Kind::Request, 20..21, Fate::Late(3_000));
    let method = pair.call(Plan::new(60 * PAYLOAD, 8).after_us(20_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
}
