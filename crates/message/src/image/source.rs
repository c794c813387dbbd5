//! The memory from which compaction reads (M23).

use std::ptr;

use bytes::Bytes;
use petasos_buf::Segment;
use thiserror::Error;

/// A pointer leads out of the memory that its source may read. The fault of whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a pointer leads out of its message")]
pub struct Outside;

/// Why a message was not made an image of. The fault of whoever built it; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompactError {
    /// A pointer leads out of the source.
    #[error(transparent)]
    Outside(#[from] Outside),
    /// The image would have more than 2^28 - 1 bytes.
    #[error("the message is larger than 2^28 - 1 bytes")]
    TooLarge,
    /// More than 100 levels of messages within messages.
    #[error("messages are nested more than 100 deep")]
    TooDeep,
    /// Contents that no receiver would accept.
    #[error("the message is malformed")]
    Malformed,
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
}

/// Memory that a message lies in. Addresses are whatever pointers in it are relative to.
///
/// Compaction looks at nothing but the copies that it was given, and never asks for the same
/// memory twice, so it makes no difference if somebody writes there meanwhile.
pub trait Source {
    /// Whether contents need no check: they were built or checked by this process, and nobody else
    /// writes them. A source that says so wrongly gets images that receivers refuse.
    const IS_TRUSTED: bool = false;

    /// Copies `to.len()` bytes from the address `at`.
    ///
    /// # Errors
    /// If not all of them are within the source.
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside>;

    /// The bytes at the address `at`, to be sent from there; `None` asks for a copy instead.
    ///
    /// # Errors
    /// If not all of them are within the source.
    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside>;

    /// About how many bytes the message takes, so that room is made once.
    fn bytes_hint(&self) -> usize {
        0
    }
}

/// An image that was checked. Addresses are offsets in it.
pub(crate) struct InImage<'a>(pub(crate) &'a [u8]);

impl InImage<'_> {
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8], Outside> {
        let start = usize::try_from(at).map_err(|_| Outside)?;
        let end = start.checked_add(bytes).ok_or(Outside)?;
        self.0.get(start..end).ok_or(Outside)
    }
}

impl Source for InImage<'_> {
    const IS_TRUSTED: bool = true;

    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        to.copy_from_slice(self.bytes(at, to.len())?);
        Ok(())
    }

    fn segment(&self, _: u64, _: u32) -> Result<Option<Segment>, Outside> {
        Ok(None)
    }

    fn bytes_hint(&self) -> usize {
        self.0.len()
    }
}

/// Memory of this process that a message was built in or received and accepted in.
pub(crate) struct Private<F> {
    owner_of: F,
    bytes_hint: usize,
}

impl<F: Fn(*const u8, usize) -> Option<Bytes>> Private<F> {
    /// `owner_of` is asked for the owner of bytes that are long enough to be sent from where they
    /// lie. Without one they are copied.
    ///
    /// # Safety
    /// While the source lives, all pointers reached from the addresses it is asked for lead to
    /// initialised memory of this process, whose provenance is exposed and which nobody writes.
    pub(crate) unsafe fn new(bytes_hint: usize, owner_of: F) -> Private<F> {
        Private { owner_of, bytes_hint }
    }
}

impl<F: Fn(*const u8, usize) -> Option<Bytes>> Source for Private<F> {
    const IS_TRUSTED: bool = true;

    #[inline(always)]
    fn copy(&self, at: u64, to: &mut [u8]) -> Result<(), Outside> {
        let from = ptr::with_exposed_provenance::<u8>(at as usize);
        // SAFETY: `new`'s promise; the bytes copied to are borrowed, so they are not the source.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn segment(&self, at: u64, bytes: u32) -> Result<Option<Segment>, Outside> {
        let from = ptr::with_exposed_provenance::<u8>(at as usize);
        Ok((self.owner_of)(from, bytes as usize).map(Segment::Owned))
    }

    fn bytes_hint(&self) -> usize {
        self.bytes_hint
    }
}
