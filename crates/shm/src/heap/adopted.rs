//! The application's side of a heap: it maps the extents that the service gives it.

use core::ptr::NonNull;
use std::os::fd::BorrowedFd;

use petasos_abi::{Extent, ExtentError, Extents};

use super::holds::Holds;
use super::range::Range;
use super::{Buffers, HeapError, HeapKind, Outside, ReceivedSlice};
use crate::copy;
use crate::file::{self, FileError};

/// Why an extent was not mapped. The heap is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The extent does not fit the heap. The service's fault; a retry fails again.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// The file is not what was announced, or the system refused.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A heap whose extents come from the service. Its range is unmapped when it and all slices of it
/// are dropped.
///
/// The memory of a send heap can be read and written, that of a receive heap only read; what is in
/// no extent cannot be accessed at all.
#[derive(Debug)]
pub struct AdoptedHeap {
    kind: HeapKind,
    holds: Holds,
    /// What has memory, but for extents that are buffers' alone.
    extents: Extents,
    /// All that has memory, and places of extents that were given up and that slices still lead
    /// into.
    taken: Extents,
}

impl AdoptedHeap {
    /// Reserves the range of a heap that has no memory yet. Its size is the service's to say.
    ///
    /// # Errors
    /// [`HeapError::Range`] and [`HeapError::System`].
    pub fn reserve(kind: HeapKind, heap_bytes: u64) -> Result<AdoptedHeap, HeapError> {
        let holds = Holds::new(Range::reserve(heap_bytes)?);
        let [extents, taken] = [Extents::new(heap_bytes), Extents::new(heap_bytes)];
        Ok(AdoptedHeap { kind, holds, extents, taken })
    }

    /// D2: maps an extent that the service has made, after checking it.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub fn map(&mut self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), AdoptError> {
        self.vacate();
        self.taken.add(extent)?;
        let mapped = self.map_checked(file, extent);
        match mapped {
            Ok(()) => self.extents.add(extent).expect("what has memory is a part of what is taken"),
            Err(_) => drop(self.taken.remove(extent.offset)),
        }
        Ok(mapped?)
    }

    /// Gives up the extent at this offset. It is unmapped at once, or when no slice is left that
    /// was made before. Whoever accesses its bytes later otherwise gets a signal.
    ///
    /// # Errors
    /// [`HeapError::NoExtent`].
    pub fn unmap(&mut self, offset: u64) -> Result<Extent, HeapError> {
        let extent = self.extents.remove(offset).ok_or(HeapError::NoExtent(offset))?;
        self.holds.end(extent);
        self.vacate();
        Ok(extent)
    }

    /// Unmaps what was given up and is not held any more. What the system does not unmap is not
    /// used again.
    fn vacate(&mut self) {
        while let Some(extent) = self.holds.poll_free() {
            if self.holds.range().vacate(extent).is_ok() {
                self.taken.remove(extent.offset);
            }
        }
    }

    /// Buffers for the program in this heap, which have no memory yet. `notify` is called on any
    /// thread when they [want](Buffers::take_wanted) some.
    ///
    /// # Panics
    /// If this is a receive heap, which the service alone writes.
    pub fn buffers(&self, notify: impl Fn() + Send + Sync + 'static) -> Buffers {
        assert_eq!(self.kind, HeapKind::Send, "an application writes its send heap only");
        Buffers::new(self.holds.shared_range(), Box::new(notify))
    }

    /// Gives the extent at this offset to buffers of this heap: from now on it is theirs alone, and
    /// is mapped for as long as there are any.
    ///
    /// # Errors
    /// [`HeapError::NoExtent`].
    ///
    /// # Panics
    /// If the buffers are another heap's.
    pub fn give(&mut self, offset: u64, buffers: &Buffers) -> Result<(), HeapError> {
        assert!(buffers.are_in(self.holds.range()), "the buffers are in this heap");
        let extent = self.extents.remove(offset).ok_or(HeapError::NoExtent(offset))?;
        buffers.add(extent);
        Ok(())
    }

    /// Who writes this heap.
    pub fn kind(&self) -> HeapKind {
        self.kind
    }

    /// What has memory, but for what was [given](AdoptedHeap::give) to buffers.
    pub fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Where the range starts. Of the bytes behind it, those in extents can be accessed, until
    /// their extent is unmapped or the heap dropped.
    ///
    /// The service reads a send heap at any time, and so never writes it. It writes places of a
    /// receive heap that it has not given to the application yet, or got back. Whoever accesses
    /// bytes through this pointer must not do so while [`AdoptedHeap::write`] or
    /// [`AdoptedHeap::copy_out`] may access the same bytes on another thread.
    pub fn start(&self) -> NonNull<u8> {
        self.holds.range().start()
    }

    /// D3: a message of a receive heap, to be read where it lies. The place is not to be released
    /// (D9) before the slice is dropped.
    ///
    /// # Errors
    /// [`Outside`] if its bytes do not all have memory.
    ///
    /// # Panics
    /// If this is a send heap, which this program writes.
    pub fn slice(&self, offset: u64, bytes: u64) -> Result<ReceivedSlice, Outside> {
        assert_eq!(self.kind, HeapKind::Receive, "slices are of what the service writes");
        self.check(offset, bytes)?;
        let start = self.holds.range().at(offset, bytes as usize);
        // SAFETY: extents have just been found to cover the bytes, which stay mapped until the hold
        // is gone. This program cannot write a receive heap, and the service, which the application
        // trusts, writes no place that it has not got back.
        Ok(unsafe { ReceivedSlice::new(self.holds.hold(), start, bytes as usize) })
    }

    /// D3: copies `bytes` to `offset` in a send heap. The service may read them meanwhile, and gets
    /// some of the old and some of the new.
    ///
    /// # Errors
    /// [`Outside`] if they would not all have memory; nothing was written.
    ///
    /// # Panics
    /// If this is a receive heap, which the service alone writes.
    #[inline]
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Outside> {
        assert_eq!(self.kind, HeapKind::Send, "an application writes its send heap only");
        self.check(offset, bytes.len() as u64)?;
        let to = self.holds.range().at(offset, bytes.len());
        // SAFETY: extents have just been found to cover the bytes. A send heap is mapped to be
        // written, and `&mut self` makes this its only access by this program, but for those that
        // `start` has promised not to make. Private memory does not overlap with a heap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
        Ok(())
    }

    /// D3: fills `out` with the bytes at `offset`, as they are during the copy.
    ///
    /// # Errors
    /// [`Outside`] if they do not all have memory; `out` is unchanged.
    #[inline]
    pub fn copy_out(&self, offset: u64, out: &mut [u8]) -> Result<(), Outside> {
        self.check(offset, out.len() as u64)?;
        let from = self.holds.range().at(offset, out.len());
        // SAFETY: extents have just been found to cover the bytes. They are mapped readable, and
        // end with whole words. This program writes them only through `&mut self`.
        unsafe { copy::copy_out(from.as_ptr(), out) }
        Ok(())
    }

    fn check(&self, offset: u64, bytes: u64) -> Result<(), Outside> {
        if self.extents.covers(offset, bytes) { Ok(()) } else { Err(Outside { offset, bytes }) }
    }

    fn map_checked(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), FileError> {
        file::check(file, extent.bytes, self.kind.writers())?;
        Ok(self.holds.range().map(file, extent, self.kind.adopters_access())?)
    }
}
