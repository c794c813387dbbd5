//! Peers that send anything in any order: nothing panics, nothing grows, everything is answered.

use petasos_base::Rng;

use super::super::*;
use super::applications::Blob;
use crate::{Codec, Encoding, Metadata, Status};

const BYTES_MAX: usize = 1 << 20;

fn messages(rng: &mut Rng) -> Messages<Blob> {
    let mut messages = Messages::new();
    for _ in 0..rng.below(3) {
        let body = Blob { stream: 1, index: 0, bytes: rng.below(100_000) as usize };
        messages.push(Message { encoding: Encoding::None, codec: Codec::IDENTITY, body });
    }
    messages
}

#[test]
fn r13_r15_r17_a_server_bears_any_caller() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let mut server = ServerStream::<Blob, u64>::new(BYTES_MAX);
        let (mut number, mut answered) = (0u16, 0);
        let count = 40;
        for handle in 0..count {
            let wrong = rng.chance(0.05);
            let segment = CallerSegment {
                stream: 1,
                number: if wrong { number.wrapping_sub(rng.below(4) as u16) } else { number },
                receive: rng.chance(0.5),
                under_way: rng.below(16) as u8,
                open: (number == 0 || rng.chance(0.02)).then(Open::default),
                messages: messages(&mut rng),
                close: rng.chance(0.02),
                reset: rng.chance(0.01),
            };
            number = number.wrapping_add(1);
            // Whether it was against the rules is not asked: the stream ends if it was.
            let _malformed = server.handle_exchange(segment, handle);
            assert!(server.held_bytes() <= FLOW_BYTES_MAX + WIDE_BYTES_MAX, "seed {seed}");
            while rng.chance(0.5) && server.poll_event().is_some() {}
            if rng.chance(0.1) && server.can_send() {
                server.head(Metadata::new());
                messages(&mut rng).into_iter().for_each(|message| server.send(message));
            }
            answered += std::iter::from_fn(|| server.poll_answer()).count() as u64;
        }
        server.abort(Status::ok());
        answered += std::iter::from_fn(|| server.poll_answer()).count() as u64;
        assert_eq!(answered, count, "seed {seed}: every exchange is answered once");
    }
}

#[test]
fn r13_r15_r17_a_caller_bears_any_server() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let mut caller = CallerStream::new(1, Open::default(), BYTES_MAX);
        let mut number = 0u16;
        for _ in 0..40 {
            while caller.poll_exchange(rng.below(20) as u32).is_some() {}
            let segment = ServerSegment {
                number: if rng.chance(0.05) { rng.below(4) as u16 } else { number },
                send: rng.chance(0.5),
                more: rng.chance(0.5),
                ended: rng.chance(0.02),
                head: rng.chance(0.05).then(Metadata::new),
                messages: messages(&mut rng),
                end: rng.chance(0.02).then(Status::ok),
            };
            number = number.wrapping_add(1);
            let _malformed = caller.handle_answer(segment);
            assert!(caller.held_bytes() <= FLOW_BYTES_MAX + WIDE_BYTES_MAX, "seed {seed}");
            while rng.chance(0.7) && caller.poll_event().is_some() {}
        }
        caller.reset(Status::cancelled(""));
        let left: Vec<_> = std::iter::from_fn(|| caller.poll_event()).collect();
        assert!(left.len() <= 1, "seed {seed}: an end, and no message after a reset");
        assert!(left.iter().all(|event| matches!(event, CallerEvent::End(_))));
    }
}

/// It keeps to the rules, but for how many exchanges it says were under way.
#[test]
fn r15_r17_a_server_bears_a_caller_that_lies_in_numbers_only() {
    let mut held_max = 0;
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let mut server = ServerStream::<Blob, u16>::new(BYTES_MAX);
        let (mut answered, mut sent) = (0, Vec::new());
        let reads = [0.0, 0.3, 0.9][rng.below(3) as usize];
        for _ in 0..200 {
            let free = (answered..answered + WIDTH_MAX).filter(|number| !sent.contains(number));
            let Some(number) = free.min_by_key(|number| (rng.below(4), *number)) else { break };
            let under_way = if rng.chance(0.8) { 15 } else { (number - answered) as u8 };
            let receive = rng.chance(0.5);
            let mut segment = CallerSegment::bare(1, number, receive);
            (segment.under_way, segment.open) = (under_way, (number == 0).then(Open::default));
            if rng.chance(0.5) {
                segment.messages = messages(&mut rng);
            }
            sent.push(number);
            let taken = server.handle_exchange(segment, number);
            held_max = held_max.max(server.held_bytes());
            assert!(server.held_bytes() <= FLOW_BYTES_MAX + WIDE_BYTES_MAX, "seed {seed}");
            while rng.chance(reads) && server.poll_event().is_some() {}
            if rng.chance(0.3) && server.can_send() {
                messages(&mut rng).into_iter().for_each(|message| server.send(message));
            }
            if rng.chance(0.1) {
                server.release_spare();
            }
            answered += std::iter::from_fn(|| server.poll_answer()).count() as u16;
            if taken.is_err() {
                break;
            }
        }
        server.handle_abandoned(|_| false);
        answered += std::iter::from_fn(|| server.poll_answer()).count() as u16;
        assert_eq!(usize::from(answered), sent.len(), "seed {seed}: each is answered once");
        assert!(server.is_over());
    }
    assert!(held_max > WIDE_BYTES_MAX, "it had the chance: {held_max}");
}
