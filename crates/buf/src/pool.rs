//! Free lists of message buffers by size class.
//!
//! Classes are powers of two from 128 bytes. A pool belongs to one thread. It bounds what it
//! *keeps*, so that one burst of large messages does not hold memory for ever, and what it has
//! *lent out*, so that a hostile peer cannot make the process allocate without end. It does not
//! keep long buffers, which travel between threads, but takes them from the store of the whole
//! process ([`crate::take_spare`]).

use crate::{MsgBuf, SPARE_BYTES_MIN, spare};

/// Smallest class: a header, a small payload and little waste.
const CLASS_BITS_MIN: u32 = 7;
/// Largest class: 2^28 bytes, the wire protocol's limit on a message.
const CLASS_BITS_MAX: u32 = 28;
const CLASS_COUNT: usize = (CLASS_BITS_MAX - CLASS_BITS_MIN + 1) as usize;

/// Limits of a [`Pool`].
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Bytes of free buffers that the pool keeps for later; it returns more to the system. Buffers
    /// of 16 KiB to 64 MiB are kept for the whole process and do not count
    /// ([`crate::SPARE_KEPT_BYTES_MAX`]).
    pub kept_bytes_max: usize,
    /// Bytes of buffers lent out at one time.
    pub lent_bytes_max: usize,
    /// Whether free buffers are kept at all. False only for measuring what pooling saves.
    pub reuse: bool,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig { kept_bytes_max: 256 << 20, lent_bytes_max: 4 << 30, reuse: true }
    }
}

/// Why a pool gave no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolError {
    /// The message is larger than any class (2^28 bytes).
    TooLarge,
    /// Too many bytes are lent out. Some may come back, so a retry makes sense.
    Exhausted,
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes of capacity lent out now.
    pub lent_bytes: usize,
    /// Bytes of capacity kept free.
    pub kept_bytes: usize,
    /// Buffers allocated from the system so far.
    pub allocations: u64,
}

/// Free lists of [`MsgBuf`]s by size class.
pub struct Pool {
    free: [Vec<MsgBuf>; CLASS_COUNT],
    config: PoolConfig,
    stats: PoolStats,
}

impl Pool {
    /// An empty pool.
    pub fn new(config: PoolConfig) -> Pool {
        Pool { free: [const { Vec::new() }; CLASS_COUNT], config, stats: PoolStats::default() }
    }

    /// A buffer of length `len`; its contents are unspecified (but initialised) bytes.
    ///
    /// # Errors
    /// See [`PoolError`].
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<MsgBuf, PoolError> {
        let class = class_of(len);
        let lendable_bytes = self.lendable_bytes();
        if let Some(free) = self.free.get_mut(class)
            && let Some(mut buf) = free.pop_if(|buf| buf.capacity() <= lendable_bytes)
        {
            self.stats.kept_bytes -= buf.capacity();
            self.stats.lent_bytes += buf.capacity();
            buf.set_len(len);
            return Ok(buf);
        }
        self.allocate(class, len)
    }

    #[cold]
    fn allocate(&mut self, class: usize, len: usize) -> Result<MsgBuf, PoolError> {
        if class >= CLASS_COUNT {
            return Err(PoolError::TooLarge);
        }
        let capacity = 1usize << (class as u32 + CLASS_BITS_MIN);
        if self.stats.lent_bytes + capacity > self.config.lent_bytes_max {
            return Err(PoolError::Exhausted);
        }
        self.stats.lent_bytes += capacity;
        let spare = if self.config.reuse { spare::take_kept(capacity) } else { None };
        let mut buf = spare.unwrap_or_else(|| {
            self.stats.allocations += 1;
            MsgBuf::with_capacity(capacity)
        });
        buf.set_len(len);
        Ok(buf)
    }

    /// Stops counting a lent buffer: its holder keeps it and will not give it back.
    #[inline]
    pub fn part_with(&mut self, buf: &MsgBuf) {
        self.stats.lent_bytes = self.stats.lent_bytes.saturating_sub(buf.room());
    }

    /// Counts a buffer as lent although the pool did not lend it, because it will be given to the
    /// pool.
    #[inline]
    pub fn take_over(&mut self, buf: &MsgBuf) {
        self.stats.lent_bytes += buf.room();
    }

