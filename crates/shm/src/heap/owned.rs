//! The service's side of a heap: it makes all memory, and judges places by what it has made.

use std::os::fd::{AsFd, OwnedFd};

use petasos_abi::{Extent, Extents};

use super::holds::Holds;
use super::range::Range;
use super::{HeapError, HeapKind, HeapSlice, Outside};
use crate::{copy, file};

/// A heap whose extents this process makes. Its range is unmapped when it and all slices of it are
/// dropped.
///
/// It has no quota but the size of its range: whoever calls [`OwnedHeap::grow`] keeps it.
#[derive(Debug)]
pub struct OwnedHeap {
    kind: HeapKind,
    holds: Holds,
    /// What has memory.
    extents: Extents,
    /// The same, and places of removed extents that slices may still lead into.
    taken: Extents,
}

impl OwnedHeap {
    /// Reserves the range of a heap that has no memory yet.
    ///
    /// # Errors
    /// [`HeapError::Range`] and [`HeapError::System`].
    pub fn reserve(kind: HeapKind, heap_bytes: u64) -> Result<OwnedHeap, HeapError> {
        let holds = Holds::new(Range::reserve(heap_bytes)?);
        let [extents, taken] = [Extents::new(heap_bytes), Extents::new(heap_bytes)];
        Ok(OwnedHeap { kind, holds, extents, taken })
    }

    /// D2: makes an extent of so many bytes, all zeros. Pass it and the descriptor to the
    /// application, which calls [`AdoptedHeap::map`](super::AdoptedHeap::map) with them.
    ///
    /// # Errors
    /// [`HeapError::Extent`], [`HeapError::NoRoom`] and [`HeapError::System`].
    pub fn grow(&mut self, bytes: u64) -> Result<(Extent, OwnedFd), HeapError> {
        while let Some(free) = self.holds.poll_free() {
            self.taken.remove(free.offset);
        }
        let offset = self.taken.place_for(bytes).ok_or(HeapError::NoRoom(bytes))?;
        let extent = Extent { offset, bytes };
        self.taken.add(extent)?;
        let file = self.fill(extent);
        match &file {
            Ok(_) => self.extents.add(extent).expect("what has memory is a part of what is taken"),
            Err(_) => drop(self.taken.remove(offset)),
        }
        Ok((extent, file?))
    }

    /// Takes the extent at this offset away: its bytes are zeros from now on for those who hold
    /// slices of it, and lie outside for others. The place is used again when no slice is left that
    /// was made before.
    ///
    /// The application keeps its own mapping for as long as it likes, and nobody can tell. So the
    /// memory counts towards its quota until it has ended.
    ///
    /// # Errors
    /// [`HeapError::NoExtent`] and [`HeapError::System`].
    pub fn remove(&mut self, offset: u64) -> Result<Extent, HeapError> {
        let extent = self.extents.remove(offset).ok_or(HeapError::NoExtent(offset))?;
        if let Err(error) = self.holds.range().zero(extent) {
            self.extents.add(extent).expect("it was there");
            return Err(error.into());
        }
        self.holds.end(extent);
        Ok(extent)
    }

    /// Who writes this heap.
    pub fn kind(&self) -> HeapKind {
        self.kind
    }

    /// What has memory.
    pub fn extents(&self) -> &Extents {
        &self.extents
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

    /// D3: a place of a send heap, to be read later.
    ///
    /// # Errors
    /// [`Outside`] if its bytes do not all have memory.
    ///
    /// # Panics
    /// If this is a receive heap: what the service wrote it need not read later.
    #[inline]
    pub fn slice(&self, offset: u64, bytes: u64) -> Result<HeapSlice, Outside> {
        assert_eq!(self.kind, HeapKind::Send, "slices are of what the application writes");
        self.check(offset, bytes)?;
        let start = self.holds.range().at(offset, bytes as usize);
        // SAFETY: extents have just been found to cover the bytes, and end with whole words. A send
        // heap is mapped to be read only. Until the hold is gone, the place stays mapped: it has an
        // extent's memory, or zeros.
        Ok(unsafe { HeapSlice::new(self.holds.hold(), start, bytes as usize) })
    }

    /// D3: copies `bytes` to `offset` in a receive heap.
    ///
    /// # Errors
    /// [`Outside`] if they would not all have memory; nothing was written.
    ///
    /// # Panics
    /// If this is a send heap, which the application alone writes.
    #[inline]
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Outside> {
        assert_eq!(self.kind, HeapKind::Receive, "the service writes receive heaps only");
        self.check(offset, bytes.len() as u64)?;
        let to = self.holds.range().at(offset, bytes.len());
        // SAFETY: extents have just been found to cover the bytes. A receive heap is mapped to be
        // written, there are no slices of it, and `&mut self` makes this its only access by this
        // program. Private memory does not overlap with a heap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) }
        Ok(())
    }

    /// D3: lets `fill` write `bytes` at `offset` in a receive heap. It sees what was there.
    ///
    /// # Errors
    /// [`Outside`] if they do not all have memory; `fill` was not called.
    ///
    /// # Panics
    /// If this is a send heap, which the application alone writes.
    pub fn write_with(
        &mut self,
        offset: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Outside> {
        assert_eq!(self.kind, HeapKind::Receive, "the service writes receive heaps only");
        self.check(offset, bytes as u64)?;
        let to = self.holds.range().at(offset, bytes);
        // SAFETY: extents have just been found to cover the bytes, which are a file's and so
        // initialised. Nobody else writes them, as the file is sealed; there are no slices of the
        // heap, and `&mut self` makes this its only access by this program.
        fill(unsafe { core::slice::from_raw_parts_mut(to.as_ptr(), bytes) });
        Ok(())
    }

    #[inline]
    fn check(&self, offset: u64, bytes: u64) -> Result<(), Outside> {
        if self.extents.covers(offset, bytes) { Ok(()) } else { Err(Outside { offset, bytes }) }
    }

    /// D2: gives a place memory, and seals it after it was mapped: a receive heap's could not be
    /// mapped writable later.
    fn fill(&self, extent: Extent) -> Result<OwnedFd, HeapError> {
        let range = self.holds.range();
        let file = file::make(extent.bytes)?;
        range.map(file.as_fd(), extent, self.kind.owners_access())?;
        if let Err(error) = file::seal(file.as_fd(), self.kind.writers()) {
            // If even this fails, the memory stays until the place is used again.
            let _ = range.vacate(extent);
            return Err(error.into());
        }
        Ok(file)
    }
}
