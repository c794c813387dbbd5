//! What strangers, and packets that are not as they were sent, do to calls to a group.

use std::time::Duration;

use petasos_base::Rng;
use petasos_endpoint::{CallError, CallSettings};
use petasos_wire::{Header, Kind, Packet, WorkerBlock};

use crate::grouped::*;
use crate::joined::*;

/// RT10: index, tag and request have to be the pair's, and the worker's number its own.
#[test]
fn forged_answers_are_dropped() {
    let mut group = Grouped::new(2);
    group.call(HOLD, b"hello", 1, WHOLE);
    group.run(1);
    let (index, tag) = (1 << 19, 0);
    let block = WorkerBlock { session: 1 << 19, tag: 1, worker: 1 };
    let header =
        Header::for_session(index, tag).with_request(Kind::Response, 0, 0).with_server(1, 4, 0);
    let forged = |header: Header, block: WorkerBlock| {
        [&header.to_bytes()[..], &block.to_bytes(), b"evil"].concat()
    };
    // A guessed tag; a pair that never was; a truncated block; a worker that nobody knows.
    group.deliver_to_client(&forged(header, block));
    group.deliver_to_client(&forged(Header::for_session(index + 7, tag), block));
    group.deliver_to_client(&header.to_bytes());
    group.deliver_to_client(&forged(header, WorkerBlock { worker: 999, ..block }));
    group.run_ms(1);
    assert!(!group.is_over(1));
    let stats = group.client.stats();
    assert_eq!(stats.event_loop.malformed_block, 1, "the one without a block");
    assert!(stats.pairs.stale + stats.event_loop.wrong_origin >= 2);
}

/// RT16, RT26: only the router that was told index and tag is heard, and only for clients of which
/// it has told.
#[test]
fn first_packets_of_strangers_are_dropped_or_rejected() {
    let mut group = Grouped::new(1);
    let id = group.members[0].id;
    group.members[0].endpoint.remove_group_client(id, 5);
    group.call(ECHO, b"who", 1, WHOLE);
    group.run_ms(3);
    assert_eq!(*group.outcome(1), Err(CallError::Again), "it may have been told meanwhile");
    group.members[0].endpoint.set_group_client(id, 5, None).expect("there is room");
    group.call(ECHO, b"me", 2, WHOLE);
    group.run_ms(3);
    assert_eq!(*group.outcome(2), Ok(b"me".to_vec()));
    group.members[0].tag ^= 1;
    group.call(ECHO, b"forged", 3, WHOLE);
    group.run_ms(3);
    assert!(!group.is_over(3));
    assert!(group.members[0].endpoint.stats().event_loop.unknown_session > 0);
    group.members[0].tag ^= 1;
    // The forged ones were never seen: they are holes in the router's numbers.
    group.run_ms(100);
    assert_eq!(*group.outcome(3), Ok(b"forged".to_vec()));
    assert_eq!(group.handled(), 2);
    group.assert_quiet();
    // Another epoch than was told.
    group.begin_at_worker(0, 4).expect("it is the next one");
    group.members[0].endpoint.end_membership_epoch(id).expect("it is there");
    group.call(ECHO, b"old", 4, ONCE);
    group.run_ms(3);
    assert_eq!(*group.outcome(4), Err(CallError::Again));
    // The client is told as well.
    group.begin_at_client(4).expect("it is the next one");
    group.call(ECHO, b"new", 5, ONCE);
    group.run_ms(3);
    assert_eq!(*group.outcome(5), Ok(b"new".to_vec()));
}

/// A response is of another request than the one that its packets in the queue are of, although
/// both have the same place, and may have the same number.
#[test]
fn a_place_that_is_used_again_gives_nobody_anothers_response() {
    let mut group = Grouped::new(1);
    group.call(LONG, &50_000u32.to_le_bytes(), 1, ONCE);
    group.run_ms(1);
    group.hub.block(true);
    group.run_ms(20);
    group.client.close_session(group.session);
    group.hub.block(false);
    group.run_ms(3_000);
    assert_eq!(*group.outcome(1), Err(CallError::SessionClosed));
    let worker = &mut group.members[0].endpoint;
    assert_eq!(worker.unfinished(), (0, 0));
    assert_eq!(worker.memory().pool.lent_bytes, 0, "no buffer is left");
}

