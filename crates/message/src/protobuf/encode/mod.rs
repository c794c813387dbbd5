//! Encoding by plan (M31). One pass, `walk`, writes the output from its end to its beginning into
//! memory that the thread keeps; one copy puts it after the caller's room.
//!
//! Backwards, the length of a nested message is known when it has to be written, so nothing is
//! visited twice. Long leaves are not part of that memory: they are copied straight to their place,
//! or gathered (M24).
//!
//! Invariant: the message is borrowed, so the leaves are still there when they are needed.

mod lists;
mod read;
mod walk;

use bytes::Bytes;
use petasos_buf::copy_short;

use self::walk::{Late, Walk};
use crate::arena::Object;
use crate::heap;
use crate::plan::Plan;
use crate::protobuf::stack::Stack;
use crate::protobuf::writer::{At, Scratch};
use crate::{EncodeError, Image, SEGMENTS_MAX, Segment};

/// Answers with an owner of the same bytes, if they have one that can keep them.
pub(crate) type Keep<'k> = dyn Fn(&[u8]) -> Option<Bytes> + 'k;

/// Each kept leaf may be followed by a piece of what was written.
const KEPT_MAX: usize = SEGMENTS_MAX / 2;

/// Encodes the message of `plan` that lies at `root`, behind `room_bytes` that are left to the
/// caller. For leaves as in M24, `keep` may answer with an owner of the same bytes: these are not
/// copied then but become a segment.
///
/// # Safety
/// `root` is a struct of `plan`'s message: built by setters, decoded, or accepted by M26.
pub(crate) unsafe fn encode(
    plan: Plan<'_>,
    root: Object<'_>,
    room_bytes: usize,
    keep: Option<&Keep<'_>>,
) -> Result<Image, EncodeError> {
    let (mut scratch, mut stack) = (Scratch::new(), Stack::new());
    let (walk, at) = Walk::of(plan, root, &mut scratch, &mut stack)?;
    if walk.late.is_empty() {
        let written = walk.writer.written(at);
        let mut head = heap::outgoing(room_bytes + written.len());
        copy_short(&mut head.as_mut_slice()[room_bytes..], written);
        return Ok(Image { head, tail: Vec::new() });
    }
    Ok(with_late(&walk, at, room_bytes, keep))
}

/// Appends the encoding of the message of `plan` that lies at `root` to `out`. After an error `out`
/// is as it was.
///
/// # Safety
/// As [`encode`].
pub(crate) unsafe fn append(
    plan: Plan<'_>,
    root: Object<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let (mut scratch, mut stack) = (Scratch::new(), Stack::new());
    let (walk, at) = Walk::of(plan, root, &mut scratch, &mut stack)?;
    if walk.late.is_empty() {
        out.extend_from_slice(walk.writer.written(at));
    } else {
        out.reserve(walk.bytes(at));
        pieces(&walk, at, |piece, _| out.extend_from_slice(piece));
    }
    Ok(())
}

/// The output of a walk that left leaves out.
#[cold]
fn with_late(walk: &Walk<'_, '_, '_>, at: At, room_bytes: usize, keep: Option<&Keep<'_>>) -> Image {
    let mut kept = Vec::new();
    let mut owner = |late: &Late<'_>| {
        let owner = keep.filter(|_| late.is_gathered && kept.len() < KEPT_MAX)?(late.leaf)?;
        kept.push(owner);
        Some(late.leaf.len())
    };
    let kept_bytes: Vec<_> = walk.late.iter().rev().map(&mut owner).collect();
    let own_bytes = walk.bytes(at) - kept_bytes.iter().flatten().sum::<usize>();
    if kept.is_empty() {
        let mut head = heap::outgoing(room_bytes + own_bytes);
        fill(walk, at, &kept_bytes, &mut head.as_mut_slice()[room_bytes..]);
        return Image { head, tail: Vec::new() };
    }
    let mut own = vec![0; own_bytes];
    let places = fill(walk, at, &kept_bytes, &mut own);
    join(own, kept, &places, room_bytes)
}

/// The pieces of an output in order: what was written, and between, with their places among them,
/// the leaves that were left out.
fn pieces(walk: &Walk<'_, '_, '_>, at: At, mut put: impl FnMut(&[u8], Option<usize>)) {
    let written = walk.writer.written(at);
    let mut from = 0;
    for (index, late) in walk.late.iter().rev().enumerate() {
        let to = written.len() - late.from_end;
        put(&written[from..to], None);
        put(late.leaf, Some(index));
        from = to;
    }
    put(&written[from..], None);
}

/// Puts the leaves that are not kept between the pieces of what was written. Answers where kept
/// ones belong.
fn fill(walk: &Walk<'_, '_, '_>, at: At, kept: &[Option<usize>], out: &mut [u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut end = 0;
    pieces(walk, at, |piece, late| {
        if late.is_some_and(|late| kept[late].is_some()) {
            return places.push(end);
        }
        out[end..end + piece.len()].copy_from_slice(piece);
        end += piece.len();
    });
    assert!(end == out.len(), "the output has the computed length");
    places
}

/// Puts the kept leaves between the pieces of what was written.
fn join(own: Vec<u8>, kept: Vec<Bytes>, places: &[usize], room_bytes: usize) -> Image {
    let first = places.first().copied().unwrap_or(own.len());
    let mut head = heap::outgoing(room_bytes + first);
    head.as_mut_slice()[room_bytes..].copy_from_slice(&own[..first]);
    let own = Bytes::from(own);
    let ends = places.iter().skip(1).copied().chain([own.len()]);
    let mut tail = Vec::with_capacity(2 * kept.len());
    for ((leaf, from), to) in kept.into_iter().zip(places).zip(ends) {
        tail.push(Segment::Owned(leaf));
        if to > *from {
            tail.push(Segment::Owned(own.slice(*from..to)));
        }
    }
    Image { head, tail }
}
