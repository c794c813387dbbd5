//! The memory of a partition: buckets and a log, all of it words that are read and written one at
//! a time (K13).
//!
//! One thread writes, the partition's owner; its loads and stores are plain ones on today's
//! processors. Readers of other threads are data races nowhere, and validate what they have read
//! (`reader`). The order that they rely on:
//!
//! - a change of a bucket lies between [`Memory::begin_change`] and [`Memory::end_change`];
//! - an entry is written before a slot leads to it ([`Memory::set_slot`] releases it);
//! - [`Memory::mark`] changes before a place of the log is written that slots may have led to.

use petasos_base::prefetch;
use petasos_base::sync::{AtomicU64, Ordering, fence};

use crate::sizes::Sizes;
use crate::slot::Slot;

/// Slots of a bucket.
pub(crate) const SLOTS: usize = 7;
/// In word 0 of a bucket: it is locked (K15).
const LOCKED: u64 = 1;
/// One change, begun or ended, of word 0: the version is in the other 63 bits.
const CHANGE: u64 = 2;

/// A bucket: lock and version, and seven slots (K10).
#[repr(align(64))]
struct Line([AtomicU64; 1 + SLOTS]);

const _: () = assert!(size_of::<Line>() == 64 || cfg!(loom));

/// What the owner writes, and readers read.
pub(crate) struct Memory {
    /// Main buckets, then overflow buckets.
    lines: Box<[Line]>,
    log: Box<[AtomicU64]>,
    /// Of a cache: where the log ends. Of a store: how often a segment was begun.
    mark: AtomicU64,
}

/// The lock and the version of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketState(u64);

impl BucketState {
    /// K5: how often keys of the bucket have changed.
    pub fn version(self) -> u64 {
        self.0 >> 1
    }

    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether the owner is changing the bucket.
    pub fn is_changing(self) -> bool {
        self.0 & CHANGE != 0
    }
}

/// A bucket's slots, each of which is read when it is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'m>(&'m Line);

impl<'m> Bucket<'m> {
    #[inline]
    pub fn slot(self, slot: usize) -> Slot {
        Slot::from_bits(self.0.0[1 + slot].load(Ordering::Acquire))
    }

    #[inline]
    pub fn slots(self) -> impl Iterator<Item = Slot> + use<'m> {
        (0..SLOTS).map(move |slot| self.slot(slot))
    }

    /// Which slots have this tag: a bit for each. Without branches, which nobody could predict.
    #[inline]
    fn tagged(self, tag: u16) -> u32 {
        (0..SLOTS).fold(0, |bits, slot| bits | u32::from(self.slot(slot).has_tag(tag)) << slot)
    }

    /// Slots with this tag, and their numbers.
    #[inline]
    pub fn with_tag(self, tag: u16) -> impl Iterator<Item = (usize, Slot)> + use<'m> {
        let mut bits = self.tagged(tag);
        core::iter::from_fn(move || {
            let slot = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some((slot, self.slot(slot)))
        })
    }

    /// The next one of its chain.
    #[inline]
    pub fn next(self) -> Option<usize> {
        self.slot(SLOTS - 1).linked()
    }
}

impl Memory {
    pub fn new(sizes: &Sizes) -> Memory {
        let words = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect();
        let line = |_| Line(core::array::from_fn(|_| AtomicU64::new(0)));
        let lines = (0..u64::from(sizes.buckets) + u64::from(sizes.overflow)).map(line).collect();
        Memory { lines, log: words(sizes.log_words), mark: AtomicU64::new(0) }
    }

    /// Words of the log.
    #[inline]
    pub fn log_words(&self) -> usize {
        self.log.len()
    }

