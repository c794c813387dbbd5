//! One walk that copies a message, object after object, into contiguous memory (M22).
//!
//! A struct is copied first, and everything about it (lengths, pointers, cases) is read from the
//! copy, because the source may change at any time (M23). Then each object that it points to is
//! copied, and the copy's pointer is set. Nothing is read twice, so no value can change after it
//! was checked.
//!
//! A trusted source was built or checked by this process, so its contents are not checked. For an
//! untrusted source, everything that M26 requires holds for the copy, or there is no image. A
//! budget of the size of the largest image bounds both.

use super::check::{self, Bad, Key, load};
use super::sink::{Piece, Sink};
use super::source::{CompactError, Source};
use super::{HEADER_BYTES, Image};
use crate::plan::{EntryPlan, Plan, Step, ValueKind};
use crate::utf8;
use crate::{ADOPT_BYTES_MIN, DEPTH_MAX, MESSAGE_BYTES_MAX};

/// Makes an image of the message whose struct lies at the address `root` of `source`. Long leaves
/// that are only numbers or bytes are not copied but follow as the image's tail (M24).
///
/// # Errors
/// If the message breaks a limit (M18), or, where the source is not trusted, any rule of M26.
pub fn compact(plan: Plan<'_>, source: &impl Source, root: u64) -> Result<Image, CompactError> {
    compact_within(plan, source, root, MESSAGE_BYTES_MAX)
}

/// The same, of a message whose image has at most `bytes_max`.
///
/// # Errors
/// As for [`compact`]; [`CompactError::TooLarge`] also if `bytes_max` is exceeded.
pub(crate) fn compact_within(
    plan: Plan<'_>,
    source: &impl Source,
    root: u64,
    bytes_max: usize,
) -> Result<Image, CompactError> {
    let bytes_max = bytes_max.min(MESSAGE_BYTES_MAX) & !7;
    let left = bytes_max.checked_sub(HEADER_BYTES).ok_or(CompactError::TooLarge)?;
    let mut walk = Walk { source, sink: Sink::new(source.bytes_hint()), left };
    let object = walk.copied(root, u64::from(plan.bytes()))?;
    walk.message(plan, Place { object, offset: 0, from: root }, DEPTH_MAX)?;
    Ok(walk.sink.finish())
}

struct Walk<'w, S> {
    source: &'w S,
    sink: Sink,
    /// Bytes that the image may still have.
    left: usize,
}

/// A struct, an entry or a part: where its copy is, and the address that it was copied from.
#[derive(Clone, Copy)]
struct Place {
    object: Piece,
    offset: u32,
    from: u64,
}

impl Place {
    #[inline(always)]
    fn part(self, offset: u32) -> Place {
        Place { offset: self.offset + offset, from: self.from.wrapping_add(offset.into()), ..self }
    }
}

impl From<Bad> for CompactError {
    fn from(Bad: Bad) -> CompactError {
        CompactError::Malformed
    }
}

