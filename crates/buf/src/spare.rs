//! A store of unused long buffers, for the whole process.
//!
//! Memory of 16 KiB and more costs more to allocate than to fill: the system maps, zeroes and
//! unmaps its pages one by one. So code that no longer needs a long buffer leaves it here, and code
//! that needs one asks here first: endpoints' pools for receiving, messages for being built.
//! Buffers of both kinds may end up on any thread, hence one store for all, with a lock that is
//! held for a few instructions per long message.
//!
//! Invariants: the kept buffers have at most [`SPARE_KEPT_BYTES_MAX`] bytes of capacity in all, and
//! the capacity of each is a power of two of at least [`SPARE_BYTES_MIN`]; `kept_bytes` is the sum.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::MsgBuf;
use crate::layout::SPARE_BYTES_MIN;
use crate::memory;

/// The most bytes of capacity that the process keeps in unused buffers.
pub const SPARE_KEPT_BYTES_MAX: usize = 256 << 20;

const CLASS_BITS_MIN: u32 = SPARE_BYTES_MIN.trailing_zeros();
/// The longest buffers that are kept: a quarter of the total.
const CLASS_BITS_MAX: u32 = SPARE_KEPT_BYTES_MAX.trailing_zeros() - 2;
const CLASS_COUNT: usize = (CLASS_BITS_MAX - CLASS_BITS_MIN + 1) as usize;

const _: () = assert!(SPARE_BYTES_MIN.is_power_of_two() && SPARE_KEPT_BYTES_MAX.is_power_of_two());

static SPARE: Mutex<Spare> = Mutex::new(Spare::new());

fn spare() -> MutexGuard<'static, Spare> {
    // No code that could panic runs under the lock.
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffer of length `len` with unspecified contents: an unused one, or a new one whose capacity
/// is the next power of two, at least [`SPARE_BYTES_MIN`].
///
/// # Panics
/// If `len` does not fit 32 bits.
pub fn take_spare(len: usize) -> MsgBuf {
    let capacity = len.max(SPARE_BYTES_MIN).next_power_of_two();
    // A length above the limit of messages is passed on as it is, and may panic there.
    let capacity = if u32::try_from(capacity).is_ok() { capacity } else { len };
    let mut buf = take_kept(capacity).unwrap_or_else(|| MsgBuf::with_capacity(capacity));
    buf.set_len(len);
    buf
}

/// An unused buffer of exactly this capacity. Its length may be any.
pub(crate) fn take_kept(capacity: usize) -> Option<MsgBuf> {
    let buf = spare().take(class_of(capacity)?)?;
    memory::allocated(buf.capacity());
    Some(buf)
}

/// Leaves a buffer for the next user. It is freed if it is short, if enough are kept, or if its
/// capacity is not one that others ask for.
pub fn give_spare(mut buf: MsgBuf) {
    buf.rewind();
    if let Some(class) = class_of(buf.capacity()) {
        memory::freed(buf.capacity());
        let surplus = spare().give(class, buf);
        surplus.iter().for_each(|buf| memory::allocated(buf.capacity()));
        // Outside of the lock.
        drop(surplus);
    }
}

impl MsgBuf {
    /// Makes the whole message the buffer's own data: copies data and tail into another buffer.
    pub fn flatten(&mut self) {
        if self.has_tail() {
            let mut whole = take_spare(self.len());
            self.copy_range(0, whole.as_mut_slice());
            *self = whole;
        }
    }
}

/// Whether buffers of this capacity are kept.
pub(crate) fn keeps(capacity: usize) -> bool {
    class_of(capacity).is_some()
}

/// The class of buffers of this capacity, if they are kept.
fn class_of(capacity: usize) -> Option<usize> {
    let class = capacity.trailing_zeros().checked_sub(CLASS_BITS_MIN)? as usize;
    (capacity.is_power_of_two() && class < CLASS_COUNT).then_some(class)
}

fn bytes_of(class: usize) -> usize {
    SPARE_BYTES_MIN << class
}

struct Spare {
    free: [Vec<MsgBuf>; CLASS_COUNT],
    kept_bytes: usize,
}

impl Spare {
    const fn new() -> Spare {
        Spare { free: [const { Vec::new() }; CLASS_COUNT], kept_bytes: 0 }
    }

    fn take(&mut self, class: usize) -> Option<MsgBuf> {
        let buf = self.free[class].pop()?;
        self.kept_bytes -= bytes_of(class);
        Some(buf)
    }

    /// Keeps a buffer. Returns buffers for which there is no room any more, from the class with the
    /// most bytes, so that lengths that are no longer used make room for those that are.
    fn give(&mut self, class: usize, buf: MsgBuf) -> Vec<MsgBuf> {
        let mut surplus = Vec::new();
        self.free[class].push(buf);
        self.kept_bytes += bytes_of(class);
        while self.kept_bytes > SPARE_KEPT_BYTES_MAX {
            let most = (0..CLASS_COUNT).max_by_key(|class| self.class_bytes(*class));
            surplus.extend(most.and_then(|class| self.take(class)));
        }
        surplus
    }

    fn class_bytes(&self, class: usize) -> usize {
        self.free[class].len() * bytes_of(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_buffer_is_used_again() {
        let mut spare = Spare::new();
        let mut buf = MsgBuf::new(1 << 20);
        let at = buf.data_ptr();
        let class = class_of(1 << 20).unwrap();
        assert!(spare.give(class, buf).is_empty());
        assert!(spare.take(class - 1).is_none() && spare.take(class + 1).is_none());
        assert_eq!(spare.take(class).unwrap().data_ptr(), at);
        assert_eq!(spare.kept_bytes, 0);
    }

    #[test]
    fn what_is_kept_is_bounded_and_follows_what_is_used() {
        let mut spare = Spare::new();
        let (short, long) = (class_of(4 << 20).unwrap(), class_of(64 << 20).unwrap());
        let freed: usize =
            (0..100).map(|_| spare.give(short, MsgBuf::with_capacity(4 << 20)).len()).sum();
        assert_eq!((spare.kept_bytes, freed), (SPARE_KEPT_BYTES_MAX, 36));
        assert_eq!(spare.give(long, MsgBuf::with_capacity(64 << 20)).len(), 16);
        assert_eq!(spare.kept_bytes, SPARE_KEPT_BYTES_MAX);
        assert!(spare.take(long).is_some(), "it was not itself what had to go");
    }

    #[test]
    fn only_capacities_that_are_asked_for_are_kept() {
        assert_eq!(class_of(SPARE_BYTES_MIN), Some(0));
        for capacity in [0, 512, SPARE_BYTES_MIN / 2, SPARE_BYTES_MIN + 8, 128 << 20, 1 << 31] {
            assert_eq!(class_of(capacity), None, "{capacity}");
        }
    }

    #[test]
    fn any_length_is_given_with_the_room_of_its_class() {
        for (len, capacity) in [(0, SPARE_BYTES_MIN), (SPARE_BYTES_MIN + 1, 32 << 10)] {
            let buf = take_spare(len);
            assert_eq!((buf.len(), buf.capacity()), (len, capacity));
            give_spare(buf);
        }
    }
}
