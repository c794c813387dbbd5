//! Conversions between messages and encodings. Each gives an equal message (M32).

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytes::Bytes;
use petasos_buf::MsgBuf;

use crate::arena::Object;
use crate::arena::{Arena, ROOM_BYTES};
use crate::heap::{self, Heap};
use crate::image::{CompactError, HEADER_BYTES, Image, Private, compact, header};
use crate::msg::Msg;
use crate::part::Message;
use crate::plan::{Plan, Step};
use crate::protobuf::{DecodeLimits, Input, append, decode, encode};
use crate::{
    ADOPT_BYTES_MIN, DEPTH_MAX, DecodeError, EncodeError, MESSAGE_BYTES_MAX, Segment, is_aligned,
};

impl<T: Message> Msg<T> {
    /// The message's image, after [`ROOM_BYTES`] for the caller to fill. It is not copied if it was
    /// built in one chunk (M21), and compacted otherwise (M22).
    ///
    /// # Errors
    /// The message is larger or deeper than M18 allows.
    #[inline]
    pub fn into_native(this: Msg<T>) -> Result<Image, EncodeError> {
        match Msg::into_first_chunk(this) {
            Ok((chunk, used)) => as_it_lies(T::plan, chunk, used),
            Err(this) => Msg::compacted(this),
        }
    }

    /// Like [`Msg::into_native`], as one buffer: the image with room and header before it, and long
    /// pieces as the buffer's tail ([`Image::into_message`]).
    ///
    /// # Errors
    /// As for [`Msg::into_native`].
    #[inline(always)]
    pub fn into_native_buf(this: Msg<T>) -> Result<MsgBuf, EncodeError> {
        match Msg::into_first_chunk(this) {
            Ok((chunk, used)) => chunk_as_it_lies(T::plan, chunk, used),
            Err(this) => Msg::compacted(this).map(|image| image.into_message(&[])),
        }
    }

    #[cold]
    #[inline(never)]
    fn compacted(this: Msg<T>) -> Result<Image, EncodeError> {
        if Msg::bytes_hint(&this) < ADOPT_BYTES_MIN {
            return Msg::compacted_with(&this, |_| unreachable!("no leaf is so long"));
        }
        let this = Arc::new(this);
        let owner = |leaf: &[u8]| Msg::owner(&this, leaf);
        Msg::compacted_with(&this, |leaf| owner(leaf).unwrap_or_else(|| Msg::shared(&this, leaf)))
    }

    /// Long leaves are sent without a copy (M24): adopted ones with their own owner, others with
    /// the message as the owner.
    fn compacted_with(
        this: &Msg<T>,
        owner_of: impl Fn(&[u8]) -> Bytes,
    ) -> Result<Image, EncodeError> {
        let owner_of = |at: *const u8, len: usize| {
            // SAFETY: compaction asks for leaves of this message, which nobody can write any more.
            Some(owner_of(unsafe { std::slice::from_raw_parts(at, len) }))
        };
        // SAFETY: the message is kept, so nobody writes what it reaches; its memory exposed its
        // provenance when it joined the arena, or was received.
        let source = unsafe { Private::new(Msg::bytes_hint(this), owner_of) };
        compact(T::plan(), &source, ptr::from_ref(Msg::get(this)).addr() as u64).map_err(|error| {
            match error {
                CompactError::TooLarge => EncodeError::TooLarge,
                CompactError::TooDeep => EncodeError::TooDeep,
                error => unreachable!("messages of this process are well-formed: {error}"),
            }
        })
    }

    /// Reads the image at `at` in a buffer, or in what is attached to it: in place, or from a copy
    /// if its position is not a multiple of 8 (M25). It is validated first (M26).
    ///
    /// # Errors
    /// The sender's fault: the bytes are no image of this message.
    #[inline(always)]
    pub fn from_native(mut buf: MsgBuf, at: Range<usize>) -> Result<Msg<T>, DecodeError> {
        let Some(image) = buf.as_slice().get(at.clone()) else {
            return Msg::from_attached(buf, at);
        };
        T::validate(image)?;
        if !is_aligned(image.as_ptr()) {
            // SAFETY: accepted above.
            return Ok(unsafe { Msg::received(heap::copied(image), 0) });
        }
        buf.set_len(at.end);
        // SAFETY: accepted above.
        Ok(unsafe { Msg::received(buf, at.start) })
    }

