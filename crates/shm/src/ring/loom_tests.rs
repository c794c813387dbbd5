//! The orders of publication, of reuse, and of falling asleep, under the model checker.

use loom::sync::{Arc, Notify};
use loom::thread;

use super::*;
use crate::{Memory, RingShape};

/// Small enough that both slots and data are reused within three records.
const SHAPE: RingShape = RingShape { slots: 2, data_bytes: 128, record_bytes_max: 64 };

fn ring() -> (Producer, Consumer) {
    let [producer, consumer] = Memory::pair(SHAPE.data_at() + SHAPE.data_bytes as usize);
    (Producer::new(producer, SHAPE), Consumer::new(consumer, SHAPE))
}

fn push(producer: &mut Producer, bytes: &[u8]) {
    loop {
        match producer.push(bytes, &[], bytes.len()) {
            Ok(()) => return,
            Err(PushError::Full) => thread::yield_now(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn expect(consumer: &mut Consumer, expected: &[u8]) {
    let mut out = [0; 64];
    loop {
        match consumer.pop(&mut out).expect("the producer is honest") {
            Pop::Record(record) => {
                assert_eq!(&out[..record.len], expected);
                return;
            }
            Pop::Empty => thread::yield_now(),
            Pop::TooLong(len) => panic!("nobody pushed {len} bytes"),
        }
    }
}

/// Short records reuse a slot, long ones a place in the data part, while the other side works.
fn carries(records: &'static [&'static [u8]], train: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let (mut producer, mut consumer) = ring();
        let sender = thread::spawn(move || {
            for train in records.chunks(train) {
                train.iter().for_each(|bytes| push(&mut producer, bytes));
                producer.publish();
            }
        });
        for bytes in records {
            expect(&mut consumer, bytes);
            consumer.release();
        }
        sender.join().expect("it ends");
    });
}

#[test]
fn ring_carries_short_records_one_by_one() {
    carries(&[&[1; 8], &[2; 8], &[3; 8]], 1);
}

#[test]
fn ring_carries_long_records_one_by_one() {
    carries(&[&[1; 64], &[2; 64], &[3; 64]], 1);
}

#[test]
fn ring_carries_trains() {
    carries(&[&[1; 8], &[2; 64], &[3; 64], &[4; 8]], 2);
}

/// A consumer that sleeps whenever it may ends in every order exactly if no wake-up is lost (the
/// checker reports a deadlock otherwise).
#[test]
fn ring_loses_no_wake_up() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring();
        let doorbell = Arc::new(Notify::new());
        let wake = doorbell.clone();
        let sender = thread::spawn(move || {
            for number in [1, 2] {
                push(&mut producer, &[number; 8]);
                producer.publish();
                if producer.must_wake() {
                    wake.notify();
                }
            }
        });
        for number in [1, 2] {
            while consumer.is_empty() {
                if consumer.doze() {
                    doorbell.wait();
                    consumer.rise();
                }
            }
            expect(&mut consumer, &[number; 8]);
            consumer.release();
        }
        sender.join().expect("it ends");
    });
}
