//! A ring against a queue, and against a peer that writes whatever it likes.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::region::Region;
use crate::{Memory, RingShape, adopt, create};

const SHAPE: RingShape = RingShape { slots: 8, data_bytes: 4096, record_bytes_max: 2000 };

fn pair() -> [Ends; 2] {
    let (ours, file) = create(SHAPE).expect("the host has memory files");
    [ours, adopt(file.as_fd(), SHAPE).expect("it was just created")]
}

/// A record's bytes: they tell records and positions apart.
fn contents(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 13 + number * 101) as u8).collect()
}

fn pop(consumer: &mut Consumer) -> Option<(Vec<u8>, usize)> {
    let mut out = vec![0; SHAPE.record_bytes_max as usize];
    match consumer.pop(&mut out).expect("the producer is honest") {
        Pop::Record(record) => {
            out.truncate(record.len);
            Some((out, record.segment_bytes))
        }
        Pop::Empty => None,
        Pop::TooLong(len) => panic!("{len} bytes are longer than the ring takes"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { len: usize, split: usize, segment: usize },
    Publish,
    Pop,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1usize..=60, 1usize..=2000];
    let push = (len, 0usize..2000, 1usize..2000).prop_map(|(len, split, segment)| Step::Push {
        len,
        split: split % (len + 1),
        segment: 1 + segment % len,
    });
    prop_oneof![4 => push, 2 => Just(Step::Publish), 4 => Just(Step::Pop), 2 => Just(Step::Release)]
}

proptest! {
    #[test]
    fn is_a_bounded_queue(steps in prop::collection::vec(step(), 1..200)) {
        let [mut near, mut far] = pair();
        let (mut pushed, mut published) = (VecDeque::new(), VecDeque::new());
        let mut taken = 0;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push { len, split, segment } => {
                    let bytes = contents(number, len);
                    let (head, body) = bytes.split_at(split);
                    match near.producer.push(head, body, segment) {
                        Ok(()) => pushed.push_back((bytes, segment)),
                        Err(error) => {
                            prop_assert_eq!(error, PushError::Full);
                            // An empty ring takes any record.
                            prop_assert!(pushed.len() + published.len() + taken > 0);
                        }
                    }
                }
                Step::Publish => {
                    near.producer.publish();
                    published.append(&mut pushed);
                }
                Step::Pop => {
                    prop_assert_eq!(far.consumer.is_empty(), published.is_empty());
                    let popped = pop(&mut far.consumer);
                    taken += usize::from(popped.is_some());
                    prop_assert_eq!(popped, published.pop_front());
                }
                Step::Release => {
                    far.consumer.release();
                    taken = 0;
                }
            }
            prop_assert!(pushed.len() + published.len() + taken <= SHAPE.slots as usize);
        }
    }

    /// Whatever lies in the region, and however it changes between calls: both ends return, break
    /// at most, and stay within bounds (which the accesses themselves assert).
    #[test]
    fn survives_garbage(
        writes in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..300),
        plausible: bool,
        lens in prop::collection::vec(1usize..=2000, 1..50),
    ) {
        let (mut ours, file) = create(SHAPE).expect("the host has memory files");
        let region = Arc::new(Region::map_for_tests(file.as_fd(), SHAPE.region_bytes()));
        let hostile = Memory::new(region, 0, SHAPE.region_bytes());
        let mut out = vec![0; SHAPE.record_bytes_max as usize];
        let mut lens = lens.iter().cycle();
        for (number, (index, value)) in writes.into_iter().enumerate() {
            // Half of the runs aim at control words and headers, with values near honest ones.
            let (word, value) = if plausible {
                let targets = [0, 16, SHAPE.ring_bytes() / 8];
                let slots = (0..8).map(|slot| (SHAPE.ring_bytes() + 256 + slot * 64) / 8);
                let targets: Vec<_> = targets.into_iter().chain(slots).collect();
                (*index.get(&targets), value >> 3 & 0x0003_0007_ff00_07ff)
            } else {
                (index.index(SHAPE.region_bytes() / 8), value)
            };
            hostile.word(word * 8).store(value, petasos_base::sync::Ordering::Relaxed);
            let len = *lens.next().expect("it cycles");
            let _ = ours.producer.push(&contents(number, len), &[], len);
            ours.producer.publish();
            let _ = ours.producer.must_wake();
            if let Ok(Pop::Record(record)) = ours.consumer.pop(&mut out) {
                prop_assert!(record.len <= out.len() && record.segment_bytes <= record.len);
                prop_assert!(record.segment_bytes > 0);
            }
            ours.consumer.release();
            if ours.consumer.doze() {
                ours.consumer.rise();
            }
            let _ = ours.producer.refresh();
        }
    }
}

