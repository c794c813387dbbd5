//! Free lists of scoreboards and assemblies, so that calls of several packets allocate nothing in
//! steady state.
//!
//! Invariant: a session keeps no more of them than it has slots, since each slot uses at most one.
//! It keeps only small ones, so that thousands of sessions that once carried a long message do not
//! hold much memory.

/// Something that can be used for another message.
pub(crate) trait Reusable {
    /// Whether it is small enough to be kept.
    fn is_small(&self) -> bool;
}

/// A session's free list.
#[derive(Debug)]
pub(crate) struct Spares<T>(Vec<Box<T>>);

impl<T: Reusable> Spares<T> {
    pub(crate) const fn new() -> Spares<T> {
        Spares(Vec::new())
    }

    /// One for a new message: a kept one that `reuse` prepares, or a new one from `make`.
    pub(crate) fn take(&mut self, reuse: impl FnOnce(&mut T), make: impl FnOnce() -> T) -> Box<T> {
        match self.0.pop() {
            Some(mut spare) => {
                reuse(&mut spare);
                spare
            }
            None => Box::new(make()),
        }
    }

    /// Keeps one whose message is over.
    pub(crate) fn give(&mut self, spare: Box<T>) {
        if spare.is_small() {
            self.0.push(spare);
        }
    }

    /// Bytes of memory behind the list, except for what its elements have on the heap.
    pub(crate) fn footprint_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Box<T>>() + self.0.len() * size_of::<T>()
    }
}
