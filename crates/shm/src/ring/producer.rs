//! The end that writes records.

use petasos_base::sync::{Ordering, fence};

use super::{Broken, HEADER_BYTES, Header, INLINE_BYTES_MAX, Position, Record};
use crate::shape::{ASLEEP_AT, CONSUMED_AT};
use crate::{Memory, RingShape};

/// Why a record was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The consumer has not made room yet: try again later.
    Full,
    /// The record is empty, longer than the ring's longest, or cut into frames of impossible
    /// length. The caller's fault; a retry fails again.
    Length,
    /// The consumer's fault: see [`Broken`].
    Broken,
}

/// The writing end of a ring. The consumer sees what was [pushed](Producer::push) once it is
/// [published](Producer::publish).
#[derive(Debug)]
pub struct Producer {
    memory: Memory,
    shape: RingShape,
    data_at: usize,
    /// The position of the next record.
    next: Position,
    /// The slots before this one are published: `consumed..=next.slot`.
    published: u64,
    /// The first unpublished slot's place, and its header.
    held_back: Option<(usize, u64)>,
    /// How many slots the consumer is known to have consumed: at most `published`.
    consumed: u64,
    /// Bytes of data that it is known to have consumed.
    data_consumed: u64,
    /// For each slot, how many bytes of data precede the next record.
    data_ends: Box<[u64]>,
    broken: bool,
}

impl Producer {
    pub(crate) fn new(memory: Memory, shape: RingShape) -> Producer {
        Producer {
            memory,
            shape,
            data_at: shape.data_at(),
            next: Position::start(shape),
            published: 0,
            held_back: None,
            consumed: 0,
            data_consumed: 0,
            data_ends: vec![0; shape.slots as usize].into_boxed_slice(),
            broken: false,
        }
    }

    /// Writes a record of frames of `segment_bytes` each (the last may be shorter): `head`, then
    /// `body`. Nobody sees it before [`Producer::publish`].
    ///
    /// # Errors
    /// See [`PushError`]. Then nothing was written.
    #[inline]
    pub fn push(
        &mut self,
        head: &[u8],
        body: &[u8],
        segment_bytes: usize,
    ) -> Result<(), PushError> {
        let len = head.len() + body.len();
        if len > self.shape.record_bytes_max as usize || !(1..=len).contains(&segment_bytes) {
            return Err(PushError::Length);
        }
        let slot_at = self.next.slot_at();
        let (at, data_end) = if len <= INLINE_BYTES_MAX {
            (slot_at + HEADER_BYTES, self.next.data)
        } else {
            let (offset, end) = self.next.place(len);
            (self.data_at + offset, end)
        };
        if !self.has_room(data_end) {
            self.look_for_room(data_end)?;
        }
        self.memory.copy_in(at, head);
        self.memory.copy_in(at + head.len(), body);
        self.data_ends[(self.next.slot & self.next.slot_mask) as usize] = data_end;
        self.announce(slot_at, Header::new(self.next.lap(), Record { len, segment_bytes }));
        self.next.slot += 1;
        self.next.data = data_end;
        Ok(())
    }

    /// Makes all records pushed so far visible to the consumer.
    #[inline]
    pub fn publish(&mut self) {
        if let Some((at, header)) = self.held_back.take() {
            // Release: pairs with the consumer's acquire loads of headers.
            self.memory.word(at).store(header, Ordering::Release);
            self.published = self.next.slot;
        }
    }

    /// Whether the consumer has to be woken for the published records. It counts as awake
    /// afterwards, so if this returns `true`, the caller must wake it.
    #[must_use]
    pub fn must_wake(&mut self) -> bool {
        // Pairs with the fence in `Consumer::doze`.
        fence(Ordering::SeqCst);
        self.seems_asleep()
    }

    /// Like [`Producer::must_wake`] without the fence. It misses a consumer that is just falling
    /// asleep.
    #[inline]
    #[must_use]
    pub fn seems_asleep(&mut self) -> bool {
        let asleep = self.memory.word(ASLEEP_AT);
        // Relaxed: the fences order this load, and the wake-up itself orders what follows.
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0
    }

    /// The longest record that fits, in bytes.
    pub fn record_bytes_max(&self) -> usize {
        self.shape.record_bytes_max as usize
    }

    #[inline]
    fn announce(&mut self, slot_at: usize, header: Header) {
        match self.held_back {
            None => self.held_back = Some((slot_at, header.0)),
            // Relaxed: the consumer reads this header only after the one that is held back.
            Some(_) => self.memory.word(slot_at).store(header.0, Ordering::Relaxed),
        }
    }

    #[inline]
    fn has_room(&self, data_end: u64) -> bool {
        let slots = self.next.slot - self.consumed;
        slots < u64::from(self.shape.slots) && data_end - self.data_consumed <= self.next.data_bytes
    }

    #[cold]
    fn look_for_room(&mut self, data_end: u64) -> Result<(), PushError> {
        self.refresh().map_err(|Broken| PushError::Broken)?;
        if self.has_room(data_end) { Ok(()) } else { Err(PushError::Full) }
    }

    /// Reads how far the consumer says it has come, if that is possible.
    pub(super) fn refresh(&mut self) -> Result<(), Broken> {
        // Acquire: pairs with `Consumer::release`; its copies are done.
        let consumed = self.memory.word(CONSUMED_AT).load(Ordering::Acquire);
        self.broken |= !(self.consumed..=self.published).contains(&consumed);
        if self.broken {
            return Err(Broken);
        }
        if consumed > self.consumed {
            let last = (consumed - 1) & self.next.slot_mask;
            self.data_consumed = self.data_ends[last as usize];
            self.consumed = consumed;
        }
        Ok(())
    }
}