    /// Reads the image that is all that is attached to a buffer.
    #[cold]
    #[inline(never)]
    fn from_attached(mut buf: MsgBuf, at: Range<usize>) -> Result<Msg<T>, DecodeError> {
        if at != (buf.as_slice().len()..buf.len()) {
            return Err(DecodeError::Truncated);
        }
        let mut attached = buf.take_tail();
        heap::recycle(buf);
        let (1, Some(Segment::Owned(image))) = (attached.len(), attached.pop()) else {
            return Err(DecodeError::Truncated);
        };
        T::validate(&image)?;
        if !is_aligned(image.as_ptr()) {
            // SAFETY: accepted above.
            return Ok(unsafe { Msg::received(heap::copied(&image), 0) });
        }
        // SAFETY: accepted above, and bytes do not change.
        Ok(unsafe { Msg::received_elsewhere(image) })
    }

    /// Reads a copy of an image at any position; a short one is copied into the thread's pool. It
    /// is validated first (M26).
    ///
    /// # Errors
    /// The sender's fault: the bytes are no image of this message.
    #[inline]
    pub fn copy_native(image: &[u8]) -> Result<Msg<T>, DecodeError> {
        T::validate(image)?;
        // SAFETY: accepted, and nobody can have written it since.
        Ok(unsafe { Msg::received(heap::copied(image), 0) })
    }

    /// Like [`Msg::copy_native`], without the reason of a failure.
    #[inline(always)]
    pub fn try_copy_native(image: &[u8]) -> Option<Msg<T>> {
        T::validate(image).ok()?;
        // SAFETY: accepted, and nobody can have written it since.
        Some(unsafe { Msg::received(heap::copied(image), 0) })
    }

    /// Decodes protobuf (M28 to M30).
    ///
    /// # Errors
    /// The sender's fault, or a limit: the same bytes are refused again.
    pub fn from_protobuf(input: Input<'_>, limits: &DecodeLimits) -> Result<Msg<T>, DecodeError> {
        let arena = Arena::new_in(Heap::process_default());
        let root = decode(T::plan(), &input, limits, &arena)?.at();
        assert!(arena.is_first(root), "the root is the arena's first object");
        // SAFETY: the plan is bound to the type.
        Ok(unsafe { Msg::rooted(arena) })
    }

    /// Encodes as protobuf, after `room_bytes` for the caller to fill (M31). Adopted bytes are not
    /// copied.
    ///
    /// # Errors
    /// The message is larger or deeper than M18 allows.
    pub fn to_protobuf(this: &Msg<T>, room_bytes: usize) -> Result<Image, EncodeError> {
        let keep = |leaf: &[u8]| Msg::owner(this, leaf);
        // SAFETY: a message of the type that the plan was bound to, and borrowed.
        unsafe { encode(T::plan(), object(Msg::get(this)), room_bytes, Some(&keep)) }
    }

    /// Appends the protobuf encoding to `out` (M31). All of it is copied, and nothing is allocated
    /// if `out` has room.
    ///
    /// # Errors
    /// The message is larger or deeper than M18 allows; `out` is unchanged then.
    pub fn append_protobuf(this: &Msg<T>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        // SAFETY: as for `to_protobuf`.
        unsafe { append(T::plan(), object(Msg::get(this)), out) }
    }
}

/// Encodes a message at any address as protobuf, after `room_bytes` for the caller to fill (M31).
///
/// # Errors
/// The message is larger or deeper than M18 allows.
pub fn to_protobuf<T: Message>(message: &T, room_bytes: usize) -> Result<Image, EncodeError> {
    // SAFETY: a message of the type that the plan was bound to, and borrowed.
    unsafe { encode(T::plan(), object(message), room_bytes, None) }
}

/// Reads an image in place in a frame.
///
/// # Errors
/// [`DecodeError::Misaligned`] asks for a copy at a multiple of 8; all else is the sender's fault.
pub fn view_native<T: Message>(image: &[u8]) -> Result<&T, DecodeError> {
    if !is_aligned(image.as_ptr()) {
        return Err(DecodeError::Misaligned);
    }
    T::validate(image)?;
    image.as_ptr().expose_provenance();
    // SAFETY: M26 accepted the image for the plan that `T` is bound to, and nobody writes it while
    // it is borrowed. The root lies behind the header.
    Ok(unsafe { &*image.as_ptr().add(HEADER_BYTES).cast::<T>() })
}

