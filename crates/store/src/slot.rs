//! A slot of a bucket (K10).

/// Where an item lies in the log, with a part of its key's hash; or the next bucket of a chain.
///
/// | bits | field |
/// |---|---|
/// | 0 to 33 | where the entry begins, in words; of a link, an overflow bucket's number |
/// | 34 to 39 | lap of the log in which it was written, modulo 64: of a cache |
/// | 40 to 55 | tag |
/// | 62 | in use |
/// | 63 | this is a link |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u64);

/// Bits of a place in the log, in words.
pub(crate) const PLACE_BITS: u32 = 34;
const LAP_BITS: u32 = 6;
const TAG_SHIFT: u32 = 40;
const USED: u64 = 1 << 62;
const LINK: u64 = 1 << 63;

const _: () = assert!(PLACE_BITS + LAP_BITS == TAG_SHIFT);

/// Laps after which a lap's number comes again.
pub(crate) const LAPS: u64 = 1 << LAP_BITS;

impl Slot {
    pub const FREE: Slot = Slot(0);

    #[inline]
    pub fn new(place: usize, lap: u64, tag: u16) -> Slot {
        debug_assert!((place as u64) < 1 << PLACE_BITS);
        let lap = lap % LAPS;
        Slot(place as u64 | lap << PLACE_BITS | u64::from(tag) << TAG_SHIFT | USED)
    }

    pub fn link(line: usize) -> Slot {
        Slot(line as u64 | USED | LINK)
    }

    pub fn from_bits(bits: u64) -> Slot {
        Slot(bits)
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub fn is_free(self) -> bool {
        self.0 & USED == 0
    }

    /// The bucket that it leads to.
    #[inline]
    pub fn linked(self) -> Option<usize> {
        (self.0 & LINK != 0).then_some((self.0 & ((1 << PLACE_BITS) - 1)) as usize)
    }

    /// Whether it leads to an item whose key has this tag.
    #[inline]
    pub fn has_tag(self, tag: u16) -> bool {
        const MASK: u64 = 0xffff << TAG_SHIFT | USED | LINK;
        self.0 & MASK == u64::from(tag) << TAG_SHIFT | USED
    }

    /// Where the item begins.
    #[inline]
    pub fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// In which lap it was written, modulo [`LAPS`].
    #[inline]
    pub fn lap(self) -> u64 {
        self.0 >> PLACE_BITS & (LAPS - 1)
    }

    /// The same item elsewhere.
    #[inline]
    pub fn moved(self, place: usize, lap: u64) -> Slot {
        Slot::new(place, lap, (self.0 >> TAG_SHIFT) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k10_fields_are_apart() {
        let slot = Slot::new((1 << 34) - 1, 65, 0xbeef);
        assert_eq!((slot.place(), slot.lap()), ((1 << 34) - 1, 1));
        assert!(slot.has_tag(0xbeef) && !slot.has_tag(0xbee0) && !slot.is_free());
        assert_eq!(slot.linked(), None);
        let moved = slot.moved(5, 2);
        assert_eq!((moved.place(), moved.lap(), moved.has_tag(0xbeef)), (5, 2, true));
        assert_eq!(slot.bits() >> 56 & 0x3f, 0, "the rest is 0");
        let first = Slot::new(0, 0, 0);
        assert!(!first.is_free() && first.has_tag(0));
    }

    #[test]
    fn k10_links_are_no_items() {
        let link = Slot::link(77);
        assert_eq!(link.linked(), Some(77));
        assert!(!link.has_tag(0) && !link.is_free());
        assert!(Slot::FREE.is_free() && !Slot::FREE.has_tag(0) && Slot::FREE.linked().is_none());
    }
}
