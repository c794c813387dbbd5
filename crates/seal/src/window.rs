//! The replay window (W31): RFC 4303's window of received numbers, as a ring of words that is never
//! shifted (RFC 6479).
//!
//! Invariant: bit `n % 64` of word `n / 64 % WORDS` says whether `n` was seen, for numbers from
//! `next - WINDOW` on. It is clear for numbers from `next` to the end of its word.

/// The number of latest packet numbers that are tracked: more than can be in flight (W10).
pub(crate) const WINDOW: u64 = 4096;

/// One word more than the window, because its ends may be within words.
const WORDS: usize = (WINDOW / 64) as usize + 1;

const _: () = assert!(WINDOW > petasos_wire::CREDITS_MAX as u64);

#[derive(Clone, Debug)]
pub(crate) struct Window {
    seen: [u64; WORDS],
    /// The highest seen number plus one; 0 if there is none.
    next: u64,
}

impl Window {
    pub(crate) fn new() -> Window {
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
        if number >= self.next {
            return true;
        }
        number + WINDOW >= self.next && self.seen[word(number)] & bit(number) == 0
    }

    /// Records a new number.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) {
        debug_assert!(self.is_new(number));
        if number >= self.next {
            self.advance(number);
        }
        self.seen[word(number)] |= bit(number);
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
}

fn word(number: u64) -> usize {
    (number / 64 % WORDS as u64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a set of all numbers ever seen.
        #[test]
        fn w31_a_number_is_new_once_within_the_window(
            steps in prop::collection::vec(
                prop_oneof![8 => -200i64..200, 2 => -5000i64..5000, 1 => 0i64..1 << 40], 1..400),
        ) {
            let (mut window, mut seen, mut highest) = (Window::new(), HashSet::new(), None::<u64>);
            for step in steps {
                let number = highest.unwrap_or(0).saturating_add_signed(step);
                let recent = highest.is_none_or(|highest| number + WINDOW > highest);
                let expected = recent && !seen.contains(&number);
                prop_assert_eq!(window.is_new(number), expected, "{} of {:?}", number, highest);
                if expected {
                    window.insert(number);
                    seen.insert(number);
                    highest = highest.max(Some(number));
                }
                prop_assert_eq!(window.next(), highest.map_or(0, |highest| highest + 1));
            }
        }
    }

    #[test]
    fn w31_the_window_has_a_definite_width() {
        let mut window = Window::new();
        window.insert(10_000);
        assert!(window.is_new(10_001 - WINDOW) && !window.is_new(10_000 - WINDOW));
        assert!(!window.is_new(10_000));
    }
}
