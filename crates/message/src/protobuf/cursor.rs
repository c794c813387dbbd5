//! Reading protobuf's wire format: a position in the input, from which values are read.
//!
//! A nested record is not a separate slice: its loop ends where the record ends, but reads are
//! checked against the end of the whole input. So a number near the end of a record is read as fast
//! as any other. A number that goes past the end of its record is detected when the loop ends.
//!
//! Everything is passed by value: the position stays in a register across the calls of the loop.

use super::varint::fold;
use crate::DecodeError;
use crate::plan::Op;

/// What a record's tag says of the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Delimited,
    StartGroup,
    EndGroup,
    Fixed32,
}

impl WireType {
    /// The type in a tag's low bits; 6 and 7 are none.
    #[inline]
    pub(super) fn of(tag: u32) -> Result<WireType, DecodeError> {
        match tag & 7 {
            0 => Ok(WireType::Varint),
            1 => Ok(WireType::Fixed64),
            2 => Ok(WireType::Delimited),
            3 => Ok(WireType::StartGroup),
            4 => Ok(WireType::EndGroup),
            5 => Ok(WireType::Fixed32),
            _ => Err(DecodeError::Malformed),
        }
    }
}

/// A place in the input.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'i> {
    pub(super) input: &'i [u8],
    /// At most `input.len()`.
    pub(super) at: usize,
}

impl<'i> Cursor<'i> {
    /// The next byte, which stays.
    #[inline(always)]
    pub(super) fn first(&self) -> Result<u8, DecodeError> {
        self.input.get(self.at).copied().ok_or(DecodeError::Truncated)
    }

    /// A varint of at most 10 bytes.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = self.first()?;
        if first < 0x80 {
            self.at += 1;
            return Ok(u64::from(first));
        }
        match self.input.get(self.at + 1) {
            Some(&second) if second < 0x80 => {
                self.at += 2;
                Ok(u64::from(first & 0x7f) | u64::from(second) << 7)
            }
            _ => {
                let (value, bytes) = long_varint(self.input, self.at)?;
                self.at += bytes;
                Ok(value)
            }
        }
    }

    /// A tag, which is a varint of 32 bits; its field number is not 0.
    #[inline]
    pub(super) fn tag(&mut self) -> Result<u32, DecodeError> {
        let tag = u32::try_from(self.varint()?).map_err(|_| DecodeError::Malformed)?;
        if tag >> 3 == 0 { Err(DecodeError::Malformed) } else { Ok(tag) }
    }

    /// Whether the tag of `op` comes next; it is passed over then.
    #[inline(always)]
    pub(super) fn take_tag(&mut self, op: &Op) -> bool {
        let tag = op.tag.to_le_bytes();
        let len = usize::from(op.tag_bytes);
        let next = match len {
            1 => self.input.get(self.at) == Some(&tag[0]),
            2..=5 => self.input.get(self.at..self.at + len) == Some(&tag[..len]),
            _ => false,
        };
        self.at += if next { len } else { 0 };
        next
    }

    /// `N` bytes as they are.
    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let value = *self.input[self.at..].first_chunk().ok_or(DecodeError::Truncated)?;
        self.at += N;
        Ok(value)
    }

    /// A length, and where the bytes of that length end: at most at `end`.
    #[inline(always)]
    pub(super) fn delimited(&mut self, end: usize) -> Result<usize, DecodeError> {
        let len = self.varint()?;
        let stop = (self.at as u64).saturating_add(len);
        if stop > end as u64 { Err(DecodeError::Truncated) } else { Ok(stop as usize) }
    }

    /// The bytes of a delimited record that lies before `end`.
    #[inline(always)]
    pub(super) fn bytes(&mut self, end: usize) -> Result<&'i [u8], DecodeError> {
        let stop = self.delimited(end)?;
        let bytes = &self.input[self.at..stop];
        self.at = stop;
        Ok(bytes)
    }

    /// Passes over what follows `tag`, groups within groups to `depth`.
    pub(super) fn skip(&mut self, tag: u32, end: usize, depth: u32) -> Result<(), DecodeError> {
        match WireType::of(tag)? {
            WireType::Varint => self.varint().map(|_| ()),
            WireType::Fixed64 => self.fixed::<8>().map(|_| ()),
            WireType::Fixed32 => self.fixed::<4>().map(|_| ()),
            WireType::Delimited => self.bytes(end).map(|_| ()),
            WireType::StartGroup => self.skip_group(tag, end, depth),
            WireType::EndGroup => Err(DecodeError::Malformed),
        }
    }

    /// Passes over the rest of the group that `start` began, its end included.
    fn skip_group(&mut self, start: u32, end: usize, depth: u32) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
        let stop = start - WireType::StartGroup as u32 + WireType::EndGroup as u32;
        loop {
            if self.at >= end {
                return Err(DecodeError::Truncated);
            }
            let tag = self.tag()?;
            if tag == stop {
                return Ok(());
            }
            self.skip(tag, end, depth)?;
        }
    }
}

/// A varint of more than two bytes, and its length.
#[inline]
fn long_varint(input: &[u8], at: usize) -> Result<(u64, usize), DecodeError> {
    let from = &input[at..];
    let (Some(chunk), Some([ninth, tenth])) = (from.first_chunk::<8>(), from.get(8..10)) else {
        return varint_at_the_end(from);
    };
    let word = u64::from_le_bytes(*chunk);
    let stops = !word & 0x8080_8080_8080_8080;
    if stops != 0 {
        // All bits up to the lowest that stops.
        let used = stops ^ (stops - 1);
        return Ok((fold(word & used), stops.trailing_zeros() as usize / 8 + 1));
    }
    let value = fold(word) | u64::from(ninth & 0x7f) << 56;
    match (*ninth, *tenth) {
        (0..0x80, _) => Ok((value, 9)),
        // What does not fit 64 bits is dropped, as every implementation does.
        (_, tenth @ 0..0x80) => Ok((value | u64::from(tenth) << 63, 10)),
        _ => Err(DecodeError::Malformed),
    }
}

/// Within the last bytes of the input.
#[cold]
fn varint_at_the_end(from: &[u8]) -> Result<(u64, usize), DecodeError> {
    let mut value = 0;
    for (index, byte) in from.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(DecodeError::Truncated)
}
