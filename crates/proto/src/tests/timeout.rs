use petasos_base::Time;
use petasos_wire::Kind;

use super::link::Fate;
use super::pair::{Config, PAYLOAD, Pair};
use super::plan::{Answer, Outcome, Plan};

#[test]
fn w21_a_call_whose_time_is_up_frees_its_slot_and_tells_the_server() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    let start = pair.now;
    let stuck = pair.call(Plan::new(32, 32).answered(Answer::Never).timeout_us(2_000));
    let next = pair.call(Plan::new(32, 32));
    pair.run();
    assert_eq!(pair.outcomes[&stuck], (Outcome::Expired, start.plus_nanos(2_000_000)));
    assert_eq!(pair.outcome(next), Outcome::Answered);
    assert_eq!(pair.server.stats().cancels, 1);
    assert_eq!(pair.server.running(), 0);
}

#[test]
fn a_waiting_call_expires_too() {
    let mut pair = Pair::new(Config { slots: 1, ..Config::default() });
    let first = pair.call(Plan::new(32, 32).after_us(5_000));
    let second = pair.call(Plan::new(32, 32).timeout_us(1_000));
    pair.run();
    assert_eq!(pair.outcome(first), Outcome::Answered);
    assert_eq!(pair.outcome(second), Outcome::Expired);
    assert_eq!(pair.sent(Kind::Cancel).len(), 0);
}

#[test]
fn an_answer_in_time_stops_the_clock() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32).timeout_us(1_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    assert_eq!(pair.client.next_timeout(), Time::NEVER);
}

#[test]
fn w25_a_long_handler_is_asked_ever_more_rarely() {
    let mut pair = Pair::plain();
    let method = pair.call(Plan::new(32, 32).after_us(5_000_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Answered);
    let sent: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.at).collect();
    let gaps: Vec<_> = sent.windows(2).map(|pair| pair[1].nanos_since(pair[0])).collect();
    assert!(gaps[1..].is_sorted(), "after the initial timeout: {gaps:?}");
    assert!(sent.len() < 25, "400 ms apart in the end: {}", sent.len());
}

#[test]
fn w25_probes_of_a_long_handler_repeat_one_packet_only() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(20 * PAYLOAD, 32).after_us(1_000_000));
    pair.run();
    let probes = &pair.sent(Kind::Request)[20..];
    assert!((2..12).contains(&probes.len()), "{}", probes.len());
    assert!(probes.iter().all(|sent| sent.start == 19), "the last packet");
}

#[test]
fn w25_a_dead_path_is_tried_ever_more_rarely() {
    let mut pair = Pair::plain();
    pair.network.doom(Kind::Request, 0..u32::MAX, Fate::Lost);
    let method = pair.call(Plan::new(32, 32).timeout_us(10_000_000));
    pair.run();
    assert_eq!(pair.outcome(method), Outcome::Expired);
    let sent = pair.sent(Kind::Request).len();
    assert!((20..40).contains(&sent), "400 ms apart in the end: {sent}");
}

#[test]
fn w25_a_path_that_comes_back_is_found() {
    for plan in [Plan::new(20 * PAYLOAD, 32), Plan::new(32, 20 * PAYLOAD), Plan::new(32, 32)] {
        let mut pair = Pair::plain();
        pair.network.doom(Kind::Request, 0..25, Fate::Lost);
        pair.network.doom(Kind::Response, 1..20, Fate::Lost);
        pair.network.doom(Kind::Pull, 0..5, Fate::Lost);
        let method = pair.call(plan);
        pair.run();
        assert_eq!(pair.outcome(method), Outcome::Answered);
    }
}

/// The credit comes back just before the starved call would have timed out, had it been sent.
#[test]
fn w14_w25_a_call_without_credits_does_not_time_out() {
    for bytes in [32, 3 * PAYLOAD] {
        let mut pair = Pair::new(Config { credits: 1, ..Config::default() });
        let stuck = pair.call(Plan::new(32, 32).answered(Answer::Never));
        let starved = pair.call(Plan::new(bytes, 32));
        pair.cancel_after(stuck, 9_995_000);
        pair.run();
        assert_eq!(pair.outcome(starved), Outcome::Answered);
        assert_eq!(pair.client.stats().timeouts, 0);
        assert_eq!(pair.client.stats().retransmissions, 0);
    }
}

/// Both calls are acknowledged in one batch, of which only one round trip is taken, and answered
/// before they are sent once more.
#[test]
fn w6_a_handlers_time_is_not_taken_for_a_round_trip() {
    let mut pair = Pair::plain();
    pair.call(Plan::new(32, 32).after_us(15_000));
    pair.call(Plan::new(32, 32).after_us(15_000));
    pair.run();
    assert_eq!(pair.sent(Kind::Ack)[0].at, pair.sent(Kind::Ack)[1].at);
    assert_eq!(pair.client.rtt_ns(), Some(10_000));
}

/// Each pause of 6 ms is longer than the shortest timeout, and what is sent again meanwhile arrives
/// behind what it repeats.
#[test]
fn w25_a_server_that_pauses_is_given_time() {
    let mut pair = Pair::plain();
    let resent = [(); 4].map(|()| {
        for _ in 0..20 {
            pair.call(Plan::new(32, 32));
            pair.run();
        }
        let before = pair.sent(Kind::Request).len();
        pair.network.doom(Kind::Request, 0..1, Fate::Late(6_000_000));
        pair.network.doom(Kind::Request, 1..2, Fate::Late(3_000_000));
        let paused = pair.call(Plan::new(32, 32));
        pair.run();
        assert_eq!(pair.outcome(paused), Outcome::Answered);
        pair.sent(Kind::Request).len() - before - 1
    });
    assert_eq!(resent, [1, 0, 0, 0]);
    assert_eq!(pair.client.stats().retransmissions_spurious, 1);
}