    /// Takes a buffer back. The pool also accepts a buffer that it did not allocate, if it fits a
    /// class.
    #[inline]
    pub fn give(&mut self, mut buf: MsgBuf) {
        if buf.is_changed() {
            buf.rewind();
        }
        let capacity = buf.capacity();
        self.stats.lent_bytes = self.stats.lent_bytes.saturating_sub(capacity);
        if capacity >= SPARE_BYTES_MIN && spare::keeps(capacity) {
            return self.give_long(buf);
        }
        let class = class_of(capacity);
        let fits = class < CLASS_COUNT && capacity == 1 << (class as u32 + CLASS_BITS_MIN);
        let room = self.stats.kept_bytes + capacity <= self.config.kept_bytes_max;
        if fits && room && self.config.reuse {
            self.stats.kept_bytes += capacity;
            self.free[class].push(buf);
        }
    }

    #[cold]
    fn give_long(&mut self, buf: MsgBuf) {
        if self.config.reuse {
            spare::give_spare(buf);
        }
    }

    /// How many bytes a buffer of length `len` counts while it is lent.
    #[inline]
    pub fn lent_for(len: usize) -> usize {
        len.max(1 << CLASS_BITS_MIN).checked_next_power_of_two().unwrap_or(usize::MAX)
    }

    /// Bytes that may still be lent.
    #[inline]
    pub fn lendable_bytes(&self) -> usize {
        self.config.lent_bytes_max.saturating_sub(self.stats.lent_bytes)
    }

    /// What the pool holds now.
    pub fn stats(&self) -> PoolStats {
        self.stats
    }
}

/// Index of the smallest class that holds `len` bytes; beyond the last class for a larger `len`.
#[inline]
fn class_of(len: usize) -> usize {
    let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
    bits.saturating_sub(CLASS_BITS_MIN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        for len in [0, 1, 127, 128, 129, 256, 257, 1 << 20, (1 << 20) + 1, 1 << 28] {
            let capacity = 1usize << (class_of(len) as u32 + CLASS_BITS_MIN);
            assert!(capacity >= len && (capacity == 128 || capacity / 2 < len), "{len}");
            assert_eq!(Pool::lent_for(len), capacity);
        }
    }

    #[test]
    fn a_buffer_given_back_is_lent_again() {
        let mut pool = Pool::new(PoolConfig::default());
        let buf = pool.take(100).unwrap();
        pool.give(buf);
        let again = pool.take(90).unwrap();
        assert_eq!((again.len(), pool.stats().allocations), (90, 1));
        pool.give(again);
        assert_eq!(pool.stats().lent_bytes, 0);
    }

    #[test]
    fn limits_hold() {
        let limits = PoolConfig { kept_bytes_max: 128, lent_bytes_max: 512, reuse: true };
        let mut pool = Pool::new(limits);
        let first = pool.take(256).unwrap();
        let second = pool.take(256).unwrap();
        assert_eq!(pool.take(1).unwrap_err(), PoolError::Exhausted);
        assert_eq!(pool.take(usize::MAX).unwrap_err(), PoolError::TooLarge);
        pool.give(first);
        pool.give(second);
        assert_eq!(pool.stats().kept_bytes, 0);
        assert_eq!(pool.stats().lent_bytes, 0);
    }

    #[test]
    fn kept_buffers_are_not_lent_beyond_the_limit() {
        let limits = PoolConfig { lent_bytes_max: 512, ..PoolConfig::default() };
        let mut pool = Pool::new(limits);
        let large = pool.take(512).unwrap();
        pool.give(large);
        let small = pool.take(128).unwrap();
        assert_eq!(pool.take(512).unwrap_err(), PoolError::Exhausted);
        pool.give(small);
        assert_eq!(pool.take(512).unwrap().capacity(), 512);
        assert_eq!(pool.stats().allocations, 2);
    }

    #[test]
    fn a_buffer_that_was_parted_with_is_not_lent_any_more() {
        let limits = PoolConfig { lent_bytes_max: 512, ..PoolConfig::default() };
        let mut pool = Pool::new(limits);
        let buf = pool.take(500).unwrap();
        pool.part_with(&buf);
        assert_eq!(pool.stats().lent_bytes, 0);
        let other = pool.take(500).unwrap();
        pool.give(buf);
        assert_eq!(pool.stats().kept_bytes, 512, "it is as welcome as any");
        pool.give(other);
    }

    #[test]
    fn a_foreign_buffer_does_no_harm() {
        let mut pool = Pool::new(PoolConfig::default());
        pool.give(MsgBuf::new(100));
        assert_eq!(pool.stats().kept_bytes, 0);
    }
}
