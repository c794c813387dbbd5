//! Records from one producer to one consumer.
//!
//! # Layout and publication
//!
//! Records take *slots* in order. A slot's header names the lap in which it was written, so the
//! slot itself shows whether it is ready: one cache line carries the header and the contents of a
//! short record. The contents of a longer record are in the *data* part, contiguous. Both sides
//! compute their place in the same way: after the previous record, or at the start if the end is
//! too near.
//!
//! The producer writes a train of records and holds back the header of the first. One store
//! publishes them all, since the consumer reads headers in order. The consumer copies records out
//! and reports with one store how many slots it has consumed.
//!
//! Order (each acquire with its release):
//!
//! - [`Producer::publish`] stores the first header with release; [`Consumer::pop`] loads headers
//!   with acquire. Later headers of the train are relaxed: a consumer that sees the first sees
//!   them.
//! - [`Consumer::release`] stores the consumed count with release, after its copies; the producer
//!   loads it with acquire before it overwrites slots or data.
//!
//! # Sleeping
//!
//! The consumer announces that it sleeps, then checks for records once more ([`Consumer::doze`]).
//! The producer publishes, then checks whether the consumer sleeps ([`Producer::must_wake`]). On
//! both sides a sequentially consistent fence separates the two steps, so at least one side sees
//! the other, and no wake-up is lost. [`Producer::seems_asleep`] checks without the fence, for the
//! usual case that the consumer went to sleep long ago; its users have to call `must_wake` before
//! they stop polling. How the consumer is woken is up to the caller.
//!
//! # Who may touch what
//!
//! The producer writes slots and data, and clears the consumer's flag. The consumer writes the
//! count and its flag. Each side keeps private its own position and the last checked value of the
//! other's.

use core::fmt;

mod consumer;
mod producer;

pub use consumer::{Consumer, Pop};
pub use producer::{Producer, PushError};

use crate::shape::INLINE_BYTES_MAX;

const HEADER_BYTES: usize = 8;
const _: () = assert!(HEADER_BYTES + INLINE_BYTES_MAX == crate::shape::LINE_BYTES);

/// One process's ends of a region's two rings.
#[derive(Debug)]
pub struct Ends {
    /// The end for sending.
    pub producer: Producer,
    /// The end for receiving.
    pub consumer: Consumer,
}

/// The other process has written what no honest process writes. The ring is unusable for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the other process has violated the ring's rules")
    }
}

impl std::error::Error for Broken {}

/// The lengths of a record: a run of frames of equal length, except that the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Bytes of all frames: 1 to the ring's `record_bytes_max`.
    pub len: usize,
    /// Bytes of each frame, except that the last may be shorter: 1 to `len`.
    pub segment_bytes: usize,
}

/// A slot's header: lap (16 bits) | bytes of a frame (24) | bytes of the record (24). Laps start
/// at 1, so that fresh memory announces nothing.
#[derive(Clone, Copy)]
struct Header(u64);

const LEN_BITS: u32 = 24;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;

impl Header {
    fn new(lap: u16, record: Record) -> Header {
        let (len, segment_bytes) = (record.len as u64, record.segment_bytes as u64);
        Header(u64::from(lap) << (2 * LEN_BITS) | segment_bytes << LEN_BITS | len)
    }

    fn lap(self) -> u16 {
        (self.0 >> (2 * LEN_BITS)) as u16
    }

    /// The record, if it fits a ring whose longest record has `len_max` bytes.
    fn record(self, len_max: usize) -> Option<Record> {
        let len = (self.0 & LEN_MASK) as usize;
        let segment_bytes = (self.0 >> LEN_BITS & LEN_MASK) as usize;
        let possible = len <= len_max && (1..=len).contains(&segment_bytes);
        possible.then_some(Record { len, segment_bytes })
    }
}

/// A position in a ring: the number of a slot, and how many bytes of data precede it, both counted
/// from the ring's start. Both sides advance it by the same computation.
#[derive(Clone, Copy, Debug)]
struct Position {
    slot: u64,
    data: u64,
    /// One less than the number of slots, a power of two.
    slot_mask: u64,
    /// Its logarithm.
    slot_bits: u32,
    data_bytes: u64,
}

impl Position {
    fn start(shape: crate::RingShape) -> Position {
        Position {
            slot: 0,
            data: 0,
            slot_mask: u64::from(shape.slots) - 1,
            slot_bits: shape.slots.trailing_zeros(),
            data_bytes: u64::from(shape.data_bytes),
        }
    }

    /// Where slot `number` lies in the ring.
    #[inline]
    fn slot_at(&self) -> usize {
        crate::shape::SLOTS_AT + (self.slot & self.slot_mask) as usize * crate::shape::LINE_BYTES
    }

    /// The lap of the present slot, in 16 bits. Only adjacent laps have to differ.
    #[inline]
    fn lap(&self) -> u16 {
        ((self.slot >> self.slot_bits) as u16).wrapping_add(1)
    }

    /// Where the contents of a record of `len` bytes go, as an offset in the data part, and how
    /// many bytes of data precede the next record.
    #[inline]
    fn place(&self, len: usize) -> (usize, u64) {
        let bytes = (len as u64).next_multiple_of(crate::shape::LINE_BYTES as u64);
        let offset = self.data & (self.data_bytes - 1);
        if offset + bytes <= self.data_bytes {
            return (offset as usize, self.data + bytes);
        }
        (0, self.data + (self.data_bytes - offset) + bytes)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
