//! Fields by offset, for walks over memory.

use std::ops::Range;

/// Something in a struct or entry that points elsewhere, or whose bytes are not all valid (M26).
/// Offsets are from the start of the struct or entry. Numbers without presence need no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A pointer to a `Blob`.
    Unknown { offset: u32 },
    /// A byte that is 0 or 1.
    Bool { offset: u32 },
    /// A string.
    Text { offset: u32 },
    /// Bytes.
    Blob { offset: u32 },
    /// A pointer to a message, or 0.
    Link { offset: u32, message: u32 },
    /// A message as it lies: the value of a map's entry.
    Struct { offset: u32, message: u32 },
    /// A list of numbers of 1, 4 or 8 bytes, or of enums.
    Numbers { offset: u32, element_bytes: u32 },
    /// A list of bools.
    Bools { offset: u32 },
    /// A list of strings.
    Texts { offset: u32 },
    /// A list of bytes.
    Blobs { offset: u32 },
    /// A list of messages.
    Messages { offset: u32, message: u32 },
    /// A list of entries.
    Map { offset: u32, entry: u32 },
    /// The case, whose members are a piece of the plans' members, and the value behind it.
    OneOf { offset: u32, first: u32, count: u16 },
    /// A part of 1, 4 or 8 bytes (all zero), or of 16 (empty), if the bits `mask` of the word at
    /// `word` are clear.
    Absent { offset: u32, word: u32, mask: u32, bytes: u8 },
    /// A word of presence bits of which `mask` are nobody's.
    Spare { offset: u32, mask: u32 },
}

/// A member of a oneof. Its step's offset is from the start of the struct, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) number: u32,
    /// `None` for numbers.
    pub(crate) step: Option<Step>,
}

/// A word in a struct or entry that is a pointer; in a oneof only while the case is `case`.
///
/// A pointer that is 0 stays 0; one that leads nowhere, since its list is empty, may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    pub(crate) offset: u32,
    /// The case, 8 bytes before `offset`, with which the word is a pointer. 0: always.
    pub(crate) case: u32,
}

impl Step {
    /// The members of a [`Step::OneOf`].
    #[inline(always)]
    pub(crate) fn members(first: u32, count: u16) -> Range<u32> {
        first..first + u32::from(count)
    }
}
