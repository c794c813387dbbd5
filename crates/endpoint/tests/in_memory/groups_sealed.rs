//! Calls to a sealed group (RT27, RT28, RT30), and what somebody on the path can do to them.

use petasos_base::Rng;
use petasos_control::Cipher;
use petasos_endpoint::{CallError, GroupError, RejectCode};
use petasos_wire::{FIRST_BYTES, Given, Kind, Packet};

use crate::grouped::*;
use crate::joined::*;

const CIPHERS: [Cipher; 2] = [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];
/// Bytes that may be on the network in a group in plaintext only.
const SECRET: &[u8] = b"what nobody on the path may read";

fn sealed(workers: usize) -> Grouped {
    Grouped::sealed(workers, Cipher::Aes128Gcm)
}

fn long() -> Vec<u8> {
    SECRET.repeat(40 * PAYLOAD / SECRET.len())
}

#[test]
fn rt27_rt28_calls_of_all_kinds_are_answered_and_none_is_in_plaintext() {
    for cipher in CIPHERS {
        let mut group = Grouped::sealed(2, cipher);
        group.call(ECHO, SECRET, 1, WHOLE);
        group.call(ECHO, SECRET, 2, ONCE);
        group.call(ECHO, &long(), 3, ONCE);
        group.call(ECHO, &long(), 4, WHOLE);
        group.run_seen(2000, |_, bytes| {
            let packet = Packet::parse(bytes).expect("it is one");
            let is_bare = matches!(packet.kind(), Kind::Feedback);
            assert_ne!(packet.has_checksum(), is_bare, "{:?}", packet.kind());
            let part = &SECRET[..16];
            assert!(!bytes.windows(part.len()).any(|at| at == part), "{:?}", packet.kind());
        });
        for (tag, expected) in
            [(1, SECRET.to_vec()), (2, SECRET.to_vec()), (3, long()), (4, long())]
        {
            assert_eq!(*group.outcome(tag), Ok(expected), "{tag} {cipher:?}");
        }
        let stats = group.client.stats().event_loop;
        assert_eq!((stats.seals_broken, stats.seals_replayed, stats.transmit_unsealed), (0, 0, 0));
        group.assert_quiet();
    }
}

#[test]
fn losses_and_copies_cost_no_call() {
    for seed in 0..6 {
        let (mut group, mut rng) = (sealed(3), Rng::new(seed));
        for tag in 0..60 {
            let (bytes, routing) = match tag % 3 {
                0 => (SECRET.to_vec(), WHOLE),
                1 => (SECRET.to_vec(), ONCE),
                _ => (long(), ONCE),
            };
            group.call(ECHO, &bytes, tag, routing);
            group.run_with(2, |_, _| match rng.below(20) {
                0 => Fate::IsLost,
                1 => Fate::ArrivesTwice,
                _ => Fate::Arrives,
            });
        }
        group.run_ms(3000);
        for tag in 0..60 {
            let expected = if tag % 3 == 2 { long() } else { SECRET.to_vec() };
            // A claim whose confirmation is lost lapses: its caller may ask again (RT17).
            let has_lapsed = tag % 3 != 0 && *group.outcome(tag) == Err(CallError::Again);
            let is_answered = *group.outcome(tag) == Ok(expected);
            assert!(is_answered || has_lapsed, "{tag} of seed {seed}");
        }
        assert_eq!(group.client.stats().event_loop.transmit_unsealed, 0);
        assert!(
            group.members.iter().all(|it| it.endpoint.stats().event_loop.transmit_unsealed == 0)
        );
        group.assert_quiet();
    }
}

/// Each bit of each packet: either it does not open, or only what the router may write has changed,
/// and then it is not the worker's.
#[test]
fn packets_with_a_flipped_bit_do_nothing() {
    let (mut packets, mut seen) = (Vec::new(), sealed(1));
    seen.call(ECHO, SECRET, 1, ONCE);
    seen.call(ECHO, SECRET, 2, WHOLE);
    seen.run_seen(40, |is_given, bytes| packets.push((is_given, bytes.to_vec())));
    assert!(packets.len() >= 8, "first packets, ready, request, responses, done");
    for (at, (_, bytes)) in packets.iter().enumerate() {
        if Packet::parse(bytes).is_ok_and(|packet| packet.kind() == Kind::Feedback) {
            continue;
        }
        // The same as before, until this packet, which comes damaged first.
        let mut group = sealed(1);
        group.call(ECHO, SECRET, 1, ONCE);
        group.call(ECHO, SECRET, 2, WHOLE);
        let (mut number, mut damaged) = (0, 0);
        while damaged == 0 && number < 400 {
            group.run_damaged(|is_given, bytes, deliver| {
                number += 1;
                if number != at + 1 {
                    return;
                }
                for bit in 0..bytes.len() * 8 {
                    let mut bytes = bytes.to_vec();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    // Index, tag, given number and lifetime are the router's to write.
                    let is_routers = is_given && is_written_by_router(bit);
                    if !is_routers {
                        deliver(&bytes);
                        damaged += 1;
                    }
                }
            });
        }
        assert!(damaged > 0, "packet {at} was seen again");
        group.run_ms(1000);
        assert_eq!(*group.outcome(1), Ok(SECRET.to_vec()), "packet {at}");
        assert_eq!(*group.outcome(2), Ok(SECRET.to_vec()), "packet {at}");
        assert_eq!(group.handled(), 2, "packet {at}");
    }
}

