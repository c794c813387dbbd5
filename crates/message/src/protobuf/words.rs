//! The input as words that may begin at any byte, even near its end: missing bytes read as zeros.
//!
//! So a tag and a number are read in one piece. If the input ends within a number, the number reads
//! as if zeros followed. Its end is then past the input, which is how the error is detected.

use std::marker::PhantomData;

use super::varint::{fold, fold4};
use crate::DecodeError;

const WORD_BYTES: usize = size_of::<u64>();
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// An input of a word's length or more, or a copy of a shorter one with zeros behind it.
#[derive(Clone, Copy)]
pub(super) struct Words<'i> {
    start: *const u8,
    /// Where the last whole word begins.
    last: usize,
    input: PhantomData<&'i [u8]>,
}

impl<'i> Words<'i> {
    /// Words of `input`, which is copied to `short` if it is short.
    #[inline(always)]
    pub(super) fn of(input: &'i [u8], short: &'i mut [u8; WORD_BYTES]) -> Words<'i> {
        let input = if input.len() < WORD_BYTES {
            short[..input.len()].copy_from_slice(input);
            &short[..]
        } else {
            input
        };
        Words { start: input.as_ptr(), last: input.len() - WORD_BYTES, input: PhantomData }
    }

    /// The word that begins at `at`, the first byte lowest.
    #[inline(always)]
    pub(super) fn at(self, at: usize) -> u64 {
        if at <= self.last {
            return self.whole(at);
        }
        let missing = at - self.last;
        if missing >= WORD_BYTES { 0 } else { self.whole(self.last) >> (8 * missing) }
    }

    /// A word that is within the input.
    #[inline(always)]
    fn whole(self, at: usize) -> u64 {
        debug_assert!(at <= self.last, "a whole word");
        // SAFETY: a word begins at `last`, so one begins here.
        u64::from_le_bytes(unsafe { self.start.add(at).cast::<[u8; WORD_BYTES]>().read() })
    }

    /// The varint at `at`, and where it ends. At least five bytes of `rest` are those at `at`.
    #[inline(always)]
    pub(super) fn varint(self, rest: u64, at: usize) -> Result<(u64, usize), DecodeError> {
        if rest & 0x80 == 0 {
            return Ok((rest & 0x7f, at + 1));
        }
        if rest & 0x8000 == 0 {
            return Ok((rest & 0x7f | rest >> 1 & 0x3f80, at + 2));
        }
        if rest & 0x80_0000 == 0 {
            return Ok((fold4(rest as u32 & 0x7f_ffff).into(), at + 3));
        }
        let low = u64::from(fold4(rest as u32));
        if rest & 0x8000_0000 == 0 {
            return Ok((low, at + 4));
        }
        if rest & 0x80_0000_0000 == 0 {
            return Ok((low | rest >> 4 & 0x7_f000_0000, at + 5));
        }
        self.long_varint(at)
    }

    /// A varint of more than five bytes, and where it ends.
    #[inline(never)]
    fn long_varint(self, at: usize) -> Result<(u64, usize), DecodeError> {
        let word = self.at(at);
        let stops = !word & HIGH_BITS;
        if stops == 0 {
            return self.longest_varint(word, at);
        }
        // All bits up to the lowest that stops.
        let used = stops ^ (stops - 1);
        Ok((fold(word & used), at + stops.trailing_zeros() as usize / 8 + 1))
    }

    /// A varint of nine or ten bytes, the first eight of which are `word`.
    #[inline(always)]
    fn longest_varint(self, word: u64, at: usize) -> Result<(u64, usize), DecodeError> {
        let rest = self.at(at + WORD_BYTES);
        let value = fold(word) | (rest & 0x7f) << 56;
        if rest & 0x80 == 0 {
            Ok((value, at + 9))
        } else if rest & 0x8000 == 0 {
            // What does not fit 64 bits is dropped, as every implementation does.
            Ok((value | (rest >> 8 & 1) << 63, at + 10))
        } else {
            Err(DecodeError::Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::cursor::Cursor;

    #[test]
    fn words_near_the_end_have_zeros_behind_them() {
        let bytes: Vec<u8> = (1..=20).collect();
        for len in 0..bytes.len() {
            let mut short = [0; 8];
            let words = Words::of(&bytes[..len], &mut short);
            for at in 0..len + 10 {
                let mut expected = [0; 8];
                let there = &bytes[at.min(len)..len.min(at + 8).max(at.min(len))];
                expected[..there.len()].copy_from_slice(there);
                assert_eq!(words.at(at).to_le_bytes(), expected, "{at} of {len}");
            }
        }
    }

    #[test]
    fn varints_are_what_a_cursor_says_wherever_the_input_ends() {
        let values = (0..64).flat_map(|bit| [(1 << bit) - 1, 1u64 << bit]).chain([u64::MAX]);
        for value in values {
            let mut bytes = Vec::new();
            prost::encoding::encode_varint(value, &mut bytes);
            let len = bytes.len();
            for behind in 0..10 {
                bytes.resize(len + behind, 0xff);
                let mut short = [0; 8];
                let words = Words::of(&bytes, &mut short);
                assert_eq!(words.varint(words.at(0), 0), Ok((value, len)), "{value}, {behind}");
            }
            for cut in 1..len {
                let mut short = [0; 8];
                let words = Words::of(&bytes[..cut], &mut short);
                let (_, end) = words.varint(words.at(0), 0).expect("zeros follow");
                assert!(end > cut, "it ends behind the input");
                assert!(Cursor { input: &bytes[..cut], at: 0 }.varint().is_err());
            }
        }
        let mut short = [0; 8];
        let words = Words::of(&[0xff; 11], &mut short);
        assert_eq!(words.varint(words.at(0), 0), Err(DecodeError::Malformed));
    }
}
