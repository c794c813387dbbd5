//! What has numbers of its own.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;

/// What has numbers, and the number that is given next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<K> {
    /// In any order.
    pub known: Vec<(K, u32)>,
    /// Greater than all that were given.
    pub next: u32,
}

impl<K: Eq + Hash> Numbered<K> {
    /// Whether these are at most so many numbers of the range, and what is next is, too.
    pub(crate) fn is_sound(&self, range: Range<u32>, len_max: usize) -> bool {
        let is_next = range.start <= self.next && self.next <= range.end;
        is_next && are_sound(&self.known, range.start..self.next, len_max)
    }
}

/// Whether each is there once, with a number of its own in the range.
pub(crate) fn are_sound<K: Eq + Hash>(
    known: &[(K, u32)],
    range: Range<u32>,
    len_max: usize,
) -> bool {
    let keys: HashSet<&K> = known.iter().map(|(key, _)| key).collect();
    let numbers: HashSet<u32> = known.iter().map(|(_, number)| *number).collect();
    let are_different = keys.len() == known.len() && numbers.len() == known.len();
    are_different && known.len() <= len_max && numbers.iter().all(|one| range.contains(one))
}
