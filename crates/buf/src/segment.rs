//! Pieces of a message that are sent from where they lie.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

/// Memory that somebody else may write at any time, such as another process: it is only ever
/// copied, and no reference into it exists.
pub trait SharedMemory: Debug + Send + Sync {
    /// Its bytes.
    fn bytes(&self) -> usize;

    /// Fills `to` with the bytes from `at` on, as they are during the copy.
    ///
    /// # Panics
    /// If it has no such bytes.
    fn copy_to(&self, at: usize, to: &mut [u8]);
}

/// Bytes that a message is sent with but that are not copied into it.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Bytes with their owner, in memory of this process that nobody writes.
    Owned(Bytes),
    /// Bytes in memory that somebody else may write. Each packet has them as they are when it is
    /// made.
    Shared(Arc<dyn SharedMemory>),
}

impl Segment {
    /// The length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Segment::Owned(bytes) => bytes.len(),
            Segment::Shared(memory) => memory.bytes(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `to` with the bytes from `at` on.
    ///
    /// # Panics
    /// If it has no such bytes.
    pub fn copy_to(&self, at: usize, to: &mut [u8]) {
        match self {
            Segment::Owned(bytes) => to.copy_from_slice(&bytes[at..at + to.len()]),
            Segment::Shared(memory) => memory.copy_to(at, to),
        }
    }

    /// The bytes, unless they may change.
    pub fn owned(&self) -> Option<&Bytes> {
        match self {
            Segment::Owned(bytes) => Some(bytes),
            Segment::Shared(_) => None,
        }
    }
}

impl From<Bytes> for Segment {
    fn from(bytes: Bytes) -> Segment {
        Segment::Owned(bytes)
    }
}
