//! The end that reads records.

use petasos_base::sync::{Ordering, fence};

use super::{Broken, HEADER_BYTES, Header, INLINE_BYTES_MAX, Position, Record};
use crate::shape::{ASLEEP_AT, CONSUMED_AT};
use crate::{Memory, RingShape};

/// What [`Consumer::pop`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pop {
    /// No record has been published.
    Empty,
    /// The next record has this many bytes, and `out` has fewer. The record stays.
    TooLong(usize),
    /// A record, which is now in `out`.
    Record(Record),
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Consumer {
    memory: Memory,
    data_at: usize,
    record_bytes_max: usize,
    /// The position of the next record.
    next: Position,
    /// How many slots the producer knows to be consumed: at most `next.slot`.
    released: u64,
    broken: bool,
}

impl Consumer {
    pub(crate) fn new(memory: Memory, shape: RingShape) -> Consumer {
        Consumer {
            memory,
            data_at: shape.data_at(),
            record_bytes_max: shape.record_bytes_max as usize,
            next: Position::start(shape),
            released: 0,
            broken: false,
        }
    }

    /// Copies the next record to the start of `out`, and may overwrite the rest of `out`. The
    /// record's place in the ring returns to the producer with the next [`Consumer::release`].
    ///
    /// # Errors
    /// See [`Broken`].
    #[inline]
    pub fn pop(&mut self, out: &mut [u8]) -> Result<Pop, Broken> {
        let Some(header) = self.ready() else { return Ok(Pop::Empty) };
        let Some(record) = header.record(self.record_bytes_max).filter(|_| !self.broken) else {
            self.broken = true;
            return Err(Broken);
        };
        if record.len > out.len() {
            return Ok(Pop::TooLong(record.len));
        }
        let inline_at = self.next.slot_at() + HEADER_BYTES;
        if record.len <= INLINE_BYTES_MAX {
            match out.first_chunk_mut() {
                // Copying the whole slot costs less than copying only the record.
                Some(out) => self.memory.copy_inline_out(inline_at, out),
                None => self.memory.copy_out(inline_at, &mut out[..record.len]),
            }
        } else {
            let out = &mut out[..record.len];
            let (offset, data_end) = self.next.place(record.len);
            self.memory.copy_out(self.data_at + offset, out);
            self.next.data = data_end;
        }
        self.next.slot += 1;
        Ok(Pop::Record(record))
    }

    /// Tells the producer that all popped records are consumed.
    #[inline]
    pub fn release(&mut self) {
        if self.released != self.next.slot {
            self.released = self.next.slot;
            // Release: pairs with the producer's acquire; the copies come before it.
            self.memory.word(CONSUMED_AT).store(self.released, Ordering::Release);
        }
    }

    /// Whether there is nothing to pop.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready().is_none()
    }

    /// Says that this side is about to sleep until it is woken. If this returns false, records have
    /// arrived and it must not sleep. After waking it calls [`Consumer::rise`].
    #[must_use]
    pub fn doze(&mut self) -> bool {
        // All changes of this word are read-modify-write operations, so they have one total order.
        self.memory.word(ASLEEP_AT).swap(1, Ordering::Relaxed);
        // Pairs with the fence in `Producer::must_wake`.
        fence(Ordering::SeqCst);
        let may = self.is_empty();
        if !may {
            self.rise();
        }
        may
    }

    /// Says that this side is awake.
    pub fn rise(&mut self) {
        self.memory.word(ASLEEP_AT).swap(0, Ordering::Relaxed);
    }

    /// The longest record that the ring carries, in bytes.
    pub fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// The next slot's header, if it was written in this lap.
    #[inline]
    fn ready(&self) -> Option<Header> {
        // Acquire: pairs with `Producer::publish`.
        let header = Header(self.memory.word(self.next.slot_at()).load(Ordering::Acquire));
        (header.lap() == self.next.lap()).then_some(header)
    }
}
