//! A set of up to 4096 small numbers, in which members are found without looking at all of them.
//!
//! Invariants: a word's bit in `summary` is set if and only if the word is not zero; `len` is the
//! number of bits in all words. Nothing is allocated after [`Set::new`].

use petasos_base::Rng;

/// The most numbers that a set can distinguish: 64 words under one of summary.
pub(crate) const CAPACITY_MAX: usize = 64 * 64;
/// Draws before a dense set is searched in order. All of them miss with a probability below 0.02 %.
const DRAWS: u32 = 64;
/// Below this rank, members are passed one by one.
const FEW: u32 = 8;
/// A set is dense if at least one number in this many is a member.
const DENSE: usize = 8;

/// A set of numbers below its capacity.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    words: Box<[u64]>,
    summary: u64,
    len: u32,
}

impl Set {
    /// An empty set of numbers below `capacity`.
    ///
    /// # Panics
    /// If `capacity` is above [`CAPACITY_MAX`].
    pub(crate) fn new(capacity: usize) -> Set {
        assert!(capacity <= CAPACITY_MAX, "{capacity} numbers");
        Set { words: vec![0; capacity.div_ceil(64)].into(), summary: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] & (1 << (number % 64)) != 0
    }

    /// Adds a number that is not a member.
    #[inline]
    pub(crate) fn insert(&mut self, number: usize) {
        debug_assert!(!self.contains(number), "{number} is a member already");
        self.words[number / 64] |= 1 << (number % 64);
        self.summary |= 1 << (number / 64);
        self.len += 1;
    }

    /// Removes a member.
    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        debug_assert!(self.contains(number), "{number} is no member");
        let word = &mut self.words[number / 64];
        *word &= !(1 << (number % 64));
        self.summary &= !(u64::from(*word == 0) << (number / 64));
        self.len -= 1;
    }

    /// The lowest member.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        (self.summary != 0).then(|| self.first_of(self.summary.trailing_zeros() as usize))
    }

    /// The first member at or above `from`, or else the lowest.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let word = from / 64;
        let here = self.words.get(word).map_or(0, |bits| bits & (u64::MAX << (from % 64)));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let later = if word < 63 { self.summary & (u64::MAX << (word + 1)) } else { 0 };
        match later {
            0 => self.first(),
            later => Some(self.first_of(later.trailing_zeros() as usize)),
        }
    }

    /// A member, each with the same probability.
    #[inline]
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<usize> {
        match self.len {
            0 | 1 => self.first(),
            // In most groups all members are in one word.
            len if self.summary.is_power_of_two() => {
                let word = self.summary.trailing_zeros() as usize;
                let rank = rng.below(u64::from(len)) as u32;
                Some(word * 64 + nth_bit(self.words[word], rank))
            }
            _ => Some(self.random_of_many(rng)),
        }
    }

    fn random_of_many(&self, rng: &mut Rng) -> usize {
        let numbers = self.words.len() * 64;
        if self.len() * DENSE >= numbers {
            let mut drawn = (0..DRAWS).map(|_| rng.below(numbers as u64) as usize);
            if let Some(member) = drawn.find(|number| self.contains(*number)) {
                return member;
            }
        }
        self.nth(rng.below(u64::from(self.len)) as u32)
    }

    /// The member that is greater than `rank` others.
    fn nth(&self, mut rank: u32) -> usize {
        let mut summary = self.summary;
        loop {
            let word = summary.trailing_zeros() as usize;
            let count = self.words[word].count_ones();
            if rank < count {
                return word * 64 + nth_bit(self.words[word], rank);
            }
            rank -= count;
            summary &= summary - 1;
        }
    }

    fn first_of(&self, word: usize) -> usize {
        word * 64 + self.words[word].trailing_zeros() as usize
    }
}

/// The place of the set bit that has `rank` set bits below it.
#[inline]
fn nth_bit(mut word: u64, mut rank: u32) -> usize {
    let mut place = 0;
    // Counting takes a dozen instructions on the baseline processor, which cannot do it in one.
    for half in [32, 16] {
        if rank < FEW {
            break;
        }
        let below = (word & ((1 << half) - 1)).count_ones();
        if rank >= below {
            rank -= below;
            word >>= half;
            place += half;
        }
    }
    (0..rank).for_each(|_| word &= word - 1);
    place + word.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn compare(set: &Set, model: &BTreeSet<usize>, capacity: usize, rng: &mut Rng) {
        assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
        assert_eq!(set.first(), model.first().copied());
        let from = rng.below(capacity as u64) as usize;
        let next = model.range(from..).next().or(model.first()).copied();
        assert_eq!(set.next(from), next, "from {from}");
        assert_eq!(set.random(rng).is_some_and(|member| model.contains(&member)), !set.is_empty());
        for (rank, member) in model.iter().enumerate() {
            assert_eq!(set.nth(rank as u32), *member);
        }
    }

    #[test]
    fn it_is_like_an_ordered_set() {
        let mut rng = Rng::new(1);
        for capacity in [1, 16, 64, 65, 200, CAPACITY_MAX] {
            let (mut set, mut model) = (Set::new(capacity), BTreeSet::new());
            for _ in 0..300 {
                let number = rng.below(capacity as u64) as usize;
                if model.insert(number) {
                    set.insert(number);
                } else {
                    model.remove(&number);
                    set.remove(number);
                }
                assert_eq!(set.contains(number), model.contains(&number));
            }
            compare(&set, &model, capacity, &mut rng);
            model.iter().for_each(|member| set.remove(*member));
            compare(&set, &BTreeSet::new(), capacity, &mut rng);
        }
    }

    /// Each count is within 5 standard deviations of its mean.
    fn expect_even(set: &Set, members: &[usize]) {
        let mut rng = Rng::new(2);
        let each = 4000;
        let mut counts = std::collections::HashMap::new();
        for _ in 0..each * members.len() {
            *counts.entry(set.random(&mut rng).expect("it has members")).or_insert(0i64) += 1;
        }
        assert_eq!(counts.len(), members.len());
        let off = (each as f64).sqrt() * 5.0;
        assert!(
            counts.values().all(|count| ((count - each as i64) as f64).abs() < off),
            "{counts:?}"
        );
    }

    #[test]
    fn members_are_drawn_evenly() {
        for (capacity, members) in [
            (16, vec![0, 1, 5, 15]),
            (4096, vec![0, 1, 64, 4000, 4095]),
            (128, (0..128).filter(|number| number % 3 == 0).collect()),
        ] {
            let mut set = Set::new(capacity);
            members.iter().for_each(|member| set.insert(*member));
            expect_even(&set, &members);
        }
    }
}
