//! Decoding by plan (M28 to M30): records in order, each into the part that its field has.
//!
//! The loop over a message's records is in `fields`, single values are in `value`, repeated fields
//! in `list` and `growth`, maps in `map`, and unknown fields in `unknown`.
//!
//! Invariants:
//! - input is never trusted: lengths are checked against the record that they are in, depth against
//!   [`DEPTH_MAX`], and memory against the limits before it is allocated (M30);
//! - time is linear in the input, except for sorting: a field that occurs again is merged in place,
//!   lists grow by doubling, and a map that is not ascending is sorted once, when no record can
//!   reach it any more;
//! - structs and arrays that later records may reach do not move while something refers to them;
//! - after an error the arena has half a message, and its owner drops it.

mod fields;
mod growth;
mod list;
mod map;
mod record;
mod unknown;
mod value;

use bytes::Bytes;

use self::fields::Frame;
use self::map::Unsorted;
use super::cursor::Cursor;
use super::stack::Stack;
use super::words::Words;
use crate::arena::Arena;
use crate::arena::Object;
use crate::plan::Plan;
use crate::{DecodeError, DecodeLimits, Input, MESSAGE_BYTES_MAX};

/// Decodes `input` as the message of `plan` into an arena that is otherwise empty.
pub(crate) fn decode<'a>(
    plan: Plan<'_>,
    input: &Input<'_>,
    limits: &DecodeLimits,
    arena: &'a Arena,
) -> Result<Object<'a>, DecodeError> {
    let (bytes, owner) = match input {
        Input::Borrowed(bytes) => (*bytes, None),
        Input::Owned(bytes) => (&bytes[..], Some(bytes)),
    };
    if bytes.len() > limits.message_bytes_max.min(MESSAGE_BYTES_MAX) {
        return Err(DecodeError::TooLarge);
    }
    let memory_bytes_max = limits.memory_bytes_max;
    let (mut short, mut stack) = ([0; 8], Stack::new());
    let words = Words::of(bytes, &mut short);
    let arena_bytes = arena.allocated_bytes() as u64;
    let is_granted = 2 * arena_bytes <= memory_bytes_max as u64;
    let mut decoder = Decoder {
        input: bytes,
        words,
        owner,
        arena,
        granted: if is_granted { arena_bytes } else { 0 },
        outside: 0,
        memory_bytes_max,
        unsorted: Vec::new(),
        plan,
        stack: &mut stack,
    };
    let root = decoder.object(u64::from(plan.bytes()))?;
    decoder.message(root, 0, bytes.len())?;
    decoder.sort_maps(0)?;
    Ok(root)
}

/// What is the same for all messages of one input.
struct Decoder<'a, 'p, 'i> {
    input: &'i [u8],
    words: Words<'i>,
    /// The owner of the input, if there is one: long `bytes` then stay where they are (M16).
    owner: Option<&'i Bytes>,
    arena: &'a Arena,
    /// Bytes of objects that may be made before the arena's memory is looked at again.
    granted: u64,
    /// Bytes that were taken beside the arena.
    outside: u64,
    memory_bytes_max: usize,
    unsorted: Vec<Unsorted<'a, 'p>>,
    /// Of the message that the loop over records is at.
    plan: Plan<'p>,
    /// The messages that the one that records are taken for is nested in.
    stack: &'i mut Stack<Frame<'a, 'p>>,
}

impl<'a, 'i> Decoder<'a, '_, 'i> {
    /// A place in the input.
    #[inline(always)]
    fn cursor(&self, at: usize) -> Cursor<'i> {
        Cursor { input: self.input, at }
    }

    /// A zeroed struct or array of `bytes`.
    #[inline(always)]
    fn object(&mut self, bytes: u64) -> Result<Object<'a>, DecodeError> {
        self.charge(bytes)?;
        // An object that is within the limits has less than 2^31 bytes.
        Ok(self.arena.object_by_plan(bytes as u32))
    }

    /// Sees that an object of `bytes` can be made within the limits (M30).
    #[inline(always)]
    fn charge(&mut self, bytes: u64) -> Result<(), DecodeError> {
        // Whatever begins at a multiple of 8 takes as much.
        match self.granted.checked_sub((bytes + 7) & !7) {
            Some(left) => {
                self.granted = left;
                Ok(())
            }
            None => self.charge_more(bytes),
        }
    }

    /// An arena that is full takes a chunk as large as it is, or as the object. So an arena of `n`
    /// bytes has at most 2`n` after as many bytes of objects, or after a larger one.
    #[cold]
    fn charge_more(&mut self, bytes: u64) -> Result<(), DecodeError> {
        let bytes = bytes.next_multiple_of(8);
        let arena = self.arena.allocated_bytes() as u64;
        let most = arena + arena.max(bytes) + self.outside;
        if most > self.memory_bytes_max as u64 || bytes > u64::from(OBJECT_BYTES_MAX) {
            return Err(DecodeError::TooLarge);
        }
        self.granted = arena.saturating_sub(bytes);
        Ok(())
    }

    /// [`Decoder::charge`] for memory beside the arena.
    #[cold]
    fn charge_outside(&mut self, bytes: u64) -> Result<(), DecodeError> {
        self.outside += bytes;
        self.granted = 0;
        self.charge_more(0)
    }
}

/// An object's size is a 32-bit number, and the highest bit is spare.
const OBJECT_BYTES_MAX: u32 = u32::MAX / 2 - 7;
