//! How large a region's rings are, and where their parts are.
//!
//! ```text
//! ring    = control (256 bytes) | slots (64 bytes each) | data | padding to a whole page
//! control = line 0: slots consumed | line 2: whether the consumer sleeps
//! slot    = header (8 bytes) | up to 56 bytes of a short record
//! region  = ring of the creator's records | ring of the adopter's records
//! ```
//!
//! Lines that different processors write are 128 bytes apart, since processors fetch lines in
//! pairs.

use core::fmt;

/// Bytes of a cache line. A slot takes one, and records in the data part are aligned to it.
pub(crate) const LINE_BYTES: usize = 64;
/// Where the consumer writes how many slots it has consumed.
pub(crate) const CONSUMED_AT: usize = 0;
/// Where the consumer writes whether it sleeps.
pub(crate) const ASLEEP_AT: usize = 128;
/// Where the slots start.
pub(crate) const SLOTS_AT: usize = 256;
const PAGE_BYTES: usize = 4096;

/// The most bytes of a record that fit into a slot, after its header.
pub const INLINE_BYTES_MAX: usize = 56;

/// The most slots of a ring.
pub const SLOTS_MAX: u32 = 1 << 16;
/// The most bytes of a ring's data part: 256 MiB.
pub const DATA_BYTES_MAX: u32 = 1 << 28;
/// The most bytes of a record in any ring: 1 MiB.
pub const RECORD_BYTES_MAX: u32 = 1 << 20;

const _: () = {
    assert!(CONSUMED_AT + 2 * LINE_BYTES <= ASLEEP_AT);
    assert!(ASLEEP_AT + 2 * LINE_BYTES <= SLOTS_AT);
    assert!(SLOTS_AT.is_multiple_of(LINE_BYTES) && PAGE_BYTES.is_multiple_of(LINE_BYTES));
    assert!((RECORD_BYTES_MAX as u64) < 1 << 24, "a slot's header has 24 bits for the length");
};

/// The sizes of each of a region's two rings. Both processes must use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    /// Records that can wait: a power of two, 2 to [`SLOTS_MAX`].
    pub slots: u32,
    /// Bytes of records longer than [`INLINE_BYTES_MAX`] that can wait, each rounded up to
    /// 64: a power of two, at most [`DATA_BYTES_MAX`].
    pub data_bytes: u32,
    /// The longest record, in bytes: at most half of `data_bytes` and [`RECORD_BYTES_MAX`], and
    /// at least 64.
    pub record_bytes_max: u32,
}

/// Sizes that no ring can have: a bug of the caller, or made up by a peer. A retry with the same
/// sizes fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeError(
    /// The sizes.
    pub RingShape,
);

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RingShape { slots, data_bytes, record_bytes_max } = self.0;
        write!(
            f,
            "a ring cannot have {slots} slots, {data_bytes} data bytes and records of up to \
             {record_bytes_max} bytes"
        )
    }
}

impl std::error::Error for ShapeError {}

impl RingShape {
    /// Checks the documented limits.
    ///
    /// # Errors
    /// [`ShapeError`] if one is violated.
    pub fn check(self) -> Result<(), ShapeError> {
        let RingShape { slots, data_bytes, record_bytes_max } = self;
        let fits = slots.is_power_of_two()
            && (2..=SLOTS_MAX).contains(&slots)
            && data_bytes.is_power_of_two()
            && data_bytes <= DATA_BYTES_MAX
            && (LINE_BYTES as u32..=RECORD_BYTES_MAX).contains(&record_bytes_max)
            // So that a record fits an empty ring wherever it starts, even if the rest of the lap
            // is wasted.
            && record_bytes_max.next_multiple_of(LINE_BYTES as u32) <= data_bytes / 2;
        if fits { Ok(()) } else { Err(ShapeError(self)) }
    }

    /// Where the data part starts in a ring.
    pub(crate) fn data_at(self) -> usize {
        SLOTS_AT + self.slots as usize * LINE_BYTES
    }

    /// Bytes of one ring, a whole number of pages.
    pub fn ring_bytes(self) -> usize {
        (self.data_at() + self.data_bytes as usize).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of a region: two rings.
    pub fn region_bytes(self) -> usize {
        2 * self.ring_bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const GOOD: RingShape = RingShape { slots: 8, data_bytes: 4096, record_bytes_max: 2048 };

    #[test]
    fn sizes_outside_of_the_limits_are_refused() {
        assert_eq!(GOOD.check(), Ok(()));
        for bad in [
            RingShape { slots: 0, ..GOOD },
            RingShape { slots: 1, ..GOOD },
            RingShape { slots: 12, ..GOOD },
            RingShape { slots: 2 * SLOTS_MAX, ..GOOD },
            RingShape { data_bytes: 0, ..GOOD },
            RingShape { data_bytes: 5000, ..GOOD },
            RingShape { data_bytes: 2 * DATA_BYTES_MAX, ..GOOD },
            RingShape { record_bytes_max: 2049, ..GOOD },
            RingShape { record_bytes_max: 63, ..GOOD },
            RingShape { record_bytes_max: u32::MAX, ..GOOD },
            RingShape {
                data_bytes: DATA_BYTES_MAX,
                record_bytes_max: RECORD_BYTES_MAX + 1,
                ..GOOD
            },
        ] {
            assert_eq!(bad.check(), Err(ShapeError(bad)));
        }
    }

    #[test]
    fn the_parts_of_a_ring_fit_its_pages() {
        assert_eq!(GOOD.data_at() % LINE_BYTES, 0);
        assert!(GOOD.data_at() + 4096 <= GOOD.ring_bytes());
        assert_eq!(GOOD.region_bytes() % PAGE_BYTES, 0);
    }
}
