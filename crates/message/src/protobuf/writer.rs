//! Writes protobuf's wire format from its end to its beginning.
//!
//! A value is often preceded by its length. Backwards, that length is known when it has to be
//! written. The memory grows as needed, and what was written stays at its end.
//!
//! The position in the output is not stored here but passed along, so that it stays in a register
//! from field to field. Room is reserved once per field. A field is written in whole words, and
//! later words overwrite the surplus bytes of earlier ones; hence the margin.
//!
//! Invariant: an [`At`] is within its writer's memory, and everything after the latest one is
//! written. Before a position from [`Writer::room`] there are [`MARGIN_BYTES`] more than were asked
//! for.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

use super::varint::{unfold, unfold4, varint_bits};
use crate::MESSAGE_BYTES_MAX;
use crate::plan::Op;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Room for a tag and a number, and for the words that they are written in.
const MARGIN_BYTES: usize = 32;
/// Memory on the stack of whoever writes, which suffices for most messages.
const SCRATCH_BYTES: usize = 1 << 10;
/// Memory that a writer goes on with.
const SPARE_BYTES_MIN: usize = 8 << 10;
/// The most memory that a thread keeps for its next writer.
const SPARE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// What a writer that needed more than its scratch left.
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// What a writer begins with.
pub(super) struct Scratch([MaybeUninit<u8>; SCRATCH_BYTES]);

impl Scratch {
    #[inline(always)]
    pub(super) fn new() -> Scratch {
        Scratch([const { MaybeUninit::uninit() }; SCRATCH_BYTES])
    }
}

/// The pass cannot go on: the output is too large, unless whoever drives the writer knows better.
#[derive(Debug)]
pub(super) struct Stopped;

/// Where the output begins now.
pub(super) type Place = Result<At, Stopped>;

/// The first byte that is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(NonNull<u8>);

/// The memory of an output.
pub(super) struct Writer<'s> {
    start: NonNull<u8>,
    end: NonNull<u8>,
    /// [`MARGIN_BYTES`] behind the start.
    floor: usize,
    /// Whether the memory is a boxed slice of the writer's own.
    is_owned: bool,
    scratch: PhantomData<&'s mut Scratch>,
}

impl Drop for Writer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_owned {
            self.recycle();
        }
    }
}

impl<'s> Writer<'s> {
    /// A writer, and where its output begins: at the end.
    #[inline(always)]
    pub(super) fn new(scratch: &'s mut Scratch) -> (Writer<'s>, At) {
        let start = NonNull::from(&mut scratch.0).cast();
        // SAFETY: the scratch has as many bytes.
        let writer = unsafe { Writer::of(start, SCRATCH_BYTES, false) };
        let at = At(writer.end);
        (writer, at)
    }

