//! Validates a received image (M26).
//!
//! One pass over the reachable structs reads each as often as something points to it. That takes no
//! more time than the image is long, because each visit is paid from a budget of as many bytes
//! (M26, 3). Images that alias are not refused; they only run out of budget.

use petasos_schema::LAYOUT_VERSION;

use super::HEADER_BYTES;
use super::check::{self, Bad, Key, load};
use crate::plan::{EntryPlan, Plan, Step, ValueKind};
use crate::utf8;
use crate::{DEPTH_MAX, DecodeError, MESSAGE_BYTES_MAX};

/// Judges an image of the plan's message. Bytes behind it are not looked at (M20).
///
/// Once it is accepted, and while nobody writes it, any field of the message can be read without a
/// further check (M27); where it begins at a multiple of 8, in place (M25).
///
/// # Errors
/// If any rule of M26 is broken. The sender's fault, always.
pub fn validate(plan: Plan<'_>, image: &[u8]) -> Result<(), DecodeError> {
    let image = framed(image, plan.bytes())?;
    let mut validator = Validator { image, left: image.len() - HEADER_BYTES };
    validator.message(plan, HEADER_BYTES, DEPTH_MAX)
}

/// The bytes of an image whose header is as M20 says, with room for the root.
#[inline(always)]
fn framed(image: &[u8], root_bytes: u32) -> Result<&[u8], DecodeError> {
    let header = image.first_chunk::<HEADER_BYTES>().ok_or(DecodeError::Truncated)?;
    let header = u64::from_le_bytes(*header);
    let bytes = header as u32 as usize;
    if header >> 32 != u64::from(LAYOUT_VERSION) || !bytes.is_multiple_of(8) {
        return Err(DecodeError::Malformed);
    }
    if bytes > MESSAGE_BYTES_MAX {
        return Err(DecodeError::TooLarge);
    }
    if bytes < HEADER_BYTES + root_bytes as usize {
        return Err(DecodeError::Malformed);
    }
    image.get(..bytes).ok_or(DecodeError::Truncated)
}

struct Validator<'i> {
    image: &'i [u8],
    /// Bytes of objects that may still be pointed to.
    left: usize,
}

impl From<Bad> for DecodeError {
    fn from(Bad: Bad) -> DecodeError {
        DecodeError::Malformed
    }
}

impl<'i> Validator<'i> {
    /// The struct at `at`, which lies within the image.
    fn message(&mut self, plan: Plan<'_>, at: usize, depth: u32) -> Result<(), DecodeError> {
        // The first step is the only one that every struct has, and there is seldom anything to do.
        let (_, steps) = plan.steps().split_first().expect("a struct begins with `Unknown`");
        if load(self.image, at) != [0; 8] {
            self.unknown(at)?;
        }
        steps.iter().try_for_each(|step| self.step(plan, step, at, depth))
    }

    /// The struct at `at`, one level further down.
    #[inline(always)]
    fn nested(&mut self, plan: Plan<'_>, at: usize, depth: u32) -> Result<(), DecodeError> {
        match depth.checked_sub(1) {
            Some(depth) => self.message(plan, at, depth),
            None => Err(DecodeError::TooDeep),
        }
    }

    #[inline(always)]
    fn step(
        &mut self,
        plan: Plan<'_>,
        step: &Step,
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let place = |offset: u32| at + offset as usize;
        match *step {
            Step::Unknown { offset } => self.unknown(place(offset)),
            Step::Text { offset } => self.text(place(offset)),
            Step::Blob { offset } => self.array(place(offset), 1).map(|_| ()),
            Step::Link { offset, message } => {
                match self.object(place(offset), plan.other(message).bytes() as usize)? {
                    Some(to) => self.nested(plan.other(message), to, depth),
                    None => Ok(()),
                }
            }
            Step::Numbers { offset, element_bytes } => {
                self.array(place(offset), element_bytes).map(|_| ())
            }
            Step::Bool { offset } => Ok(check::bools(&[self.image[place(offset)]])?),
            Step::Absent { offset, word, mask, bytes } => {
                Ok(check::absent(&self.image[at..], (word, mask), (offset, bytes))?)
            }
            Step::Spare { offset, mask } => Ok(check::spare(&self.image[at..], offset, mask)?),
            Step::Messages { offset, message } => {
                self.messages(plan.other(message), place(offset), depth)
            }
            Step::Struct { offset, message } => {
                self.nested(plan.other(message), place(offset), depth)
            }
            Step::Map { offset, entry } => self.map(plan, plan.entry(entry), place(offset), depth),
            Step::OneOf { offset, first, count } => {
                let case = u32::from_le_bytes(load(self.image, place(offset)));
                self.member(plan, (first, count), case, at, depth)
            }
            Step::Texts { offset } => self.each(place(offset), Self::text),
            Step::Blobs { offset } => self.each(place(offset), |this, at| {
                this.array(at, 1)?;
                Ok(())
            }),
            Step::Bools { offset } => {
                let (start, len) = self.array(place(offset), 1)?;
                Ok(check::bools(&self.image[start..start + len])?)
            }
        }
    }