/// Whether a bit of a given first packet is in a field that the router writes, `session` and `tag`,
/// `packet_index` or `lifetime_us`, which are not authenticated.
fn is_written_by_router(bit: usize) -> bool {
    let (plain, mut other) = ([0xff; FIRST_BYTES], [0xff; FIRST_BYTES]);
    let Some(byte) = other.get_mut(bit / 8) else { return false };
    *byte ^= 1 << (bit % 8);
    petasos_wire::authenticated(&plain) == petasos_wire::authenticated(&other)
}

#[test]
fn a_first_packet_that_is_given_again_runs_once() {
    let mut group = sealed(1);
    let mut first = None;
    group.call(ECHO, SECRET, 1, WHOLE);
    group.run_seen(10, |is_given, bytes| {
        if is_given {
            first = Some(bytes.to_vec());
        }
    });
    let mut first = first.expect("it was given");
    // Somebody behind the router, who knows all that it writes, repeats it with fresh numbers.
    for _ in 0..5 {
        group.members[0].given += 1;
        let member = &group.members[0];
        let (session, tag, number) = (member.session, member.tag, member.given);
        let given = Given { session, tag, number, lifetime_us: None };
        given.write_to(first.first_chunk_mut().expect("it has header and block"));
        group.deliver_to_worker(0, &first);
        group.run_ms(5);
    }
    assert_eq!(group.handled(), 1);
    assert_eq!(group.members[0].endpoint.stats().event_loop.seals_replayed, 5);
    // Nor in a later epoch: it names the one that its key is of.
    group.begin_at_worker(0, 4).expect("it is the next");
    group.begin_at_worker(0, 5).expect("it is the next");
    group.members[0].given += 1;
    let member = &group.members[0];
    let (session, tag, number) = (member.session, member.tag, member.given);
    Given { session, tag, number, lifetime_us: None }.write_to(first.first_chunk_mut().unwrap());
    group.deliver_to_worker(0, &first);
    group.run_ms(5);
    assert_eq!(group.handled(), 1);
    assert_eq!(group.members[0].endpoint.stats().event_loop.without_keys, 1);
}

#[test]
fn answers_in_plaintext_are_not_believed() {
    let mut group = sealed(1);
    group.call(HOLD, SECRET, 1, WHOLE);
    group.call(HOLD, SECRET, 2, ONCE);
    let mut answers = Vec::new();
    group.run_seen(20, |_, bytes| {
        let packet = Packet::parse(bytes).expect("it is one");
        if packet.kind() == Kind::Ready {
            answers.push(bytes.to_vec());
        }
    });
    // From the right address, with index and tag of the pair: only the seal is missing.
    let answer = answers.pop().expect("the claim was answered");
    let packet = Packet::parse(&answer).expect("it is one");
    for code in 1..12 {
        let header = petasos_wire::Header::for_session(packet.session(), packet.tag())
            .with_request(Kind::Reject, packet.request(), 9)
            .with_server(packet.echo(), code, 0);
        let block = [0; 8];
        group.deliver_to_client(&[&header.to_bytes()[..], &block].concat());
        group.deliver_to_client(&[&header.to_bytes()[..], &packet.payload()[..8]].concat());
        group.run(1);
    }
    assert!(!group.is_over(1) && !group.is_over(2));
    assert!(group.client.stats().event_loop.malformed_block > 0);
}

#[test]
fn rt25_rejections_of_the_router_are_sealed() {
    let mut group = sealed(1);
    group.rejects = Some(RejectCode::NoWorker);
    group.call(ECHO, SECRET, 1, WHOLE);
    group.call(ECHO, SECRET, 2, ONCE);
    group.run_ms(5);
    assert_eq!(*group.outcome(1), Err(CallError::NoWorker));
    assert_eq!(*group.outcome(2), Err(CallError::NoWorker));
    assert_eq!(group.client.stats().event_loop.seals_broken, 0);
}

