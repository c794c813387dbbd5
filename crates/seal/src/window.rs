//! The replay window (W31): RFC 4303's window of received numbers, as a ring of words that is never
//! shifted (RFC 6479).
//!
//! Invariant: bit `n % 64` of word `n / 64 % WORDS` says whether `n` was seen, for numbers from
//! `next - WIDTH` on. It is clear for numbers from `next` to the end of its word.

/// Words of a window of so many numbers, a multiple of 64: one more than they fill, because the
/// window's ends may be within words.
pub(crate) const fn words(width: u64) -> usize {
    assert!(width.is_multiple_of(64), "a window has whole words");
    (width / 64) as usize + 1
}

/// A window that has [`words`] of some width.
#[derive(Clone, Debug)]
pub(crate) struct Window<const WORDS: usize> {
    seen: [u64; WORDS],
    /// The highest seen number plus one; 0 if there is none.
    next: u64,
}

impl<const WORDS: usize> Window<WORDS> {
    /// Numbers of which it knows whether they were seen.
    const WIDTH: u64 = (WORDS as u64 - 1) * 64;

    pub(crate) fn new() -> Window<WORDS> {
        Window { seen: [0; WORDS], next: 0 }
    }

    /// The highest seen number plus one.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether `number` was not seen, and is not too old to know.
    #[inline]
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.next || self.is_within(number) && !self.is_marked(number)
    }

    /// Whether `number` was seen, and is not too old to know.
    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.next && self.is_within(number) && self.is_marked(number)
    }

    /// Records a new number.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) {
        debug_assert!(self.is_new(number));
        if number >= self.next {
            self.advance(number);
        }
        self.seen[Window::<WORDS>::word(number)] |= bit(number);
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
    fn is_within(&self, number: u64) -> bool {
        number + Window::<WORDS>::WIDTH >= self.next
    }

    #[inline]
    fn is_marked(&self, number: u64) -> bool {
        self.seen[Window::<WORDS>::word(number)] & bit(number) != 0
    }

    fn word(number: u64) -> usize {
        (number / 64 % WORDS as u64) as usize
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use proptest::test_runner::TestCaseResult;

    use super::*;

    /// Compares with a set of all numbers ever seen.
    fn is_as_a_set<const WORDS: usize>(steps: &[i64]) -> TestCaseResult {
        let width = (WORDS as u64 - 1) * 64;
        let (mut seen, mut highest) = (HashSet::new(), None::<u64>);
        let mut window = Window::<WORDS>::new();
        for step in steps {
            let number = highest.unwrap_or(0).saturating_add_signed(*step);
            let recent = highest.is_none_or(|highest| number + width > highest);
            let expected = recent && !seen.contains(&number);
            prop_assert_eq!(window.is_new(number), expected, "{} of {:?}", number, highest);
            prop_assert_eq!(window.has(number), recent && seen.contains(&number));
            if expected {
                window.insert(number);
                seen.insert(number);
                highest = highest.max(Some(number));
            }
            prop_assert_eq!(window.next(), highest.map_or(0, |highest| highest + 1));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn w31_rt27_a_number_is_new_once_within_the_window(
            steps in prop::collection::vec(
                prop_oneof![8 => -200i64..200, 2 => -5000i64..5000, 1 => -20_000i64..20_000,
                    1 => 0i64..1 << 40], 1..400),
        ) {
            is_as_a_set::<{ words(64) }>(&steps)?;
            is_as_a_set::<{ words(4096) }>(&steps)?;
            is_as_a_set::<{ words(16_384) }>(&steps)?;
        }
    }

    #[test]
    fn w31_the_window_has_a_definite_width() {
        let mut window = Window::<{ words(4096) }>::new();
        window.insert(10_000);
        assert!(window.is_new(10_001 - 4096) && !window.is_new(10_000 - 4096));
        assert!(!window.is_new(10_000));
    }
}