fn object<T: Message>(message: &T) -> Object<'_> {
    Object::new(NonNull::from(message).cast(), size_of::<T>() as u32)
}

/// The first chunk as an image (M21): `used` bytes of it, with room and header before the root.
#[inline]
fn as_it_lies(
    plan: fn() -> Plan<'static>,
    chunk: MsgBuf,
    used: usize,
) -> Result<Image, EncodeError> {
    let head = chunk_as_it_lies(plan, chunk, used)?;
    Ok(Image { head, tail: Vec::new() })
}

#[inline(always)]
fn chunk_as_it_lies(
    plan: fn() -> Plan<'static>,
    mut chunk: MsgBuf,
    used: usize,
) -> Result<MsgBuf, EncodeError> {
    let image_bytes = used - ROOM_BYTES;
    // The least struct that holds another has two words: fewer bytes have fewer levels.
    if image_bytes > HEADER_BYTES + DEPTH_MAX as usize * 16 {
        is_encodable(plan(), &mut chunk, image_bytes)?;
    }
    chunk.set_len(used);
    // SAFETY: room and header precede the root, which the chunk has.
    unsafe { chunk.data_ptr().add(ROOM_BYTES).cast().write(header(image_bytes as u32)) };
    Ok(chunk)
}

/// Whether a message that is completely in one chunk keeps within the limits of M18.
#[cold]
fn is_encodable(plan: Plan<'_>, chunk: &mut MsgBuf, image_bytes: usize) -> Result<(), EncodeError> {
    if image_bytes > MESSAGE_BYTES_MAX {
        return Err(EncodeError::TooLarge);
    }
    // SAFETY: the root, behind the room and the header.
    let root = unsafe { chunk.data_ptr().add(ROOM_BYTES + HEADER_BYTES) };
    is_within(plan, Object::new(root, plan.bytes()), DEPTH_MAX).ok_or(EncodeError::TooDeep)
}

/// `Some` if messages are nested at most `depth` deep below this one.
fn is_within(plan: Plan<'_>, message: Object<'_>, depth: u32) -> Option<()> {
    plan.steps().iter().try_for_each(|step| steps_within(plan, *step, message, depth))
}

fn steps_within(plan: Plan<'_>, step: Step, at: Object<'_>, depth: u32) -> Option<()> {
    let nested = |plan: Plan<'_>, at: Object<'_>| is_within(plan, at, depth.checked_sub(1)?);
    match step {
        Step::Link { offset, message } => {
            let plan = plan.other(message);
            at.follow(offset, plan.bytes()).map_or(Some(()), |at| nested(plan, at))
        }
        Step::Struct { offset, message } => {
            let plan = plan.other(message);
            nested(plan, at.part(offset, plan.bytes()))
        }
        Step::Messages { offset, message } => {
            let plan = plan.other(message);
            each(at, offset, plan.bytes(), |element| nested(plan, element))
        }
        Step::Map { offset, entry } => {
            let entry = plan.entry(entry);
            each(at, offset, entry.bytes, |element| {
                let mut steps = plan.entry_steps(entry).iter();
                steps.try_for_each(|step| steps_within(plan, *step, element, depth))
            })
        }
        Step::OneOf { offset, first, count } => {
            let case = u32::from_le_bytes(at.load(offset));
            let member = plan.member(Step::members(first, count), case);
            let step = member.and_then(|member| member.step);
            step.map_or(Some(()), |step| steps_within(plan, step, at, depth))
        }
        _ => Some(()),
    }
}

/// Visits the elements of the list at `offset`.
fn each(
    at: Object<'_>,
    offset: u32,
    element_bytes: u32,
    mut visit: impl FnMut(Object<'_>) -> Option<()>,
) -> Option<()> {
    let Some((array, len)) = at.target(offset, element_bytes) else { return Some(()) };
    (0..len).try_for_each(|index| visit(array.part(index * element_bytes, element_bytes)))
}
