//! What tracks the packets of a message, kept when the message is over for the next one: calls of
//! several packets allocate nothing in steady state.
//!
//! Invariant: a session keeps no more than it has slots, since each slot uses one at most, and only
//! small ones, so that thousands of sessions that once carried a long message do not pin memory.

/// What may be used for another message.
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

    /// One for a new message, made by `reuse` from one that was kept, or by `make`.
    pub(crate) fn take(&mut self, reuse: impl FnOnce(&mut T), make: impl FnOnce() -> T) -> Box<T> {
        match self.0.pop() {
            Some(mut spare) => {
                reuse(&mut spare);
                spare
            }
            None => Box::new(make()),
        }
    }

    /// Takes one whose message is over.
    pub(crate) fn give(&mut self, spare: Box<T>) {
        if spare.is_small() {
            self.0.push(spare);
        }
    }

    /// Bytes of memory behind the list, without what its elements have on the heap.
    pub(crate) fn footprint_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Box<T>>() + self.0.len() * size_of::<T>()
    }
}