/// Whatever bytes arrive: nothing panics, calls end, and no memory is lost.
#[test]
fn altered_copies_of_packets_do_no_harm() {
    for seed in 0..20 {
        let mut group = Grouped::new(2);
        let mut rng = Rng::new(seed);
        for tag in 0..30 {
            let routing = if tag % 2 == 0 { WHOLE } else { ONCE };
            let bytes = [0, 8, 1025, 9_000][tag as usize % 4];
            let settings =
                CallSettings { timeout: Some(Duration::from_secs(1)), ..CallSettings::default() };
            group.call_with(ECHO, &pattern(bytes), tag, routing, &settings);
            group.run_altered(2, &mut rng);
        }
        group.run_altered(50, &mut rng);
        group.run_ms(6_000);
        assert_eq!(group.client.state().outcomes.len(), 30, "seed {seed}: each ends once");
        assert_eq!(group.client.unfinished(), (0, 0), "seed {seed}");
        assert_eq!(group.client.memory().pool.lent_bytes, 0, "seed {seed}");
        for member in &group.members {
            assert_eq!(member.endpoint.unfinished(), (0, 0), "seed {seed}");
            assert_eq!(member.endpoint.memory().pool.lent_bytes, 0, "seed {seed}");
            assert_eq!(member.endpoint.stats().event_loop.panics, 0, "seed {seed}");
        }
        assert_eq!(group.client.stats().event_loop.panics, 0, "seed {seed}");
    }
}

/// First packets with a wrong index or tag settle nothing and run nothing, whichever bit is wrong.
#[test]
fn first_packets_without_the_names_that_the_router_was_told_settle_nothing() {
    let mut group = Grouped::new(1);
    group.call(ECHO, b"real", 1, WHOLE);
    let mut first = None;
    group.run_seen(1, |to_worker, bytes| {
        if to_worker && first.is_none() {
            first = Some(bytes.to_vec());
        }
    });
    assert_eq!(*group.outcome(1), Ok(b"real".to_vec()));
    let first = first.expect("it was given");
    let before = group.members[0].endpoint.stats().given;
    // The first word: 16 bits of form, then index and tag. The given number is new.
    for bit in 16..64 {
        let mut forged = first.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        forged[16] += 1;
        group.deliver_to_worker(0, &forged);
        group.run(1);
    }
    assert_eq!(group.handled(), 1);
    assert_eq!(group.members[0].endpoint.stats().given, before);
    assert_eq!(group.members[0].endpoint.stats().event_loop.unknown_session, 48);
    // The same number again, and one that is far ahead.
    group.deliver_to_worker(0, &first);
    let mut far = first.clone();
    far[17] = 0xff;
    far[18] |= 0x0f;
    group.deliver_to_worker(0, &far);
    group.run(1);
    assert_eq!(group.handled(), 1);
    assert_eq!(group.members[0].endpoint.stats().given.old, 2);
    group.assert_quiet();
}

/// What a claim was taken for is what runs, whatever its confirmation says.
#[test]
fn rt31_a_confirmation_cannot_name_another_method() {
    let mut group = Grouped::new(1);
    group.call(ECHO, b"echo", 1, ONCE);
    let mut forged = 0;
    for _ in 0..40 {
        group.run_damaged(|_, bytes, deliver| {
            let packet = Packet::parse(bytes).expect("it is one");
            if packet.kind() == Kind::Request {
                // Before the client's own, and otherwise as that is.
                let header = Header::for_session(packet.session(), packet.tag())
                    .with_request(Kind::Request, packet.request(), packet.transmission())
                    .with_client(0, packet.message_bytes(), HOLD);
                deliver(&[&header.to_bytes()[..], packet.payload()].concat());
                forged += 1;
            }
        });
    }
    assert_eq!(forged, 1);
    assert_eq!(*group.outcome(1), Ok(b"echo".to_vec()));
    assert_eq!(group.handled(), 1);
    assert!(group.members[0].endpoint.state().held.is_empty(), "nobody has claimed that one");
}
