//! What an ordered map does.

use core::ops::{Bound, ControlFlow};

use crate::page::{Page, Sum};

/// Bytes of the longest key. The shortest has none.
pub const KEY_BYTES_MAX: usize = 1024;

/// Which keys: from and to.
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From small keys to large ones, byte by byte.
    Up,
    /// From large ones to small ones.
    Down,
}

/// The key is longer than 1024 bytes: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has at most 1024 bytes, not {0}")]
pub struct KeyTooLong(pub usize);

/// See the crate's documentation.
pub trait OrderedMap: Send + Sync {
    /// The number of a key.
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// Gives a key a number.
    ///
    /// # Errors
    /// If the key is too long.
    fn put(&self, key: &[u8], number: u64) -> Result<(), KeyTooLong>;

    /// Removes a key. Says whether it was there.
    fn delete(&self, key: &[u8]) -> bool;

    /// Calls `visit` for each key of a range in this order, until it breaks. A range whose end is
    /// before its beginning has no keys.
    fn scan(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    );

    /// Up to `limit` keys of a range. The next page begins behind its last one.
    fn page(&self, range: KeyRange<'_>, direction: Direction, limit: usize) -> Page {
        let mut page = Page::default();
        self.scan(range, direction, |key, number| {
            if page.items.len() == limit {
                page.has_more = true;
                return ControlFlow::Break(());
            }
            page.items.push((key.to_vec(), number));
            ControlFlow::Continue(())
        });
        page
    }

    /// The sum of the numbers of a range.
    fn sum(&self, range: KeyRange<'_>) -> Sum {
        let mut sum = Sum::default();
        self.scan(range, Direction::Up, |_, number| {
            sum.keys += 1;
            sum.total += u128::from(number);
            ControlFlow::Continue(())
        });
        sum
    }
}
