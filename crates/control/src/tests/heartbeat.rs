//! Signs of life and their absence.

use core::time::Duration;

use petasos_base::Time;

use super::pair::{DIALLER, Pair, Side};
use super::{encoded, hello, params};
use crate::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn failed(side: &mut Side) -> bool {
    side.take_events().contains(&Event::PeerFailed(FailureReason::Timeout))
}

#[test]
fn c11_heartbeats_keep_an_idle_connection_alive() {
    let mut pair = Pair::open();
    pair.pass(Duration::from_secs(10));
    assert!(pair.dialler.connection.is_open() && pair.acceptor.connection.is_open());
    let pings = |side: &Side| side.connection.counters().pings_sent;
    let sent = pings(&pair.dialler) + pings(&pair.acceptor);
    assert!((100..=200).contains(&sent), "{sent} pings in 100 intervals");
}

#[test]
fn c11_a_ping_waits_for_silence() {
    let mut pair = Pair::open();
    for nonce in 0..50 {
        let sign = encoded(&Message::Ping { nonce });
        pair.now = pair.now + 99 * MILLISECOND;
        pair.dialler.connection.handle_timeout(pair.now);
        pair.dialler.connection.handle_bytes(&sign, pair.now);
    }
    assert_eq!(pair.dialler.connection.counters().pings_sent, 0);
}

#[test]
fn c11_silence_fails_in_time_and_answers_every_connect() {
    let mut pair = Pair::open();
    pair.dialler.connection.connect(1, params(3), Time::ZERO + 1500 * MILLISECOND).unwrap();
    let end = Time::ZERO + Config::default().failure_timeout;
    while let Some(now) = pair.dialler.connection.poll_timeout().filter(|time| *time < end) {
        pair.dialler.connection.handle_timeout(now);
        assert_eq!(pair.dialler.take_events(), []);
    }
    assert_eq!(pair.dialler.connection.poll_timeout(), Some(end));
    pair.dialler.connection.handle_timeout(end);
    let expected = [
        Event::ConnectAnswered { id: 1, result: Err(ConnectFailure::PeerFailed) },
        Event::PeerFailed(FailureReason::Timeout),
    ];
    assert_eq!(pair.dialler.take_events(), expected);
    assert!(pair.dialler.connection.is_finished());
    assert_eq!(pair.dialler.connection.poll_timeout(), None);
}

#[test]
fn c11_a_peer_that_never_says_hello_fails_in_time() {
    for role in [Role::Dialler, Role::Acceptor] {
        let mut side = Side::new(Config::default(), role, hello(DIALLER));
        let end = Time::ZERO + Config::default().failure_timeout;
        assert_eq!(side.connection.poll_timeout(), Some(end));
        side.connection.handle_bytes(&encoded(&Message::Hello(hello(1)))[..20], Time::ZERO);
        side.connection.handle_timeout(end);
        assert!(failed(&mut side), "{role:?}");
    }
}

#[test]
fn c11_half_a_frame_is_no_sign_of_life() {
    let mut pair = Pair::open();
    let longest = [&[0xfc, 0x0f, 77, 1][..], &[0; BODY_BYTES_MAX]].concat();
    for byte in longest {
        pair.now = pair.now + 50 * MILLISECOND;
        pair.dialler.connection.handle_bytes(&[byte], pair.now);
        pair.dialler.connection.handle_timeout(pair.now);
        if failed(&mut pair.dialler) {
            break;
        }
    }
    assert_eq!(pair.now, Time::ZERO + Config::default().failure_timeout);
}

#[test]
fn c11_a_process_that_was_stopped_does_not_blame_its_peer() {
    let mut pair = Pair::open();
    pair.now = Time::ZERO + Duration::from_secs(60);
    pair.dialler.connection.handle_timeout(pair.now);
    assert!(!failed(&mut pair.dialler), "the peer was not asked yet");
    pair.transfer();
    pair.pass(Duration::from_secs(10));
    assert!(pair.dialler.connection.is_open());
}

#[test]
fn c11_other_frames_clear_suspicion_but_no_second_ping_is_sent() {
    let mut pair = Pair::open();
    let interval = Config::default().heartbeat_interval;
    for nonce in 0..40 {
        pair.now = pair.now + interval;
        pair.dialler.connection.handle_timeout(pair.now);
        let sign = encoded(&Message::Ping { nonce });
        pair.dialler.connection.handle_bytes(&sign, pair.now);
    }
    assert!(pair.dialler.connection.is_open());
    assert_eq!(pair.dialler.connection.counters().pings_sent, 1);
    let pong = encoded(&Message::Pong { nonce: 1 });
    pair.dialler.connection.handle_bytes(&pong, pair.now);
    pair.dialler.connection.handle_timeout(pair.now + interval);
    assert_eq!(pair.dialler.connection.counters().pings_sent, 2);
}

#[test]
fn c11_the_end_of_the_stream_is_a_failure() {
    for reason in [FailureReason::Eof, FailureReason::Reset] {
        let mut pair = Pair::open();
        pair.dialler.connection.connect(1, params(3), pair.now).unwrap();
        match reason {
            FailureReason::Eof => pair.dialler.connection.handle_eof(pair.now),
            _ => pair.dialler.connection.handle_reset(pair.now),
        }
        let expected = [
            Event::ConnectAnswered { id: 1, result: Err(ConnectFailure::PeerFailed) },
            Event::PeerFailed(reason),
        ];
        assert_eq!(pair.dialler.take_events(), expected);
        assert!(pair.dialler.connection.is_finished());
    }
}