#[test]
fn rt30_calls_go_on_while_epochs_change() {
    let mut group = sealed(2);
    let mut tag = 0;
    for number in 4..40 {
        for _ in 0..4 {
            tag += 1;
            group.call(ECHO, SECRET, tag, if tag % 2 == 0 { WHOLE } else { ONCE });
        }
        group.call(ECHO, &long(), tag + 1000, ONCE);
        group.run(3);
        for at in 0..2 {
            group.begin_at_worker(at, number).expect("it is the next one");
        }
        group.run(2);
        group.begin_at_client(number).expect("it is the next one");
        group.run(3);
    }
    group.run_ms(500);
    for tag in 1..=tag {
        assert_eq!(*group.outcome(tag), Ok(SECRET.to_vec()), "{tag}");
    }
    assert_eq!(group.client.stats().event_loop.seals_broken, 0);
    // What was told out of order is refused, and changes nothing.
    assert!(matches!(group.begin_at_client(39), Err(GroupError::Epoch)));
    assert!(matches!(group.begin_at_worker(0, 38), Err(GroupError::Epoch)));
    group.call(ECHO, SECRET, 5000, WHOLE);
    group.run_ms(5);
    assert_eq!(*group.outcome(5000), Ok(SECRET.to_vec()));
    group.assert_quiet();
}

#[test]
fn rt30_what_runs_is_answered_after_its_epoch_and_new_requests_of_it_are_not_taken() {
    let mut group = sealed(1);
    group.call(HOLD, SECRET, 1, ONCE);
    group.call(HOLD, SECRET, 2, WHOLE);
    group.run_ms(10);
    for number in [4, 5, 6] {
        group.begin_at_worker(0, number).expect("it is the next one");
    }
    // The client has not heard: its first packets name an epoch that is over.
    group.call(ECHO, SECRET, 3, WHOLE);
    group.run_ms(10);
    assert!(!group.is_over(3));
    assert!(group.members[0].endpoint.stats().event_loop.without_keys > 0);
    for number in [4, 5, 6] {
        group.begin_at_client(number).expect("it is the next one");
    }
    group.client.end_group_epoch(group.session);
    answer_held(&mut group.members[0]);
    group.run_ms(1000);
    assert_eq!(*group.outcome(1), Ok(SECRET.to_vec()));
    assert_eq!(*group.outcome(2), Ok(SECRET.to_vec()));
    assert_eq!(*group.outcome(3), Ok(SECRET.to_vec()), "its repetition names the new one");
    assert_eq!(group.handled(), 3);
}

#[test]
fn rt29_first_packets_of_a_client_that_was_not_told_of_are_not_opened() {
    let mut group = sealed(1);
    let id = group.members[0].id;
    group.members[0].endpoint.remove_group_client(id, 5);
    group.call(ECHO, SECRET, 1, WHOLE);
    group.run_ms(10);
    assert!(!group.is_over(1));
    assert_eq!(group.handled(), 0);
    assert!(group.members[0].endpoint.stats().event_loop.without_keys > 0);
    group.members[0].endpoint.set_group_client(id, 5, None).expect("there is room");
    group.run_ms(1000);
    assert_eq!(*group.outcome(1), Ok(SECRET.to_vec()));
}

#[test]
fn rt34_a_worker_that_joins_anew_goes_on_with_its_rows_of_numbers() {
    let mut group = sealed(1);
    for tag in 0..20 {
        group.call(ECHO, SECRET, tag, if tag % 2 == 0 { WHOLE } else { ONCE });
        group.run_ms(5);
        // Its connection broke, and the same router's process has granted it again.
        group.join_again(0, 3, 1).expect("it is known there");
        assert_eq!(*group.outcome(tag), Ok(SECRET.to_vec()), "{tag}");
    }
    // With fresh rows the client would have taken all that for replays.
    assert_eq!(group.client.stats().event_loop.seals_replayed, 0);
    // Another process has other secrets: the same epoch of it is another one.
    group.join_again(0, 3, 2).expect("it is new");
    group.call(ECHO, SECRET, 100, WHOLE);
    group.run_ms(5);
    assert!(group.client.stats().event_loop.seals_replayed > 0, "the client has not heard");
}

/// Answers what a worker's handlers have kept.
fn answer_held(member: &mut Member) {
    for (handle, bytes) in std::mem::take(&mut member.endpoint.state_mut().held) {
        member.endpoint.context().respond_with(handle, &bytes);
    }
}
