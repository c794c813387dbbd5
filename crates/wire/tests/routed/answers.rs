//! Worker blocks, readies and feedback: which packets have them, every cut, every bit.

use petasos_wire::{
    Feedback, GIVEN_NUMBERS, Header, Kind, Packet, Ready, SETTLED_NUMBERS, Void, WorkerBlock,
    WorkerCounts,
};

use super::flips;

const BLOCK: WorkerBlock = WorkerBlock { session: 0x8_0001, tag: 7, worker: 300 };

fn answer(kind: Kind, value: u32, block: WorkerBlock, payload: &[u8]) -> Vec<u8> {
    let header = Header::for_session(0x8_0009, 5).with_request(kind, 6, 7);
    [&header.with_server(8, value, 9).to_bytes()[..], &block.to_bytes(), payload].concat()
}

fn split(bytes: &[u8]) -> Result<(WorkerBlock, &[u8]), Void> {
    let packet = Packet::parse(bytes).expect("the header is one");
    WorkerBlock::split(packet).map(|(block, packet)| (block, packet.payload()))
}

fn ready(bytes: &[u8]) -> Result<Ready, Void> {
    Ready::of(Packet::parse(bytes).expect("the header is one"))
}

#[test]
fn rt7_first_responses_rejects_and_readies_have_a_worker_block() {
    for bits in 1..16 {
        let kind = Kind::from_bits(bits).unwrap();
        let bytes = answer(kind, 3, BLOCK, b"abc");
        let expected = match kind {
            Kind::Response | Kind::Reject | Kind::Ready => Ok((BLOCK, &b"abc"[..])),
            _ => Err(Void::Kind),
        };
        assert_eq!(split(&bytes), expected, "{kind:?}");
    }
    let mut later = answer(Kind::Response, 3, BLOCK, b"abc");
    later[1] |= 0x20;
    assert_eq!(split(&later), Err(Void::Kind));
}

#[test]
fn rt7_number_0_is_the_router_and_sends_rejects_of_nothing() {
    let router = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
    let named = WorkerBlock { worker: WorkerBlock::ROUTER, ..BLOCK };
    let nothing = WorkerBlock { worker: 1, ..router };
    for kind in [Kind::Response, Kind::Reject, Kind::Ready] {
        let is_reject = kind == Kind::Reject;
        assert_eq!(split(&answer(kind, 1, router, b"")).is_ok(), is_reject, "{kind:?}");
        assert_eq!(split(&answer(kind, 1, named, b"")), Err(Void::Worker));
        assert_eq!(split(&answer(kind, 1, nothing, b"")).map(|it| it.0), Ok(nothing));
    }
    assert!(!nothing.names_session() && BLOCK.names_session());
}

#[test]
fn rt7_rt9_every_cut_is_short() {
    for kind in [Kind::Response, Kind::Reject, Kind::Ready] {
        let bytes = answer(kind, 0, BLOCK, b"");
        for length in 24..bytes.len() {
            assert_eq!(split(&bytes[..length]), Err(Void::Short));
            let expected = if kind == Kind::Ready { Void::Short } else { Void::Kind };
            assert_eq!(ready(&bytes[..length]), Err(expected));
        }
    }
}

#[test]
fn rt9_a_ready_names_a_session_and_says_one_of_two_things() {
    let of = |value, block, payload: &[u8]| ready(&answer(Kind::Ready, value, block, payload));
    assert_eq!(of(0, BLOCK, b"").map(|ready| ready.is_running), Ok(false));
    assert_eq!(of(1, BLOCK, b"").map(|ready| (ready.is_running, ready.value())), Ok((true, 1)));
    assert_eq!(of(2, BLOCK, b""), Err(Void::Value));
    assert_eq!(of(0, BLOCK, b"x"), Err(Void::Long));
    let nothing = WorkerBlock { session: 0, tag: 0, ..BLOCK };
    assert_eq!(of(0, nothing, b""), Err(Void::Session));
    assert_eq!(of(0, WorkerBlock { worker: 0, ..BLOCK }, b""), Err(Void::Worker));
}

/// No bit of block and word 2 is ignored. Words 0 and 1 are the header's, and tested with it.
#[test]
fn rt7_rt9_every_bit_counts() {
    let bytes = answer(Kind::Ready, 1, BLOCK, b"");
    for (bit, flipped) in flips(&bytes).skip(16 * 8) {
        if let Ok(ready) = ready(&flipped) {
            let header = Header::for_session(0x8_0009, 5).with_request(Kind::Ready, 6, 7);
            let header = header.with_server(ready.echo, ready.value(), ready.credits);
            let again = [&header.to_bytes()[..], &ready.block.to_bytes()].concat();
            assert_eq!(again, flipped, "bit {bit}");
        }
    }
}

const FEEDBACK: Feedback = Feedback {
    session: 1,
    tag: 2,
    secret: 3,
    counts: WorkerCounts {
        sequence: 4,
        received: GIVEN_NUMBERS - 5,
        settled: SETTLED_NUMBERS - 6,
        bound: 4095,
    },
    failed: 9,
};

#[test]
fn every_bit_of_feedback_counts_and_it_has_no_other_length() {
    let bytes = FEEDBACK.to_bytes();
    let read = |bytes: &[u8]| Feedback::of(Packet::parse(bytes).ok()?).ok();
    assert_eq!(read(&bytes), Some(FEEDBACK));
    for (bit, flipped) in flips(&bytes) {
        let again = read(&flipped).map(Feedback::to_bytes);
        assert!(again.is_none_or(|again| again[..] == flipped), "bit {bit}");
        assert_eq!(again.is_some(), bit >= 16, "bit {bit}");
    }
    for length in 0..24 {
        assert_eq!(read(&bytes[..length]), None);
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(Feedback::of(Packet::parse(&longer).unwrap()), Err(Void::Long));
}
