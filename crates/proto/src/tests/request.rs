use petasos_wire::{Kind, PACKETS_MAX};

use super::forge::FromClient;
use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Outcome, Plan};

#[test]
fn a_small_call_takes_two_packets() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.kinds(), [Kind::Request, Kind::Response]);
    assert_eq!(pair.outcome(method), Outcome::Answered);
}

#[test]
fn w7_w8_w13_every_packet_but_the_last_is_full() {
    for bytes in [0, 1, PAYLOAD - 1, PAYLOAD, PAYLOAD + 1, 2 * PAYLOAD, 20 * PAYLOAD + 3] {
        let mut pair = Pair::plain();
        let method = pair.call(Plan::new(bytes, 8));
        pair.run();
        let requests = pair.sent(Kind::Request);
        assert_eq!(requests.len() as u32, bytes.div_ceil(PAYLOAD).max(1), "{bytes} B");
        for (index, sent) in (0..).zip(&requests) {
            assert_eq!((sent.start, sent.end), (index, bytes));
            let left = bytes - index * PAYLOAD;
            assert_eq!(sent.payload_bytes as u32, left.min(PAYLOAD));
        }
        assert_eq!(pair.outcome(method), Outcome::Answered);
        assert_eq!(pair.client.stats().retransmissions, 0);
    }
}

#[test]
fn w15_a_request_that_arrives_twice_runs_once() {
    for bytes in [32, 5 * PAYLOAD] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Request, 0..100, Fate::Twice);
        let method = pair.call(Plan::new(bytes, 32));
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
        assert_eq!(pair.runs, [1]);
        assert!(pair.server.stats().duplicates > 0);
    }
}

#[test]
fn w15_w17_a_repeated_request_whose_handler_runs_is_acknowledged() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(32, 32).after_us(15_000));
    pair.run();
    let kinds = [Kind::Request, Kind::Request, Kind::Ack, Kind::Response];
    assert_eq!(pair.kinds(), kinds, "repeated after 10 ms, acknowledged, answered");
    assert_eq!(pair.sent(Kind::Ack)[0].value, 1, "all its packets have arrived");
}

#[test]
fn w25_a_lost_request_is_sent_again() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 0..1, Fate::Lost);
    let method = pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.kinds(), [Kind::Request, Kind::Request, Kind::Response]);
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.client.stats().retransmissions_spurious, 0);
}

#[test]
fn w6_every_sending_has_a_fresh_transmission_number_and_the_answer_echoes_it() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 0..2, Fate::Lost);
    pair.call(Plan::new(32, 32));
    pair.run();
    let sent: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.transmission).collect();
    assert_eq!(sent, [1, 2, 3]);
    assert_eq!(pair.sent(Kind::Response)[0].echo, 3);
}

#[test]
fn w25_the_last_packet_of_a_long_request_may_be_lost() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 9..10, Fate::Lost);
    let method = pair.call(Plan::new(10 * PAYLOAD, 32));
    pair.run();
    assert_eq!(pair.sent(Kind::Request).len(), 11, "one packet is sent again, after a timeout");
    assert_eq!(pair.client.stats().timeouts, 1);
    assert_eq!(pair.outcome(method), Outcome::Answered);
}

#[test]
fn w5_a_packet_of_a_request_that_is_over_is_dropped() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    pair.network.doom(Kind::Request, 0..1, Fate::Late(30_000_000));
    pair.call(Plan::new(32, 32));
    pair.call_after(Plan::new(32, 32), 20_000_000);
    pair.run();
    assert_eq!(pair.runs, [1, 1]);
    assert_eq!(pair.server.stats().stale, 1);
}

#[test]
fn w5_calls_of_one_slot_have_numbers_a_slot_count_apart() {
    let mut pair = Pair::new(Config { slots: 4, ..Config::default() });
    for _ in 0..8 {
        pair.call(Plan::new(1, 1));
    }
    pair.run();
    let numbers: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.request).collect();
    assert_eq!(numbers, [4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn w4_a_packet_with_another_tag_is_dropped() {
    let mut pair = Pair::plain();
    let mut bytes = FromClient::bare(Kind::Request, 8, 0, 0).to_bytes();
    bytes[7] ^= 0x80;
    pair.server_packet(&bytes);
    assert_eq!(pair.server.stats().requests, 0);
    assert_eq!(pair.server.stats().inconsistent, 1);
}

#[test]
fn w7_w8_packets_that_contradict_themselves_are_dropped() {
    let request =
        |start, end, payload| FromClient::bare(Kind::Request, 8, start, end).with_payload(payload);
    let full = PAYLOAD as usize;
    for forged in [
        request(0, 1, 0),
        request(1, PAYLOAD, full),
        request(0, PAYLOAD + 1, full - 1),
        request(1, PAYLOAD + 1, 2),
        request(2, PAYLOAD + 1, 1),
        request(PACKETS_MAX - 1, 2 * PAYLOAD, full),
    ] {
        let mut pair = Pair::plain();
        pair.forge_to_server(&forged);
        assert_eq!(pair.server.stats().inconsistent, 1, "{forged:?}");
        assert_eq!(pair.server.request_in(0), 0, "the slot has not moved");
    }
}

#[test]
fn w8_w9_a_request_does_not_change_its_length_or_method_under_way() {
    let mut pair = Pair::plain();
    let part = |index, bytes| FromClient::bare(Kind::Request, 8, index, bytes).with_payload(1024);
    pair.forge_to_server(&part(0, 3 * PAYLOAD));
    pair.forge_to_server(&part(1, 4 * PAYLOAD));
    pair.forge_to_server(&FromClient { method: 1, ..part(1, 3 * PAYLOAD) });
    assert_eq!(pair.server.stats().inconsistent, 2);
    assert_eq!(pair.server.stats().duplicates, 0);
}
