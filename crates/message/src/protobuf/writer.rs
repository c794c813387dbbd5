//! Writing protobuf's wire format from its end to its beginning.
//!
//! What stands before something else is often its length: backwards this is known when its turn
//! comes. The memory grows as needed, and what was written stays at its end.
//!
//! The place in the output is not kept here but passed along, so that it stays in a register from
//! field to field.
//!
//! Invariant: an [`At`] is within the memory of the writer that gave it, which never shrinks, and
//! all behind the latest one is written.

use std::cell::Cell;

use crate::MESSAGE_BYTES_MAX;
use crate::plan::Op;

/// The bits that a varint takes, a multiple of 8.
#[inline(always)]
fn varint_bits(value: u64) -> u32 {
    // 1 + ⌊bits − 1 / 7⌋ bytes for 1 to 64 bits, without a division.
    (((value | 1).ilog2() * 9 + 73) >> 3) & !7
}

/// Spreads 56 bits to eight groups of seven, each in a byte: halves move apart, then their halves.
#[inline(always)]
fn unfold(value: u64) -> u64 {
    // With x = low + high, low + (high << n) is x + high * (2^n - 1).
    let word = value + (value & 0x00ff_ffff_f000_0000) * 15;
    let word = word + (word & 0x0fff_c000_0fff_c000) * 3;
    word + (word & 0x3f80_3f80_3f80_3f80)
}

/// A signed number as an unsigned one that is small where the number is near 0.
#[inline(always)]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Memory that a writer begins with.
const SPARE_BYTES_MIN: usize = 4 << 10;
/// The most memory that a thread keeps for its next writer.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The pass cannot go on: the output is too large, unless whoever drives the writer knows better.
#[derive(Debug)]
pub(super) struct Stopped;

/// Where the output begins now.
pub(super) type Place = Result<At, Stopped>;

/// The first byte that is written, from the start of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(usize);

/// The memory of an output.
pub(super) struct Writer {
    memory: Box<[u8]>,
}

impl Writer {
    /// A writer, and where its output begins: at the end.
    #[inline(always)]
    pub(super) fn new() -> (Writer, At) {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let memory = spare.unwrap_or_else(|| vec![0; SPARE_BYTES_MIN].into_boxed_slice());
        let at = At(memory.len());
        (Writer { memory }, at)
    }

