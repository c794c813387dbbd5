//! The checks of M26 for bytes without pointers.

use crate::plan::ValueKind;

/// Something that no sender may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad;

/// The `N` bytes at `at`. Of a struct that was found to lie within `bytes`.
#[inline(always)]
pub(super) fn load<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a part lies within its struct")
}

#[inline(always)]
pub(super) fn bools(bytes: &[u8]) -> Result<(), Bad> {
    match bytes.iter().fold(0, |all, byte| all | byte) {
        0 | 1 => Ok(()),
        _ => Err(Bad),
    }
}

/// A field of `bytes` at `offset` is zero, or empty if it has 16, unless one of `mask` is set in
/// the word at `word` (M6).
#[inline(always)]
pub(super) fn absent(
    message: &[u8],
    (word, mask): (u32, u32),
    (offset, bytes): (u32, u8),
) -> Result<(), Bad> {
    if u32::from_le_bytes(load(message, word as usize)) & mask != 0 {
        return Ok(());
    }
    let at = offset as usize;
    let is_zero = match bytes {
        1 => message[at] == 0,
        4 => load::<4>(message, at) == [0; 4],
        8 => load::<8>(message, at) == [0; 8],
        _ => load::<4>(message, at + 8) == [0; 4],
    };
    if is_zero { Ok(()) } else { Err(Bad) }
}

#[inline(always)]
pub(super) fn spare(message: &[u8], offset: u32, mask: u32) -> Result<(), Bad> {
    match u32::from_le_bytes(load(message, offset as usize)) & mask {
        0 => Ok(()),
        _ => Err(Bad),
    }
}

/// A key as it is compared (M8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    Number(u64),
    Text(&'a [u8]),
}

impl<'a> Key<'a> {
    /// The key of an entry: a number in it, or the text that it points to.
    #[inline(always)]
    pub(super) fn of(kind: ValueKind, entry: &[u8], text: impl FnOnce() -> &'a [u8]) -> Key<'a> {
        /// Makes negative numbers smaller than others.
        const SIGN: u64 = 1 << 63;
        let word = || u32::from_le_bytes(load(entry, 0));
        let long = || u64::from_le_bytes(load(entry, 0));
        match kind {
            ValueKind::String => Key::Text(text()),
            ValueKind::Bool => Key::Number(entry[0].into()),
            ValueKind::Uint32 | ValueKind::Fixed32 => Key::Number(word().into()),
            ValueKind::Int32 | ValueKind::Sint32 | ValueKind::Sfixed32 => {
                Key::Number(i64::from(word() as i32) as u64 ^ SIGN)
            }
            ValueKind::Uint64 | ValueKind::Fixed64 => Key::Number(long()),
            _ => Key::Number(long() ^ SIGN),
        }
    }
}
