//! The `TreeIndex` of `scc` behind the trait. Nothing else names that crate's types.

use core::fmt;
use core::ops::{Bound, ControlFlow};

use scc::{Guard, TreeIndex};

use crate::map::{Direction, KEY_BYTES_MAX, KeyRange, KeyTooLong, OrderedMap};

/// An ordered map in memory: reads never wait, and writes wait for each other only where the tree
/// changes its shape.
#[derive(Default)]
pub struct BplusTree {
    tree: TreeIndex<Box<[u8]>, u64>,
}

impl BplusTree {
    /// One without keys.
    #[must_use]
    pub fn new() -> BplusTree {
        BplusTree::default()
    }
}

impl fmt::Debug for BplusTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BplusTree").finish_non_exhaustive()
    }
}

impl OrderedMap for BplusTree {
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.tree.peek_with(key, |_, number| *number)
    }

    fn put(&self, key: &[u8], number: u64) -> Result<(), KeyTooLong> {
        if key.len() > KEY_BYTES_MAX {
            return Err(KeyTooLong(key.len()));
        }
        self.tree.upsert_sync(key.into(), number);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> bool {
        self.tree.remove_sync(key)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        if is_void(range) {
            return;
        }
        let guard = Guard::new();
        let mut found = self.tree.range::<[u8], _>(range, &guard);
        let mut next = || match direction {
            Direction::Up => found.next(),
            Direction::Down => found.next_back(),
        };
        while let Some((key, number)) = next() {
            if visit(key, *number).is_break() {
                return;
            }
        }
    }
}

/// Whether a range has no keys, whatever there is.
fn is_void(range: KeyRange<'_>) -> bool {
    use Bound::{Excluded, Included};
    match range {
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Included(to) | Excluded(to)) => from >= to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_ends_before_it_begins_is_void() {
        use Bound::{Excluded, Included, Unbounded};
        let (a, b): (&[u8], &[u8]) = (b"a", b"b");
        for void in [
            (Included(b), Included(a)),
            (Included(a), Excluded(a)),
            (Excluded(a), Included(a)),
            (Excluded(a), Excluded(a)),
            (Excluded(b), Excluded(a)),
        ] {
            assert!(is_void(void), "{void:?}");
        }
        for some in [
            (Included(a), Included(a)),
            (Excluded(a), Excluded(b)),
            (Excluded(b), Unbounded),
            (Unbounded, Unbounded),
        ] {
            assert!(!is_void(some), "{some:?}");
        }
    }
}
