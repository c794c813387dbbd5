//! Which packets of a multi-packet request have arrived.

use petasos_wire::BITMAP_WORDS_MAX;

use crate::spares::Reusable;

/// Invariant: `base` is the first packet that has not arrived, and `arrived` has bit `i` set
/// exactly if packet `i` has.
#[derive(Debug)]
pub(super) struct Assembly {
    total: u32,
    base: u32,
    /// One past the last packet that has arrived.
    end: u32,
    arrived: Vec<u64>,
}

impl Assembly {
    pub(super) fn new(total: u32) -> Assembly {
        let mut assembly = Assembly { total: 0, base: 0, end: 0, arrived: Vec::new() };
        assembly.reset(total);
        assembly
    }

    /// Starts over with another request, but keeps the memory.
    pub(super) fn reset(&mut self, total: u32) {
        (self.total, self.base, self.end) = (total, 0, 0);
        self.arrived.clear();
        self.arrived.resize(total.div_ceil(64) as usize, 0);
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn is_complete(&self) -> bool {
        self.base == self.total
    }

    /// Notes packet `index`; returns whether it is new.
    pub(super) fn insert(&mut self, index: u32) -> bool {
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        if self.arrived[word] & bit != 0 {
            return false;
        }
        self.arrived[word] |= bit;
        self.end = self.end.max(index + 1);
        self.advance();
        true
    }

    fn advance(&mut self) {
        while self.base < self.total {
            let ahead = self.arrived[self.base as usize / 64] >> (self.base % 64);
            let run = ahead.trailing_ones();
            self.base += run;
            if run == 0 || !self.base.is_multiple_of(64) {
                return;
            }
        }
    }

    /// Writes which packets from `base` on have arrived. Returns how many words are needed, up to
    /// the length of `bitmap`.
    pub(super) fn bitmap(&self, bitmap: &mut [u64; BITMAP_WORDS_MAX]) -> u32 {
        let words = (self.end.saturating_sub(self.base)).div_ceil(64) as usize;
        let words = words.min(BITMAP_WORDS_MAX);
        let (start, shift) = (self.base as usize / 64, self.base % 64);
        for (at, word) in bitmap[..words].iter_mut().enumerate() {
            let low = self.arrived.get(start + at).copied().unwrap_or(0) >> shift;
            let high = self.arrived.get(start + at + 1).copied().unwrap_or(0);
            *word = if shift == 0 { low } else { low | high << (64 - shift) };
        }
        words as u32
    }
}

/// Enough for requests of up to a megabyte in packets of 1 KiB. Takes 128 bytes.
const WORDS_KEPT_MAX: usize = 16;

impl Reusable for Assembly {
    fn is_small(&self) -> bool {
        self.arrived.capacity() <= WORDS_KEPT_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any order of arrival, with repetitions, matches a plain set.
        #[test]
        fn an_assembly_is_a_set(
            before in 1u32..3000, total in 1u32..3000,
            order in prop::collection::vec(any::<u32>(), 0..300), run in 0u32..200,
        ) {
            let mut assembly = Assembly::new(before);
            for index in 0..before {
                assembly.insert(index);
            }
            assembly.reset(total);
            let mut set = vec![false; total as usize];
            let arrivals = (0..run.min(total)).chain(order.iter().map(|index| index % total));
            for index in arrivals {
                prop_assert_eq!(assembly.insert(index), !set[index as usize]);
                set[index as usize] = true;
            }
            let base = set.iter().position(|arrived| !arrived).unwrap_or(set.len());
            prop_assert_eq!(assembly.base() as usize, base);
            prop_assert_eq!(assembly.is_complete(), base == set.len());
            let mut bitmap = [0; BITMAP_WORDS_MAX];
            let words = assembly.bitmap(&mut bitmap);
            for at in 0..words as usize * 64 {
                let told = bitmap[at / 64] >> (at % 64) & 1 == 1;
                prop_assert_eq!(told, set.get(base + at).copied().unwrap_or(false));
            }
            let told = base + words as usize * 64;
            if words < BITMAP_WORDS_MAX as u32 {
                prop_assert!(set.iter().skip(told).all(|arrived| !arrived));
            }
        }
    }
}