    /// # Safety
    /// `start` has `bytes` bytes for as long as the writer lives, of a leaked box if `is_owned`.
    #[inline(always)]
    unsafe fn of(start: NonNull<u8>, bytes: usize, is_owned: bool) -> Writer<'s> {
        // SAFETY: the memory's end.
        let end = unsafe { start.add(bytes) };
        let floor = start.addr().get() + MARGIN_BYTES;
        Writer { start, end, floor, is_owned, scratch: PhantomData }
    }

    /// Leaves the memory to the thread's next writer.
    #[cold]
    #[inline(never)]
    fn recycle(&mut self) {
        let memory = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes());
        // SAFETY: leaked by `grow`, and taken once: the writer is dropped.
        let memory = unsafe { Box::from_raw(memory) };
        if memory.len() <= SPARE_BYTES_MAX {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(memory)));
        }
    }

    fn bytes(&self) -> usize {
        self.end.addr().get() - self.start.addr().get()
    }

    /// Bytes written so far.
    #[inline(always)]
    pub(super) fn len(&self, at: At) -> usize {
        self.end.addr().get() - at.0.addr().get()
    }

    /// What was written.
    #[inline(always)]
    pub(super) fn written(&self, at: At) -> &[u8] {
        // SAFETY: from a place within the memory to its end all is written.
        unsafe { slice::from_raw_parts(at.0.as_ptr(), self.len(at)) }
    }

    /// Sees to it that there are `bytes` bytes before what was written, and [`MARGIN_BYTES`].
    #[inline(always)]
    fn room(&mut self, at: At, bytes: usize) -> Place {
        let left = at.0.addr().get() as isize - self.floor as isize;
        if left < bytes as isize { self.grow(at, bytes) } else { Ok(at) }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: At, bytes: usize) -> Place {
        let len = self.len(at);
        if len + bytes > MESSAGE_BYTES_MAX + MARGIN_BYTES {
            return Err(Stopped);
        }
        let needed = (len + bytes + MARGIN_BYTES).next_power_of_two();
        let memory = Box::leak(memory(needed.max(2 * self.bytes())));
        // SAFETY: a leaked box.
        let grown = unsafe { Writer::of(NonNull::from(&mut *memory).cast(), memory.len(), true) };
        // SAFETY: the new memory is larger than what was written, and ends after as many bytes.
        let new = unsafe {
            let new = grown.end.sub(len);
            at.0.copy_to_nonoverlapping(new, len);
            At(new)
        };
        *self = grown;
        Ok(new)
    }

    /// The last `bytes` bytes of a word of at most eight. What is before them is written over
    /// later. Within the margin of a place that [`Writer::room`] gave.
    #[inline(always)]
    fn put<const N: usize>(&mut self, At(end): At, word: [u8; N], bytes: usize) -> At {
        let least = self.start.addr().get() + N.max(bytes);
        debug_assert!(least <= end.addr().get() && N <= 8, "callers see to the room");
        // SAFETY: at least `N` and `bytes` bytes of the memory are before `end`: a field has at
        // most 15 bytes before its last word, which leaves more than a word of the margin.
        unsafe {
            end.sub(N).cast::<[u8; N]>().write(word);
            At(end.sub(bytes))
        }
    }

    /// The tag of a field, within the margin.
    #[inline(always)]
    fn put_tag(&mut self, at: At, op: &Op) -> At {
        self.put(at, op.tag_end.to_le_bytes(), op.tag_bytes.into())
    }

    /// A varint of up to 10 bytes, within the margin.
    #[inline(always)]
    fn put_varint(&mut self, at: At, value: u64) -> At {
        if value < 0x80 {
            return self.put(at, [value as u8], 1);
        }
        if value < 0x4000 {
            let word = value as u16 & 0x7f | 0x80 | (value as u16) << 1 & 0x7f00;
            return self.put(at, word.to_le_bytes(), 2);
        }
        if value < 1 << 28 {
            let spare = if value < 1 << 21 { 8 } else { 0 };
            let word = (unfold4(value as u32) | 0x80_8080 >> spare) << spare;
            return self.put(at, word.to_le_bytes(), 4 - spare / 8);
        }
        if value < 1 << 35 {
            let at = self.put(at, [(value >> 28) as u8], 1);
            let word = unfold4(value as u32 & 0x0fff_ffff) | 0x8080_8080;
            return self.put(at, word.to_le_bytes(), 4);
        }
        if value >> 56 != 0 {
            return self.put_long_varint(at, value);
        }
        let bits = varint_bits(value);
        // Each byte but the last has its high bit set.
        let word = (unfold(value) << (64 - bits)) | HIGH_BITS << (64 - bits) & HIGH_BITS >> 8;
        self.put(at, word.to_le_bytes(), bits as usize / 8)
    }

    /// A varint of nine or ten bytes: most of all a negative number of 32 bits.
    #[inline(never)]
    fn put_long_varint(&mut self, at: At, value: u64) -> At {
        let is_ten = (value >> 63) as usize;
        // The tenth byte is 1, or not there; the ninth has its high bit set if it is.
        let ninth = (value >> 56) as u8 & 0x7f | (is_ten as u8) << 7;
        let at = self.put(at, [1], is_ten);
        let at = self.put(at, [ninth], 1);
        let word = unfold(value & (u64::MAX >> 8)) | HIGH_BITS;
        self.put(at, word.to_le_bytes(), 8)
    }

    /// A varint of up to 10 bytes.
    #[inline(always)]
    pub(super) fn varint(&mut self, at: At, value: u64) -> Place {
        let at = self.room(at, 0)?;
        Ok(self.put_varint(at, value))
    }

    /// A field that is a varint: also the tag and the length of what was written before.
    #[inline(always)]
    pub(super) fn varint_field(&mut self, at: At, op: &Op, value: u64) -> Place {
        let at = self.room(at, 0)?;
        let at = self.put_varint(at, value);
        Ok(self.put_tag(at, op))
    }

    /// A field of four or eight bytes as they are.
    #[inline(always)]
    pub(super) fn fixed_field<const N: usize>(&mut self, at: At, op: &Op, value: [u8; N]) -> Place {
        let at = self.room(at, 0)?;
        let at = self.put(at, value, N);
        Ok(self.put_tag(at, op))
    }

    /// Bytes as they are, with their length and a tag.
    #[inline(always)]
    pub(super) fn leaf_field(&mut self, at: At, op: &Op, bytes: &[u8]) -> Place {
        let at = self.raw(at, bytes)?;
        let at = self.put_varint(at, bytes.len() as u64);
        Ok(self.put_tag(at, op))
    }

    /// Bytes as they are. The margin is still there.
    #[inline(always)]
    pub(super) fn raw(&mut self, at: At, bytes: &[u8]) -> Place {
        let At(end) = self.room(at, bytes.len())?;
        // SAFETY: there is room for as many bytes, which are not the memory's.
        unsafe {
            let start = end.sub(bytes.len());
            copy(bytes, start);
            Ok(At(start))
        }
    }
}

/// Memory of at least `bytes`, which the thread may have kept.
fn memory(bytes: usize) -> Box<[u8]> {
    match SPARE.try_with(Cell::take).ok().flatten() {
        Some(spare) if spare.len() >= bytes => spare,
        _ => vec![0; bytes.max(SPARE_BYTES_MIN)].into_boxed_slice(),
    }
}

/// As [`crate::arena::copy`], which leaves less than eight bytes to a call.
///
/// # Safety
/// `to` must be valid for writes of `bytes.len()` bytes that do not overlap with `bytes`.
#[inline(always)]
unsafe fn copy(bytes: &[u8], to: NonNull<u8>) {
    if bytes.len() >= 8 {
        // SAFETY: passed on.
        return unsafe { crate::arena::copy(bytes, to) };
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // SAFETY: either piece is within the bytes.
        (Some(first), Some(last)) => unsafe {
            to.cast().write(*first);
            to.add(bytes.len() - 4).cast().write(*last);
        },
        // SAFETY: an index of the bytes.
        _ => bytes.iter().enumerate().for_each(|(at, byte)| unsafe { to.add(at).write(*byte) }),
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
            let mut scratch = Scratch::new();
            let (mut writer, at) = Writer::new(&mut scratch);
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
        let mut scratch = Scratch::new();
        let (mut writer, mut at) = Writer::new(&mut scratch);
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
            let mut scratch = Scratch::new();
            let (mut writer, at) = Writer::new(&mut scratch);
            let at = writer.raw(at, &[0xee; 3]).expect("small");
            let at = writer.raw(at, &bytes[..len]).expect("small");
            assert_eq!(*writer.written(at), [&bytes[..len], &[0xee; 3]].concat());
        }
    }
}