    /// Where the object of `bytes` lies that the word at `at` points to; `None` if it is 0.
    #[inline(always)]
    fn object(&mut self, at: usize, bytes: usize) -> Result<Option<usize>, DecodeError> {
        match u64::from_le_bytes(load(self.image, at)) {
            0 => Ok(None),
            distance => self.target(at, distance, bytes).map(Some),
        }
    }

    #[inline(always)]
    fn target(&mut self, at: usize, distance: u64, bytes: usize) -> Result<usize, DecodeError> {
        let to = at.wrapping_add(distance as usize);
        let bytes = bytes.next_multiple_of(8);
        let is_inside = to >= HEADER_BYTES
            && to <= self.image.len()
            && bytes <= self.image.len() - to
            && to.is_multiple_of(8);
        if !is_inside || bytes > self.left {
            return Err(DecodeError::Malformed);
        }
        self.left -= bytes;
        Ok(to)
    }

    /// Where the array lies that the part at `at` points to, and its number of elements; nothing is
    /// anywhere if there are none.
    #[inline(always)]
    fn array(&mut self, at: usize, element_bytes: u32) -> Result<(usize, usize), DecodeError> {
        let part: [u8; 16] = load(self.image, at);
        let len = u32::from_le_bytes(load(&part, 8)) as usize;
        if len == 0 {
            return Ok((HEADER_BYTES, 0));
        }
        // Less than 2^64: both are below 2^32.
        let bytes = len * element_bytes as usize;
        match u64::from_le_bytes(load(&part, 0)) {
            0 => Err(DecodeError::Malformed),
            distance => Ok((self.target(at, distance, bytes)?, len)),
        }
    }

    #[inline(always)]
    fn text(&mut self, at: usize) -> Result<(), DecodeError> {
        let (start, len) = self.array(at, 1)?;
        utf8::check(&self.image[start..start + len])
    }

    #[cold]
    fn unknown(&mut self, at: usize) -> Result<(), DecodeError> {
        const BLOB_BYTES: usize = 16;
        if let Some(blob) = self.object(at, BLOB_BYTES)? {
            self.array(blob, 1)?;
        }
        Ok(())
    }

    /// Strings or bytes.
    fn each(
        &mut self,
        at: usize,
        one: impl Fn(&mut Self, usize) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        const PART_BYTES: usize = 16;
        let (start, len) = self.array(at, PART_BYTES as u32)?;
        (0..len).try_for_each(|index| one(self, start + index * PART_BYTES))
    }

    fn messages(&mut self, plan: Plan<'_>, at: usize, depth: u32) -> Result<(), DecodeError> {
        let (start, len) = self.array(at, plan.bytes())?;
        let bytes = plan.bytes() as usize;
        (0..len).try_for_each(|index| self.nested(plan, start + index * bytes, depth))
    }

    fn map(
        &mut self,
        plan: Plan<'_>,
        entry: &EntryPlan,
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        let (start, len) = self.array(at, entry.bytes)?;
        let steps = plan.entry_steps(entry);
        let mut last = None;
        for index in 0..len {
            let at = start + index * entry.bytes as usize;
            steps.iter().try_for_each(|step| self.step_of_entry(plan, step, at, depth))?;
            let key = Some(self.key(entry.key.kind, at));
            if key <= last {
                return Err(DecodeError::Malformed);
            }
            last = key;
        }
        Ok(())
    }

    /// Entries have few kinds of steps, but a step that is not inlined ends the recursion of those
    /// that are.
    fn step_of_entry(
        &mut self,
        plan: Plan<'_>,
        step: &Step,
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        self.step(plan, step, at, depth)
    }

    /// The key of the entry at `at`, which was found valid.
    #[inline(always)]
    fn key(&self, kind: ValueKind, at: usize) -> Key<'i> {
        let image = self.image;
        let entry = &image[at..];
        Key::of(kind, entry, || {
            let distance = u64::from_le_bytes(load(entry, 0));
            let len = u32::from_le_bytes(load(entry, 8)) as usize;
            let start = if len == 0 { at } else { at.wrapping_add(distance as usize) };
            &image[start..start + len]
        })
    }

    fn member(
        &mut self,
        plan: Plan<'_>,
        (first, count): (u32, u16),
        case: u32,
        at: usize,
        depth: u32,
    ) -> Result<(), DecodeError> {
        if case == 0 {
            return Ok(());
        }
        let member = plan.member(Step::members(first, count), case);
        match member.ok_or(DecodeError::Malformed)?.step {
            // Readers follow it without a look, and a pointer of 0 leads to itself.
            Some(Step::Link { offset, .. }) if load(self.image, at + offset as usize) == [0; 8] => {
                Err(DecodeError::Malformed)
            }
            Some(step) => self.step_of_entry(plan, &step, at, depth),
            None => Ok(()),
        }
    }
}