    /// Buckets of both kinds.
    #[inline]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        self.log[at].load(Ordering::Relaxed)
    }

    /// Copies bytes of the log, from a word on.
    #[inline]
    pub fn copy_out(&self, at: usize, to: &mut [u8]) {
        let words = &self.log[at..at + to.len().div_ceil(8)];
        let (whole, rest) = to.as_chunks_mut::<8>();
        let (first, last) = words.split_at(whole.len());
        for (chunk, word) in whole.iter_mut().zip(first) {
            *chunk = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if let [last] = last {
            let last = last.load(Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Whether these bytes, padded with zeros, are there.
    #[inline]
    pub fn has_bytes(&self, at: usize, bytes: &[u8]) -> bool {
        let words = &self.log[at..at + bytes.len().div_ceil(8)];
        let (whole, rest) = bytes.as_chunks::<8>();
        let (first, last) = words.split_at(whole.len());
        let is = |word: &AtomicU64, bytes: u64| word.load(Ordering::Relaxed) == bytes;
        let is_begun =
            whole.iter().zip(first).all(|(chunk, word)| is(word, u64::from_le_bytes(*chunk)));
        is_begun && last.first().is_none_or(|last| is(last, padded(rest)))
    }

    #[inline]
    pub fn set_word(&self, at: usize, word: u64) {
        self.log[at].store(word, Ordering::Relaxed);
    }

    /// Copies words to a place that begins before them, or apart from them.
    pub fn copy_words(&self, from: usize, to: usize, count: usize) {
        assert!(to <= from || from + count <= to, "it copies from the front");
        let [from, to] = [from, to].map(|at| &self.log[at..at + count]);
        for (from, to) in from.iter().zip(to) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn slot(&self, line: usize, slot: usize) -> Slot {
        self.bucket(line).slot(slot)
    }

    /// A bucket, for reading.
    #[inline]
    pub fn bucket(&self, line: usize) -> Bucket<'_> {
        Bucket(&self.lines[line])
    }

    #[inline]
    pub fn set_slot(&self, line: usize, slot: usize, to: Slot) {
        self.lines[line].0[1 + slot].store(to.bits(), Ordering::Release);
    }

    #[inline]
    pub fn state(&self, line: usize) -> BucketState {
        BucketState(self.lines[line].0[0].load(Ordering::Acquire))
    }

    /// The owner begins to change a bucket: its version is odd from now on.
    #[inline]
    pub fn begin_change(&self, line: usize) {
        self.count_change(line, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// It has changed the bucket: the version is even, and larger than before.
    #[inline]
    pub fn end_change(&self, line: usize) {
        self.count_change(line, Ordering::Release);
    }

    #[inline]
    fn count_change(&self, line: usize, order: Ordering) {
        let state = &self.lines[line].0[0];
        state.store(state.load(Ordering::Relaxed).wrapping_add(CHANGE), order);
    }

    pub fn set_locked(&self, line: usize, is_locked: bool) {
        let state = &self.lines[line].0[0];
        let bit = if is_locked { LOCKED } else { 0 };
        state.store(state.load(Ordering::Relaxed) & !LOCKED | bit, Ordering::Release);
    }

    /// See the module's documentation.
    #[inline]
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    /// A place that slots may have led to will be written. Who sees the mark sees that no slot
    /// leads there any more, and who sees what is written sees the mark.
    #[inline]
    pub fn set_mark(&self, mark: u64) {
        self.mark.store(mark, Ordering::Release);
        fence(Ordering::Release);
    }

    /// What a reader reads from now on is no older than what it has read before.
    #[inline]
    pub fn end_read(&self) {
        fence(Ordering::Acquire);
    }

    #[inline]
    pub fn prefetch_line(&self, line: usize) {
        prefetch(&self.lines[line]);
    }

    /// The lines of an item of up to 128 bytes.
    #[inline]
    pub fn prefetch_words(&self, at: usize) {
        if let Some(first) = self.log.get(at) {
            prefetch(first);
        }
        if let Some(later) = self.log.get(at + 8) {
            prefetch(later);
        }
    }
}

/// Up to seven bytes as a word.
#[inline]
pub(crate) fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl core::fmt::Debug for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (lines, words) = (self.lines.len(), self.log.len());
        f.debug_struct("Memory").field("lines", &lines).field("words", &words).finish()
    }
}