#[test]
fn a_train_is_unseen_until_it_is_published() {
    let [mut near, mut far] = pair();
    for number in 0..3 {
        near.producer.push(&contents(number, 40), &[], 40).expect("there is room");
        assert!(far.consumer.is_empty());
    }
    near.producer.publish();
    for number in 0..3 {
        assert_eq!(pop(&mut far.consumer), Some((contents(number, 40), 40)));
    }
    assert_eq!(pop(&mut far.consumer), None);
}

#[test]
fn room_returns_with_the_release_only() {
    let [mut near, mut far] = pair();
    for number in 0..SHAPE.slots as usize {
        near.producer.push(&contents(number, 8), &[], 8).expect("there is room");
    }
    near.producer.publish();
    assert_eq!(near.producer.push(&[1], &[], 1), Err(PushError::Full));
    assert!(pop(&mut far.consumer).is_some());
    assert_eq!(near.producer.push(&[1], &[], 1), Err(PushError::Full));
    far.consumer.release();
    assert_eq!(near.producer.push(&[1], &[], 1), Ok(()));
    assert_eq!(near.producer.push(&[1], &[], 1), Err(PushError::Full));
}

#[test]
fn laps_beyond_their_16_bits_still_differ() {
    let [mut near, mut far] = pair();
    for number in 0..(1 << 16) * SHAPE.slots as usize + 20 {
        near.producer.push(&number.to_le_bytes(), &[], 8).expect("there is room");
        near.producer.publish();
        let popped = pop(&mut far.consumer).expect("it was published");
        assert_eq!(popped.0, number.to_le_bytes());
        assert!(far.consumer.is_empty());
        far.consumer.release();
    }
}

#[test]
fn impossible_records_are_refused() {
    let [mut near, _far] = pair();
    let long = contents(0, 2001);
    for (bytes, segment) in [(&long[..], 2001), (&[], 0), (&[], 1), (&[1], 0), (&[1], 2)] {
        assert_eq!(near.producer.push(bytes, &[], segment), Err(PushError::Length));
    }
}

#[test]
fn a_record_stays_if_the_buffer_is_too_short() {
    let [mut near, mut far] = pair();
    near.producer.push(&contents(1, 90), &[], 30).expect("there is room");
    near.producer.publish();
    assert_eq!(far.consumer.pop(&mut [0; 89]), Ok(Pop::TooLong(90)));
    assert_eq!(pop(&mut far.consumer), Some((contents(1, 90), 30)));
}

#[test]
fn a_sleeper_is_woken_once() {
    let [mut near, mut far] = pair();
    assert!(!near.producer.must_wake() && far.consumer.doze());
    near.producer.push(&[1], &[], 1).expect("there is room");
    near.producer.publish();
    assert!(near.producer.must_wake() && !near.producer.must_wake());
    assert!(!far.consumer.doze(), "there is a record");
    assert!(!near.producer.must_wake());
}

#[test]
fn impossible_counts_and_lengths_break_a_ring_for_good() {
    let (mut ours, file) = create(SHAPE).expect("the host has memory files");
    let region = Arc::new(Region::map_for_tests(file.as_fd(), SHAPE.region_bytes()));
    let hostile = Memory::new(region, 0, SHAPE.region_bytes());
    let write = |at, value| hostile.word(at).store(value, petasos_base::sync::Ordering::Relaxed);
    write(0, 1);
    assert_eq!(ours.producer.refresh(), Err(Broken), "nothing was published");
    write(0, 0);
    assert_eq!(ours.producer.refresh(), Err(Broken));
    let first = SHAPE.ring_bytes() + 256;
    for record in [0, 1, 1 << 24, (3 << 24) | 2, (1 << 24) | 2001] {
        write(first, (1 << 48) | record);
        let mut consumer = Consumer::new(
            Memory::new(
                Arc::new(Region::map_for_tests(file.as_fd(), SHAPE.region_bytes())),
                SHAPE.ring_bytes(),
                SHAPE.ring_bytes(),
            ),
            SHAPE,
        );
        assert_eq!(consumer.pop(&mut [0; 2000]), Err(Broken), "header {record:x}");
        write(first, (1 << 48) | (8 << 24) | 8);
        assert_eq!(consumer.pop(&mut [0; 2000]), Err(Broken), "broken is broken");
    }
}