impl<S: Source> Walk<'_, S> {
    /// What the struct at `place` points to, in the order of M5.
    fn message(&mut self, plan: Plan<'_>, place: Place, depth: u32) -> Result<(), CompactError> {
        plan.steps().iter().try_for_each(|step| self.step(plan, step, place, depth))
    }

    /// The struct at `place`, one level further down.
    fn nested(&mut self, plan: Plan<'_>, place: Place, depth: u32) -> Result<(), CompactError> {
        match depth.checked_sub(1) {
            Some(depth) => self.message(plan, place, depth),
            None => Err(CompactError::TooDeep),
        }
    }

    fn step(
        &mut self,
        plan: Plan<'_>,
        step: &Step,
        place: Place,
        depth: u32,
    ) -> Result<(), CompactError> {
        match *step {
            Step::Unknown { offset } => self.unknown(place.part(offset)),
            Step::Text { offset } => self.text(place.part(offset)).map(|_| ()),
            Step::Blob { offset } => self.numbers(place.part(offset), 1),
            Step::Numbers { offset, element_bytes } => {
                self.numbers(place.part(offset), element_bytes)
            }
            Step::Bools { offset } => self.bools(place.part(offset)),
            Step::Link { offset, message } => {
                let (plan, part) = (plan.other(message), place.part(offset));
                match self.linked(part, plan.bytes())? {
                    Some(to) => self.nested(plan, to, depth),
                    None => Ok(()),
                }
            }
            Step::Struct { offset, message } => {
                self.nested(plan.other(message), place.part(offset), depth)
            }
            Step::Texts { offset } => {
                self.each(place.part(offset), |this, part| this.text(part).map(|_| ()))
            }
            Step::Blobs { offset } => {
                self.each(place.part(offset), |this, part| this.numbers(part, 1))
            }
            Step::Messages { offset, message } => {
                self.messages(plan.other(message), place.part(offset), depth)
            }
            Step::Map { offset, entry } => {
                self.map(plan, plan.entry(entry), place.part(offset), depth)
            }
            Step::OneOf { offset, first, count } => {
                let case = u32::from_le_bytes(self.load(place.part(offset)));
                if case == 0 {
                    return Ok(());
                }
                let member = plan.member(Step::members(first, count), case);
                match member.ok_or(CompactError::Malformed)?.step {
                    // As in validation: a case that is a message has one.
                    Some(Step::Link { offset, .. }) if self.load(place.part(offset)) == [0; 8] => {
                        Err(CompactError::Malformed)
                    }
                    Some(step) => self.step(plan, &step, place, depth),
                    None => Ok(()),
                }
            }
            Step::Bool { .. } | Step::Absent { .. } | Step::Spare { .. } => {
                self.look(plan, step, place)
            }
        }
    }

    /// What is only looked at.
    #[inline(always)]
    fn look(&self, plan: Plan<'_>, step: &Step, place: Place) -> Result<(), CompactError> {
        if S::IS_TRUSTED {
            return Ok(());
        }
        let here = &self.sink.bytes(place.object)[place.offset as usize..];
        Ok(match *step {
            Step::Bool { offset } => check::bools(&here[offset as usize..=offset as usize]),
            Step::Absent { offset, word, mask, bytes } => {
                check::absent(here, (word, mask), (offset, bytes))
            }
            Step::Spare { offset, mask } => check::spare(here, offset, mask),
            _ => unreachable!("of plan {}", plan.bytes()),
        }?)
    }

    #[inline(always)]
    fn load<const N: usize>(&self, place: Place) -> [u8; N] {
        load(self.sink.bytes(place.object), place.offset as usize)
    }

    /// A copy of `bytes` at the address `from`.
    #[inline(always)]
    fn copied(&mut self, from: u64, bytes: u64) -> Result<Piece, CompactError> {
        let bytes = self.charged(bytes)?;
        let object = self.sink.object(bytes);
        self.source.copy(from, self.sink.bytes_mut(object))?;
        Ok(object)
    }

    /// `bytes`, taken from what is left.
    #[inline(always)]
    fn charged(&mut self, bytes: u64) -> Result<u32, CompactError> {
        match (self.left as u64).checked_sub(bytes.next_multiple_of(8)) {
            Some(left) => {
                self.left = left as usize;
                Ok(bytes as u32)
            }
            None => Err(CompactError::TooLarge),
        }
    }

    /// A copy of the object of `bytes` that the pointer at `part` leads to, if it is not 0.
    #[inline(always)]
    fn linked(&mut self, part: Place, bytes: u32) -> Result<Option<Place>, CompactError> {
        match u64::from_le_bytes(self.load(part)) {
            0 => Ok(None),
            distance => {
                let from = part.from.wrapping_add(distance);
                let object = self.copied(from, bytes.into())?;
                self.sink.point(part.object, part.offset, object);
                Ok(Some(Place { object, offset: 0, from }))
            }
        }
    }

    /// The array at `part`: its number of elements, and where it was copied from; `None` if it is
    /// empty. What its copy does not need is made zero: `cap` is the length.
    #[inline(always)]
    fn array(&mut self, part: Place) -> Result<Option<(u32, u64)>, CompactError> {
        let (at, bytes) = (part.offset as usize, self.sink.bytes_mut(part.object));
        let len = u32::from_le_bytes(load(bytes, at + 8));
        let distance = u64::from_le_bytes(load(bytes, at));
        if len == 0 {
            bytes[at..at + 16].fill(0);
            return Ok(None);
        }
        bytes[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
        match distance {
            0 => Err(CompactError::Malformed),
            _ => Ok(Some((len, part.from.wrapping_add(distance)))),
        }
    }

    /// A copy of the array at `part`, and the number of its elements; `None` if it is empty.
    #[inline(always)]
    fn elements(
        &mut self,
        part: Place,
        element_bytes: u32,
    ) -> Result<Option<(Place, u32)>, CompactError> {
        let Some((len, from)) = self.array(part)? else { return Ok(None) };
        let object = self.copied(from, u64::from(len) * u64::from(element_bytes))?;
        self.sink.point(part.object, part.offset, object);
        Ok(Some((Place { object, offset: 0, from }, len)))
    }

    /// A copy of the string at `part`, if it is not empty.
    #[inline(always)]
    fn text(&mut self, part: Place) -> Result<Option<Piece>, CompactError> {
        let Some((copy, _)) = self.elements(part, 1)? else { return Ok(None) };
        if !S::IS_TRUSTED {
            utf8::check(self.sink.bytes(copy.object)).map_err(|_| CompactError::Utf8)?;
        }
        Ok(Some(copy.object))
    }

    /// Bytes or numbers, which may be anything: long ones are not copied (M24).
    #[inline(always)]
    fn numbers(&mut self, part: Place, element_bytes: u32) -> Result<(), CompactError> {
        let len = u32::from_le_bytes(self.load(part.part(8)));
        let bytes = u64::from(len) * u64::from(element_bytes);
        if bytes >= ADOPT_BYTES_MIN as u64 && self.gathered(part, bytes)? {
            return Ok(());
        }
        self.elements(part, element_bytes).map(|_| ())
    }

    /// Whether the leaf of `bytes` at `part` was gathered.
    #[cold]
    fn gathered(&mut self, part: Place, bytes: u64) -> Result<bool, CompactError> {
        if !self.sink.gathers() {
            return Ok(false);
        }
        let Some((_, from)) = self.array(part)? else { return Ok(false) };
        let left = self.left;
        let bytes = self.charged(bytes)?;
        match self.source.segment(from, bytes)? {
            Some(segment) => {
                assert_eq!(segment.len(), bytes as usize, "a source gives what it is asked for");
                self.sink.gather(part.object, part.offset, segment);
                Ok(true)
            }
            None => {
                self.left = left;
                Ok(false)
            }
        }
    }

    /// Bools, of which not every byte is one.
    fn bools(&mut self, part: Place) -> Result<(), CompactError> {
        if S::IS_TRUSTED {
            return self.numbers(part, 1);
        }
        match self.elements(part, 1)? {
            Some((copy, _)) => Ok(check::bools(self.sink.bytes(copy.object))?),
            None => Ok(()),
        }
    }

    fn unknown(&mut self, part: Place) -> Result<(), CompactError> {
        const BLOB_BYTES: u32 = 16;
        match self.linked(part, BLOB_BYTES)? {
            Some(blob) => self.elements(blob, 1).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Strings or bytes.
    fn each(
        &mut self,
        part: Place,
        one: impl Fn(&mut Self, Place) -> Result<(), CompactError>,
    ) -> Result<(), CompactError> {
        const PART_BYTES: u32 = 16;
        let Some((array, len)) = self.elements(part, PART_BYTES)? else { return Ok(()) };
        (0..len).try_for_each(|index| one(self, array.part(index * PART_BYTES)))
    }

    fn messages(&mut self, plan: Plan<'_>, part: Place, depth: u32) -> Result<(), CompactError> {
        let Some((array, len)) = self.elements(part, plan.bytes())? else { return Ok(()) };
        (0..len).try_for_each(|index| self.nested(plan, array.part(index * plan.bytes()), depth))
    }

    fn map(
        &mut self,
        plan: Plan<'_>,
        entry: &EntryPlan,
        part: Place,
        depth: u32,
    ) -> Result<(), CompactError> {
        let Some((array, len)) = self.elements(part, entry.bytes)? else { return Ok(()) };
        let mut steps = plan.entry_steps(entry);
        let has_text_keys = entry.key.kind == ValueKind::String;
        if has_text_keys {
            steps = steps.split_first().expect("a string has a step").1;
        }
        let mut last = None;
        for index in 0..len {
            let place = array.part(index * entry.bytes);
            let text = if has_text_keys { self.text(place)? } else { None };
            steps.iter().try_for_each(|step| self.step(plan, step, place, depth))?;
            if !S::IS_TRUSTED {
                let ascends = match last {
                    None => true,
                    Some((last, last_text)) => {
                        self.key(entry, last, last_text) < self.key(entry, place, text)
                    }
                };
                if !ascends {
                    return Err(CompactError::Malformed);
                }
                last = Some((place, text));
            }
        }
        Ok(())
    }

    /// The key of the entry that was copied to `place`, its text to an object of its own.
    fn key(&self, entry: &EntryPlan, place: Place, text: Option<Piece>) -> Key<'_> {
        let here = &self.sink.bytes(place.object)[place.offset as usize..];
        let text = || text.map_or(&[][..], |text| self.sink.bytes(text));
        Key::of(entry.key.kind, here, text)
    }
}
