//! Sealed sessions, and somebody between their ends (W27 to W31).

use petasos_endpoint::{CallError, CallSettings, CongestionConfig, EndpointConfig, KeyLife};
use petasos_netio::Ecn;
use petasos_wire::{Header, Kind, Packet, SEAL_BYTES};
use proptest::prelude::*;

use crate::joined::*;

const SIZES: [usize; 8] = [0, 1, 32, 488, 489, 1432, 1433, 60_000];

/// What is lost here is lost on purpose, and turns are longer than any target.
fn uncontrolled(config: &mut EndpointConfig) {
    config.congestion = Some(CongestionConfig::none());
}

fn captured() -> Joined {
    let ends = [security(1, "server.test"), security(1, "client.test")];
    Joined::sealed_and_captured(ends, uncontrolled)
}

fn unopened(pair: &Joined) -> u64 {
    let of = |stats: petasos_endpoint::EndpointStats| stats.event_loop.seals_broken;
    of(pair.client.stats()) + of(pair.server.stats())
}

fn replayed(pair: &Joined) -> u64 {
    let of = |stats: petasos_endpoint::EndpointStats| stats.event_loop.seals_replayed;
    of(pair.client.stats()) + of(pair.server.stats())
}

#[test]
fn w27_calls_of_any_size_and_nothing_of_them_in_the_clear() {
    let mut pair = captured();
    let session = pair.session;
    assert!(pair.client.context().is_sealed(session));
    for (tag, size) in SIZES.into_iter().enumerate() {
        let message = pattern(size);
        pair.call(ECHO, &message, tag as u64);
        pair.run_relayed(60, |_, bytes| {
            let packet = Packet::parse(bytes).unwrap();
            assert!(packet.has_checksum() && packet.payload().len() >= SEAL_BYTES);
            let clear = packet.payload().windows(16).any(|part| message.starts_with(part));
            assert!(!clear, "{size} bytes");
        });
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*message), "{size} bytes");
    }
    assert_eq!((unopened(&pair), replayed(&pair)), (0, 0));
    for stats in [pair.client.stats(), pair.server.stats()] {
        assert_eq!(stats.event_loop.transmit_unsealed, 0);
    }
}

#[test]
fn w27_errors_cancels_and_panics_are_sealed_as_well() {
    let mut pair = captured();
    pair.call(NOBODY, b"x", 1);
    pair.call(PANIC, b"x", 2);
    pair.call(HOLD, b"x", 3);
    let settings = CallSettings {
        timeout: Some(std::time::Duration::from_millis(20)),
        ..CallSettings::default()
    };
    pair.call_with(HOLD, b"y", 4, &settings);
    pair.run_relayed(100, |_, bytes| assert!(Packet::parse(bytes).unwrap().has_checksum()));
    assert_eq!(*pair.outcome(1), Err(CallError::UnknownMethod));
    assert_eq!(*pair.outcome(2), Err(CallError::HandlerFailed));
    assert_eq!(*pair.outcome(4), Err(CallError::Timeout));
    assert!(!pair.is_over(3));
    let handle = pair.server.state_mut().held.remove(0).0;
    assert!(pair.server.context().is_wanted(&handle));
    let given_up = pair.server.state_mut().held.remove(0).0;
    assert!(!pair.server.context().is_wanted(&given_up), "the cancel has arrived");
}

#[test]
fn w27_packets_that_were_changed_count_as_lost() {
    let mut pair = captured();
    let mut damaged = 0;
    for (tag, size) in SIZES.into_iter().enumerate() {
        pair.call(ECHO, &pattern(size), tag as u64);
        pair.run_relayed(60, |at, bytes| {
            // Behind the first word, by which the session is found.
            if at % 5 == 3 {
                let place = 8 + at * 7 % (bytes.len() - 8);
                bytes[place] ^= 1 << (at % 8);
                damaged += 1;
            }
        });
        assert_eq!(pair.outcome(tag as u64).as_deref(), Ok(&*pattern(size)), "{size} bytes");
    }
    assert!(damaged > 0);
    assert_eq!(unopened(&pair) + replayed(&pair), damaged);
}

#[test]
fn w31_what_is_sent_again_is_not_seen_again() {
    let mut pair = captured();
    let (mut packets, mut seen, mut again) = (Vec::new(), Vec::new(), 0);
    for tag in 0..40 {
        pair.call(ECHO, &pattern(100), tag);
        while !pair.is_over(tag) {
            pair.run(1);
            pair.hub.take_captured(&mut packets);
            for packet in packets.drain(..) {
                pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                // At once, and everything ever sent once more.
                pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                seen.push(packet);
                for packet in &seen {
                    pair.hub.deliver(packet.to, &packet.bytes, Ecn::NotCapable);
                    again += 1;
                }
                again += 1;
            }
        }
    }
    pair.run(10);
    assert_eq!(pair.server.state().handled, 40);
    assert_eq!((replayed(&pair), unopened(&pair)), (again, 0));
    let stale = (pair.client.stats().client.stale, pair.server.stats().server.stale);
    assert_eq!(stale, (0, 0), "proto has seen none");
}