    /// Leaves the memory to the thread's next writer.
    #[inline(always)]
    pub(super) fn recycle(self) {
        if self.memory.len() <= SPARE_BYTES_MAX {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(self.memory)));
        }
    }

    /// Bytes written so far.
    #[inline(always)]
    pub(super) fn len(&self, at: At) -> usize {
        self.memory.len() - at.0
    }

    /// What was written.
    #[inline(always)]
    pub(super) fn written(&self, at: At) -> &[u8] {
        &self.memory[at.0..]
    }

    /// Sees to it that there are `bytes` bytes before what was written.
    #[inline(always)]
    fn room(&mut self, at: At, bytes: usize) -> Place {
        if at.0 < bytes { self.grow(at, bytes) } else { Ok(at) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: At, bytes: usize) -> Place {
        let len = self.len(at);
        if len + bytes > MESSAGE_BYTES_MAX + size_of::<u64>() {
            return Err(Stopped);
        }
        let capacity = (2 * self.memory.len()).max((len + bytes).next_power_of_two());
        let mut memory = vec![0; capacity].into_boxed_slice();
        let new = At(capacity - len);
        memory[new.0..].copy_from_slice(self.written(at));
        self.memory = memory;
        Ok(new)
    }

    /// The first `bits` bits of a word, whole bytes, 8 to 64; it has no others.
    #[inline(always)]
    fn word(&mut self, at: At, word: u64, bits: u32) -> Place {
        let at = self.room(at, size_of::<u64>())?;
        Ok(self.put(at, (word << (64 - bits)).to_le_bytes(), bits as usize / 8))
    }

    /// The last `bytes` bytes of `word`. What is before them is written over later.
    #[inline(always)]
    fn put<const N: usize>(&mut self, At(end): At, word: [u8; N], bytes: usize) -> At {
        debug_assert!(N <= end && bytes <= N, "callers see to the room");
        // SAFETY: callers saw to at least `N` bytes before `end`, which is within the memory.
        unsafe { self.memory.as_mut_ptr().add(end - N).cast::<[u8; N]>().write(word) };
        At(end - bytes)
    }

    /// The tag of a field.
    #[inline(always)]
    fn tag(&mut self, at: At, op: &Op) -> Place {
        let at = self.room(at, size_of::<u64>())?;
        Ok(self.put_tag(at, op))
    }

    /// The tag of a field, where there is room for eight bytes.
    #[inline(always)]
    fn put_tag(&mut self, at: At, op: &Op) -> At {
        let word = op.tag_end.to_le_bytes();
        if op.tag_bytes > 4 {
            let at = self.put(at, word, 4);
            return self.put(at, [op.tag as u8], 1);
        }
        self.put(at, word, op.tag_bytes.into())
    }

    /// A varint of up to 10 bytes.
    #[inline(always)]
    pub(super) fn varint(&mut self, at: At, value: u64) -> Place {
        if value < 0x80 {
            let at = self.room(at, 1)?;
            return Ok(self.put(at, [value as u8], 1));
        }
        if value >> 56 != 0 {
            return self.long_varint(at, value);
        }
        let at = self.room(at, size_of::<u64>())?;
        Ok(self.put_varint(at, value))
    }

    /// A varint of two to eight bytes, where there is room for eight.
    #[inline(always)]
    fn put_varint(&mut self, at: At, value: u64) -> At {
        if value < 0x4000 {
            let word = value as u16 & 0x7f | 0x80 | (value as u16) << 1 & 0x7f00;
            return self.put(at, word.to_le_bytes(), 2);
        }
        let bits = varint_bits(value);
        // Each byte but the last has its high bit set.
        let word = (unfold(value) << (64 - bits)) | HIGH_BITS << (64 - bits) & HIGH_BITS >> 8;
        self.put(at, word.to_le_bytes(), bits as usize / 8)
    }

    /// A varint of nine or ten bytes: most of all a negative number of 32 bits.
    #[inline(never)]
    fn long_varint(&mut self, at: At, value: u64) -> Place {
        let is_ten = (value >> 63) as u32;
        // The tenth byte is 1, or not there; the ninth has its high bit set if it is.
        let last = value >> 56 & 0x7f | (u64::from(is_ten) * 0x180);
        let at = self.word(at, last, 8 + 8 * is_ten)?;
        self.word(at, unfold(value & (u64::MAX >> 8)) | HIGH_BITS, 64)
    }

    /// A field that is a varint: also the tag and the length of what was written before.
    #[inline(always)]
    pub(super) fn varint_field(&mut self, at: At, op: &Op, value: u64) -> Place {
        let at = self.room(at, 2 * size_of::<u64>())?;
        if value < 0x80 {
            let at = self.put(at, [value as u8], 1);
            return Ok(self.put_tag(at, op));
        }
        if value >> 56 != 0 {
            let at = self.long_varint(at, value)?;
            return self.tag(at, op);
        }
        let at = self.put_varint(at, value);
        Ok(self.put_tag(at, op))
    }

    /// A field of four or eight bytes as they are.
    #[inline(always)]
    pub(super) fn fixed_field<const N: usize>(&mut self, at: At, op: &Op, value: [u8; N]) -> Place {
        let at = self.room(at, 2 * size_of::<u64>())?;
        let at = self.put(at, value, N);
        Ok(self.put_tag(at, op))
    }

    /// Bytes as they are.
    #[inline(always)]
    pub(super) fn raw(&mut self, at: At, bytes: &[u8]) -> Place {
        let At(end) = self.room(at, bytes.len())?;
        let start = end - bytes.len();
        copy(&mut self.memory[start..end], bytes);
        Ok(At(start))
    }
}

/// As [`petasos_buf::copy_short`], which leaves less than eight bytes to a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match (from.first_chunk::<4>(), from.last_chunk::<4>()) {
        (Some(first), Some(last)) if from.len() < 8 => {
            to[..4].copy_from_slice(first);
            to[from.len() - 4..].copy_from_slice(last);
        }
        (Some(_), _) => petasos_buf::copy_short(to, from),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::cursor::Cursor;

    #[test]
    fn varints_of_every_length_come_back() {
        let values = (0..64).flat_map(|bit| [(1 << bit) - 1, 1u64 << bit]).chain([u64::MAX]);
        for value in values {
            let (mut writer, at) = Writer::new();
            let at = writer.raw(at, &[0xee; 10]).expect("small");
            let at = writer.varint(at, value).expect("small");
            let bytes = (u64::BITS - value.leading_zeros()).div_ceil(7).max(1);
            assert_eq!(writer.len(at) - 10, bytes as usize, "{value}");
            let mut back = Cursor { input: writer.written(at), at: 0 };
            assert_eq!(back.varint(), Ok(value));
            assert_eq!(writer.written(at)[back.at..], [0xee; 10], "what was written stays");
        }
    }

    #[test]
    fn what_was_written_stays_when_the_memory_grows() {
        let (mut writer, mut at) = Writer::new();
        let mut all = Vec::new();
        for byte in 0..100 {
            at = writer.raw(at, &[byte; 1000]).expect("small");
            all.splice(0..0, [byte; 1000]);
        }
        assert_eq!(writer.written(at), all);
    }

    #[test]
    fn bytes_of_every_length_are_copied_whole() {
        let bytes: Vec<u8> = (1..100).collect();
        for len in 0..bytes.len() {
            let (mut writer, at) = Writer::new();
            let at = writer.raw(at, &[0xee; 3]).expect("small");
            let at = writer.raw(at, &bytes[..len]).expect("small");
            assert_eq!(*writer.written(at), [&bytes[..len], &[0xee; 3]].concat());
        }
    }
}
