//! The log of a cache: a ring, in which what was written the longest ago goes first (K3, K11).

use crate::memory::Memory;
use crate::slot::{LAPS, PLACE_BITS, Slot};

/// Each bucket is looked at once in so many laps, so that no stale slot is left when the numbers of
/// laps come again.
const SWEEP_LAPS: u64 = LAPS / 2;

/// Where the ring's next item begins, and in which lap. What the owner announces to readers is its
/// bits ([`Memory::mark`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End(u64);

impl End {
    pub fn from_bits(bits: u64) -> End {
        End(bits)
    }

    fn new(lap: u64, place: usize) -> End {
        End(lap << PLACE_BITS | place as u64)
    }

    fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    pub fn lap(self) -> u64 {
        self.0 >> PLACE_BITS
    }

    /// Laps that have begun since the slot's item was written, modulo [`LAPS`].
    fn laps_since(self, slot: Slot) -> u64 {
        self.lap().wrapping_sub(slot.lap()) % LAPS
    }

    /// Whether the slot's item has not been overwritten.
    #[inline]
    pub fn is_live(self, slot: Slot) -> bool {
        match self.laps_since(slot) {
            0 => slot.place() < self.place(),
            1 => slot.place() >= self.place(),
            _ => false,
        }
    }
}

/// The owner's view of the ring.
#[derive(Debug)]
pub(crate) struct Ring {
    words: usize,
    end: End,
    /// The bucket that is swept next, and what has been paid for it.
    swept_next: usize,
    paid: u64,
}

impl Ring {
    pub fn new(words: usize) -> Ring {
        Ring { words, end: End::new(0, 0), swept_next: 0, paid: 0 }
    }

    pub fn end(&self) -> End {
        self.end
    }

    /// Takes a place for so many words, at most the ring's, and says so to readers.
    pub fn take(&mut self, memory: &Memory, words: usize) -> usize {
        assert!(words <= self.words, "the longest item fits");
        let begins_lap = self.end.place() + words > self.words;
        let (lap, at) = match begins_lap {
            true => (self.end.lap() + 1, 0),
            false => (self.end.lap(), self.end.place()),
        };
        self.end = End::new(lap, at + words);
        memory.set_mark(self.end.0);
        at
    }

    /// How many words were written since the slot's item, at most.
    pub fn age_words(&self, slot: Slot) -> usize {
        match self.end.laps_since(slot) {
            0 => self.end.place() - slot.place(),
            _ => self.end.place() + self.words - slot.place(),
        }
    }

    /// K3: less than a quarter of the log is left before it goes.
    #[inline]
    pub fn is_old(&self, slot: Slot) -> bool {
        self.age_words(slot) > self.words - self.words / 4
    }

    /// The buckets that are to be swept, since so many words were written, of so many buckets.
    pub fn due_sweeps(
        &mut self,
        words: usize,
        buckets: usize,
    ) -> impl Iterator<Item = usize> + use<> {
        let price = SWEEP_LAPS * self.words as u64;
        self.paid += words as u64 * buckets as u64;
        let (first, count) = (self.swept_next, (self.paid / price) as usize);
        self.paid %= price;
        self.swept_next = (first + count) % buckets;
        (first..first + count.min(buckets)).map(move |bucket| bucket % buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(lap: u64, place: usize) -> Slot {
        Slot::new(place, lap, 0)
    }

    #[test]
    fn k11_an_item_is_live_until_the_end_has_passed_it() {
        let end = End::new(70, 100);
        assert!(end.is_live(slot(70, 0)) && end.is_live(slot(70, 99)));
        assert!(!end.is_live(slot(70, 100)), "that would be in the future, or 64 laps old");
        assert!(end.is_live(slot(69, 100)) && end.is_live(slot(69, 5000)));
        assert!(!end.is_live(slot(69, 99)) && !end.is_live(slot(68, 5000)));
    }

    #[test]
    fn k3_the_last_quarter_is_old() {
        let ring = Ring { words: 1000, end: End::new(9, 300), swept_next: 0, paid: 0 };
        assert_eq!([slot(9, 0), slot(8, 301)].map(|slot| ring.age_words(slot)), [300, 999]);
        assert!(!ring.is_old(slot(9, 0)) && !ring.is_old(slot(8, 550)));
        assert!(ring.is_old(slot(8, 549)) && ring.is_old(slot(8, 300)));
    }

    #[test]
    fn every_bucket_is_swept_within_half_of_the_laps() {
        let mut ring = Ring::new(1000);
        let mut swept = [0; 77];
        // Seven words at a time, for 64 laps of the ring: twice.
        for _ in 0..64 * 1000 / 7 + 1 {
            ring.due_sweeps(7, 77).for_each(|bucket| swept[bucket] += 1);
        }
        assert!(swept.iter().all(|times| *times == 2), "{swept:?}");
    }
}
