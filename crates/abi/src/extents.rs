//! The parts of a heap that have memory (D2, D3).

/// The largest range that a heap reserves: 1 TiB.
pub const HEAP_BYTES_MAX: u64 = 1 << 40;

/// The smallest extent, of which the size of each is a multiple, and at a multiple of which each
/// begins.
pub const EXTENT_BYTES_MIN: u64 = 64 << 10;

/// The most extents of a heap.
pub const EXTENTS_MAX: usize = 1024;

/// A part of a heap's range that has memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// From the start of the heap's range.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// An extent that cannot be added. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtentError {
    /// It is empty, or does not begin and end at multiples of [`EXTENT_BYTES_MIN`].
    #[error("an extent of {} bytes at {} is not made of units of 64 KiB", .0.bytes, .0.offset)]
    Shape(Extent),
    /// It is not within the heap.
    #[error("an extent of {} bytes at {} is not within the heap", .0.bytes, .0.offset)]
    Outside(Extent),
    /// A part of it has memory already.
    #[error("an extent of {} bytes at {} overlaps another", .0.bytes, .0.offset)]
    Overlap(Extent),
    /// The heap has [`EXTENTS_MAX`].
    #[error("a heap has at most {EXTENTS_MAX} extents")]
    TooMany,
}

/// The extents of a heap, as one side knows them.
///
/// Invariant: ascending by offset, none overlaps another, all lie within the heap's range.
#[derive(Clone, Debug)]
pub struct Extents {
    heap_bytes: u64,
    extents: Vec<Extent>,
}

impl Extents {
    /// Of a heap whose range has so many bytes: none yet.
    ///
    /// # Panics
    /// If the range is larger than [`HEAP_BYTES_MAX`].
    pub fn new(heap_bytes: u64) -> Extents {
        assert!(heap_bytes <= HEAP_BYTES_MAX, "a heap has at most 1 TiB");
        Extents { heap_bytes, extents: Vec::new() }
    }

    /// D2: adds an extent.
    ///
    /// # Errors
    /// See [`ExtentError`].
    pub fn add(&mut self, extent: Extent) -> Result<(), ExtentError> {
        let Extent { offset, bytes } = extent;
        let is_unit = |bytes: u64| bytes.is_multiple_of(EXTENT_BYTES_MIN);
        if bytes == 0 || !is_unit(bytes) || !is_unit(offset) {
            return Err(ExtentError::Shape(extent));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.heap_bytes) {
            return Err(ExtentError::Outside(extent));
        }
        let next = self.extents.partition_point(|other| other.offset < offset);
        let overlaps_next = self.extents.get(next).is_some_and(|next| next.offset < extent.end());
        let before = next.checked_sub(1).map(|before| self.extents[before]);
        if overlaps_next || before.is_some_and(|before| before.end() > offset) {
            return Err(ExtentError::Overlap(extent));
        }
        if self.extents.len() == EXTENTS_MAX {
            return Err(ExtentError::TooMany);
        }
        self.extents.insert(next, extent);
        Ok(())
    }

    /// Takes the extent at this offset away, if there is one.
    pub fn remove(&mut self, offset: u64) -> Option<Extent> {
        let place = self.extents.binary_search_by_key(&offset, |extent| extent.offset).ok()?;
        Some(self.extents.remove(place))
    }

    /// D3: whether so many bytes at this offset all have memory. Bytes may lie in several extents
    /// that are next to each other. No bytes have memory nowhere.
    #[inline]
    pub fn covers(&self, offset: u64, bytes: u64) -> bool {
        let Some(end) = offset.checked_add(bytes).filter(|_| bytes > 0) else { return false };
        let mut reached = offset;
        let first = self.extents.partition_point(|extent| extent.end() <= offset);
        for extent in &self.extents[first..] {
            if extent.offset > reached {
                return false;
            }
            reached = extent.end();
            if reached >= end {
                return true;
            }
        }
        false
    }

    /// The lowest place in the range where an extent of so many bytes fits.
    pub fn place_for(&self, bytes: u64) -> Option<u64> {
        let starts = std::iter::once(0).chain(self.extents.iter().map(Extent::end));
        let ends = self.extents.iter().map(|extent| extent.offset);
        let gaps = starts.zip(ends.chain([self.heap_bytes]));
        gaps.filter(|(start, end)| end - start >= bytes).map(|(start, _)| start).next()
    }

    /// Bytes that have memory.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.bytes).sum()
    }

    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.extents.iter().copied()
    }
}

#[cfg(test)]
mod tests;
