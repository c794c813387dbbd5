//! Hellos, versions, strangers.

use super::pair::{ACCEPTOR, DIALLER, Pair, Side};
use super::{encoded, hello};
use crate::*;
use petasos_base::Time;

fn version(major: u8, minor: u8) -> Version {
    Version { major, minor }
}

#[test]
fn c5_hellos_open_both_ends() {
    let mut pair = Pair::new();
    assert!(pair.acceptor.connection.poll_output().is_none(), "the acceptor waits for a hello");
    pair.transfer();
    let introduced = |hello| vec![Event::PeerHello { hello, version: version(1, 4) }];
    assert_eq!(pair.dialler.take_events(), introduced(hello(ACCEPTOR)));
    assert_eq!(pair.acceptor.take_events(), introduced(hello(DIALLER)));
    assert_eq!(pair.dialler.connection.peer(), Some(&hello(ACCEPTOR)));
}

#[test]
fn c3_two_that_share_no_version_both_name_both_ranges() {
    let range = VersionRange { oldest: version(2, 1), newest: version(3, 0) };
    let later = Hello { versions: range, ..hello(DIALLER) };
    let mut pair = Pair::with(later, hello(ACCEPTOR));
    pair.transfer();
    let failed =
        |ours, theirs| vec![Event::PeerFailed(FailureReason::Incompatible { ours, theirs })];
    assert_eq!(pair.dialler.take_events(), failed(range, SUPPORTED));
    assert_eq!(pair.acceptor.take_events(), failed(SUPPORTED, range));
    let reason = FailureReason::Incompatible { ours: SUPPORTED, theirs: range };
    let line = "this process speaks control protocol 1.0 to 1.4, the peer 2.1 to 3.0";
    assert_eq!(reason.to_string(), line);
    assert!(pair.dialler.connection.is_finished() && pair.acceptor.connection.is_finished());
}

#[test]
fn c3_the_error_frame_names_both_ranges_too() {
    let range = VersionRange { oldest: version(2, 1), newest: version(3, 0) };
    let mut side = Side::new(Config::default(), Role::Acceptor, hello(ACCEPTOR));
    let theirs = encoded(&Message::Hello(Hello { versions: range, ..hello(DIALLER) }));
    side.connection.handle_bytes(&theirs, Time::ZERO);
    let mut expected = encoded(&Message::Hello(hello(ACCEPTOR)));
    let detail = Text::new("this process speaks 1.0 to 1.4, you 2.1 to 3.0");
    Message::Error { code: ErrorCode::VersionMismatch, detail }.encode(&mut expected);
    assert_eq!(side.take_output(), expected);
}

#[test]
fn c4_only_the_start_of_an_incompatible_hello_is_read() {
    let mut bytes = vec![8, 0, 1, 0];
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[0, 9, 0, 9]);
    let mut side = Side::new(Config::default(), Role::Dialler, hello(DIALLER));
    side.connection.handle_bytes(&bytes, Time::ZERO);
    let theirs = VersionRange { oldest: version(9, 0), newest: version(9, 0) };
    let reason = FailureReason::Incompatible { ours: SUPPORTED, theirs };
    assert_eq!(side.take_events(), [Event::PeerFailed(reason)]);
}

#[test]
fn c4_c16_strangers_are_told_by_their_first_bytes_and_not_answered() {
    let (unknown, tls) = (ProtocolError::HelloExpected, ProtocolError::SpeaksTls);
    let http2 = ProtocolError::SpeaksHttp2;
    let strangers: [(&[u8], ProtocolError); 9] = [
        (b"GET / HTTP/1.1\r\n", unknown),
        (b"SSH-2.0-OpenSSH", unknown),
        // A TLS record of 200 bytes, whose start reads like the header of a hello.
        (&[0x16, 3, 1, 0, 200, 1], tls),
        // An alert: unexpected message.
        (&[0x15, 3, 3, 0, 2, 2, 10], tls),
        // Settings of HTTP/2, and a farewell.
        (&[0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3], http2),
        (&[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0], http2),
        (&encoded(&Message::Ping { nonce: 1 }), unknown),
        (&[23, 0, 1, 0, b'P', b'T', b'S', b'X'], unknown),
        // Too short for the magic, and whole at once.
        (&[2, 0, 1, 0, 0, 7], unknown),
    ];
    for (bytes, why) in strangers {
        let mut side = Side::new(Config::default(), Role::Acceptor, hello(ACCEPTOR));
        // It may come byte by byte.
        let (first, rest) = bytes.split_at(1);
        side.connection.handle_bytes(first, Time::ZERO);
        side.connection.handle_bytes(rest, Time::ZERO);
        let reason = FailureReason::Protocol(why);
        assert_eq!(side.take_events(), [Event::PeerFailed(reason)], "{bytes:?}");
        assert!(side.connection.is_finished(), "nothing is said to {bytes:?}");
    }
}

/// Whoever dials a gRPC port by mistake is told what to type instead.
#[test]
fn what_looks_like_a_grpc_port_is_named_with_its_scheme() {
    assert!(ProtocolError::SpeaksHttp2.to_string().contains("called with grpc:// before"));
    assert!(ProtocolError::SpeaksTls.to_string().contains("called with grpcs:// before"));
}

#[test]
fn c4_a_second_hello_is_an_error() {
    let mut pair = Pair::open();
    pair.acceptor.connection.handle_bytes(&encoded(&Message::Hello(hello(3))), pair.now);
    let reason = FailureReason::Protocol(ProtocolError::HelloRepeated);
    assert_eq!(pair.acceptor.take_events(), [Event::PeerFailed(reason)]);
}

#[test]
fn c14_garbage_after_the_hello_is_reported_to_the_peer() {
    let mut pair = Pair::open();
    pair.acceptor.connection.handle_bytes(&[0xff; 100], pair.now);
    let reason = ProtocolError::Malformed(Malformed::Oversize(0xffff));
    let events = pair.acceptor.take_events();
    assert_eq!(events, [Event::PeerFailed(FailureReason::Protocol(reason))]);
    pair.transfer();
    let detail = Text::new("a frame announces 65535 bytes");
    let reported = FailureReason::Reported { code: ErrorCode::Malformed, detail };
    assert_eq!(pair.dialler.take_events(), [Event::PeerFailed(reported)]);
    assert!(pair.dialler.connection.is_finished() && pair.acceptor.connection.is_finished());
}

#[test]
fn c2_unknown_kinds_are_skipped_only_if_they_allow_it() {
    let mut pair = Pair::open();
    pair.acceptor.connection.handle_bytes(&[3, 0, 200, 1, 1, 2, 3], pair.now);
    assert_eq!(pair.acceptor.take_events(), []);
    assert_eq!(pair.acceptor.connection.counters().frames_skipped, 1);
    pair.acceptor.connection.handle_bytes(&[3, 0, 200, 0, 1, 2, 3], pair.now);
    let reason = ProtocolError::Malformed(Malformed::UnknownKind(200));
    let events = pair.acceptor.take_events();
    assert_eq!(events, [Event::PeerFailed(FailureReason::Protocol(reason))]);
}

#[test]
fn c6_another_incarnation_ends_all_sessions() {
    assert!(hello(2).ends_sessions_of(&hello(1)));
    let renamed = Hello { name: Text::new("renamed"), ..hello(1) };
    assert!(!renamed.ends_sessions_of(&hello(1)));
}
