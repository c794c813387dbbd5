//! The numbers that were seen lately: RFC 4303's window, as a ring of words that is never shifted
//! (RFC 6479).
//!
//! Invariant: bit `n % 64` of word `n / 64 % WORDS` says whether `n` was seen, for numbers from
//! `next - width` on. It is clear for numbers from `next` to the end of its word.

use core::ops::RangeInclusive;

/// Which numbers were seen, of the highest seen one and those shortly below it: as many as the
/// width, which is 64 less than what `WORDS` have bits, because its ends may be within words.
///
/// ```
/// use petasos_base::{Freshness, ReplayWindow, replay_words};
///
/// let mut window = ReplayWindow::<{ replay_words(1024) }>::new();
/// window.insert(5000);
/// assert_eq!(window.freshness(5000), Freshness::Seen);
/// assert_eq!(window.freshness(5000 - 1023), Freshness::New);
/// assert_eq!(window.freshness(5000 - 1024), Freshness::Below);
/// ```
#[derive(Clone, Debug)]
pub struct ReplayWindow<const WORDS: usize> {
    seen: [u64; WORDS],
    /// The highest seen number plus one; 0 if there is none.
    next: u64,
}

/// What a window knows of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It was not seen.
    New,
    /// It was seen.
    Seen,
    /// It is below the window: nobody knows.
    Below,
}

/// The words of a window of so many numbers.
///
/// # Panics
/// If that is not a multiple of 64.
pub const fn replay_words(width: usize) -> usize {
    assert!(width > 0 && width.is_multiple_of(64), "a width is a multiple of 64");
    width / 64 + 1
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    /// The highest numbers of which is known whether they were seen.
    pub const WIDTH: u64 = (WORDS as u64 - 1) * 64;

    /// A window that has seen nothing.
    pub const fn new() -> ReplayWindow<WORDS> {
        ReplayWindow { seen: [0; WORDS], next: 0 }
    }

    /// The highest seen number plus one; 0 if there is none.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What is known of `number`.
    #[inline]
    pub fn freshness(&self, number: u64) -> Freshness {
        if number >= self.next {
            return Freshness::New;
        }
        if self.next - number > Self::WIDTH {
            return Freshness::Below;
        }
        match self.seen[Self::word(number)] & bit(number) {
            0 => Freshness::New,
            _ => Freshness::Seen,
        }
    }

    /// Whether `number` was not seen, and is not too old to know.
    #[inline]
    pub fn is_new(&self, number: u64) -> bool {
        self.freshness(number) == Freshness::New
    }

    /// Records a new number, below the highest that there is.
    #[inline]
    pub fn insert(&mut self, number: u64) {
        debug_assert!(self.is_new(number) && number < u64::MAX);
        if number >= self.next {
            self.advance(number);
        }
        self.seen[Self::word(number)] |= bit(number);
    }

    /// Records all of `numbers` that the window has below the highest. Returns how many were new.
    pub fn insert_all(&mut self, numbers: RangeInclusive<u64>) -> u64 {
        let mut from = (*numbers.start()).max(self.next.saturating_sub(Self::WIDTH));
        let end = numbers.end().saturating_add(1).min(self.next);
        let mut new = 0;
        while from < end {
            let bits = (64 - from % 64).min(end - from);
            let mask = (u64::MAX >> (64 - bits)) << (from % 64);
            let word = &mut self.seen[Self::word(from)];
            new += u64::from((mask & !*word).count_ones());
            *word |= mask;
            from += bits;
        }
        new
    }

    /// Moves the window to `number`, the highest so far.
    #[inline]
    fn advance(&mut self, number: u64) {
        // Words up to that of the highest number are in use; none is before the first number.
        let from = self.next.div_ceil(64);
        let fresh = (number / 64 + 1).saturating_sub(from).min(WORDS as u64);
        for word in number / 64 + 1 - fresh..=number / 64 {
            self.seen[(word % WORDS as u64) as usize] = 0;
        }
        self.next = number + 1;
    }

    #[inline]
    fn word(number: u64) -> usize {
        (number / 64 % WORDS as u64) as usize
    }
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> ReplayWindow<WORDS> {
        ReplayWindow::new()
    }
}

#[inline]
fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
#[path = "replay_window_tests.rs"]
mod tests;