#[test]
fn w27_a_session_is_sealed_or_not_as_a_whole() {
    let mut pair = captured();
    pair.call(ECHO, b"x", 1);
    let mut request = Vec::new();
    pair.run_relayed(5, |at, bytes| {
        if at == 0 {
            request = bytes.to_vec();
        }
    });
    let (session, tag) = {
        let packet = Packet::parse(&request).unwrap();
        (packet.session(), packet.tag())
    };
    // Somebody who has seen the tag asks in the clear, and with a right checksum.
    let header = Header::for_session(session, tag).with_request(Kind::Request, 16, 9);
    let header = header.with_client(0, 3, ECHO);
    let plain = [&header.to_bytes()[..], b"abc"].concat();
    let mut summed = [&header.with_checksum().to_bytes()[..], b"abc"].concat();
    let checksum = crc32c::crc32c(&summed).to_le_bytes();
    summed.extend(checksum);
    for bytes in [plain, summed] {
        pair.hub.deliver(1, &bytes, Ecn::NotCapable);
        pair.hub.deliver(0, &bytes, Ecn::NotCapable);
    }
    pair.run(5);
    assert_eq!(pair.server.state().handled, 1);
    pair.call(ECHO, b"y", 2);
    pair.run_relayed(5, |_, _| {});
    assert_eq!(pair.outcome(2).as_deref(), Ok(&b"y"[..]));
}

#[test]
fn w28_ends_with_unlike_secrets_do_not_hear_each_other() {
    let ends = [security(1, "server.test"), security(2, "client.test")];
    let mut pair = Joined::sealed_and_captured(ends, uncontrolled);
    let settings = CallSettings {
        timeout: Some(std::time::Duration::from_millis(30)),
        ..CallSettings::default()
    };
    pair.call_with(ECHO, b"x", 1, &settings);
    pair.run_relayed(60, |_, _| {});
    assert_eq!(*pair.outcome(1), Err(CallError::Timeout));
    assert_eq!(pair.server.state().handled, 0);
    assert!(unopened(&pair) > 0);
}

#[test]
fn w30_keys_change_under_load_and_loss() {
    let ends = [security(1, "server.test"), security(1, "client.test")];
    let mut pair = Joined::sealed_and_captured(ends, |config| {
        uncontrolled(config);
        config.key_life = KeyLife::of_log2(6);
    });
    let (mut phases, mut changes) = ([false; 2], 0);
    for round in 0..30 {
        for slot in 0..8 {
            pair.call(ECHO, &pattern(200 * slot), (round * 8 + slot) as u64);
        }
        let mut lost = 0;
        pair.run_relayed(20, |at, bytes| {
            let packet = Packet::parse(bytes).unwrap();
            let phase = &mut phases[usize::from(packet.from_server())];
            changes += usize::from(packet.key_phase() != *phase);
            *phase = packet.key_phase();
            if at % 7 == 6 {
                lost += 1;
                bytes[0] = 0;
            }
        });
        for slot in 0..8 {
            let outcome = pair.outcome((round * 8 + slot) as u64);
            assert_eq!(outcome.as_deref(), Ok(&*pattern(200 * slot)), "round {round}");
        }
        assert!(lost > 0);
    }
    assert!(changes >= 6, "{changes} changes of keys");
    assert_eq!(unopened(&pair), 0);
}

#[test]
fn c18_handlers_and_clients_see_who_the_peer_is() {
    let mut pair = Joined::sealed(|_| {});
    pair.call(HOLD, b"x", 1);
    pair.run(3);
    let handle = pair.server.state_mut().held.remove(0).0;
    let names = &pair.server.context().peer(&handle).unwrap().names;
    assert_eq!(names, &["client.test"]);
    let session = pair.session;
    assert_eq!(pair.client.context().session_peer(session).unwrap().names, ["server.test"]);
    let mut plain = Joined::new();
    plain.call(HOLD, b"x", 1);
    plain.run(3);
    let handle = plain.server.state_mut().held.remove(0).0;
    assert!(plain.server.context().peer(&handle).is_none());
    let session = plain.session;
    assert!(plain.client.context().session_peer(session).is_none());
    assert!(!plain.client.context().is_sealed(session));
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    /// Any bytes behind a header that leads to the session: nothing of it reaches a handler.
    #[test]
    fn w27_no_bytes_pass_for_a_sealed_packet(
        packets in prop::collection::vec(
            (any::<[u8; 16]>(), prop::collection::vec(any::<u8>(), 0..100), any::<u8>()), 1..40),
    ) {
        let mut pair = captured();
        pair.call(ECHO, b"x", 1);
        let mut first = [0; 8];
        pair.run_relayed(5, |at, bytes| {
            if at == 0 {
                first.copy_from_slice(&bytes[..8]);
            }
        });
        for (rest, payload, flags) in packets {
            let mut bytes = [&first[..], &rest, &payload].concat();
            bytes[1] ^= flags;
            pair.hub.deliver(1, &bytes, Ecn::NotCapable);
        }
        pair.run(5);
        prop_assert_eq!(pair.server.state().handled, 1);
        pair.call(ECHO, b"y", 2);
        pair.run_relayed(5, |_, _| {});
        prop_assert_eq!(pair.outcome(2).as_deref(), Ok(&b"y"[..]));
    }
}
