//! Messages that are known only by their plan, at run time.

use std::fmt;
use std::ptr::NonNull;

use super::{DecodeLimits, Input, append, decode, encode};
use crate::arena::Object;
use crate::arena::{Arena, OwnedArena};
use crate::heap::Heap;
use crate::image::{Private, compact};
use crate::plan::Plan;
use crate::{CompactError, DecodeError, EncodeError, Image};

/// A message whose type is known from a schema at run time only.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use petasos_message::{DecodeLimits, DynamicMsg, Input, Plans};
/// # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/tests/protos");
/// let schema = petasos_schema::compile(["hello.proto"], [dir], &Default::default())?.schema;
/// let plans = Plans::of(&schema)?;
/// let (id, _) = schema.message_by_name("hello.HelloRequest").ok_or("no such message")?;
///
/// let bytes = [0x0a, 5, b'w', b'o', b'r', b'l', b'd'];
/// let limits = DecodeLimits::for_input(bytes.len());
/// let request = DynamicMsg::from_protobuf(plans.message(id), Input::Borrowed(&bytes), &limits)?;
/// assert_eq!(request.to_protobuf(0)?.into_buf().as_slice(), bytes);
/// # Ok(())
/// # }
/// ```
pub struct DynamicMsg<'p> {
    plan: Plan<'p>,
    arena: OwnedArena,
    /// In the arena: the struct of `plan`'s message.
    root: NonNull<u8>,
}

impl<'p> DynamicMsg<'p> {
    /// Decodes the message of `plan` (M28 to M30).
    ///
    /// # Errors
    /// The sender's fault, or a limit: the same bytes are refused again.
    pub fn from_protobuf(
        plan: Plan<'p>,
        input: Input<'_>,
        limits: &DecodeLimits,
    ) -> Result<DynamicMsg<'p>, DecodeError> {
        let arena = Arena::new_in(Heap::process_default());
        let root = decode(plan, &input, limits, &arena)?.at();
        Ok(DynamicMsg { plan, arena, root })
    }

    /// Encodes it behind `room_bytes` that are the caller's to fill (M31).
    ///
    /// # Errors
    /// If the message is larger or deeper than M18 allows.
    pub fn to_protobuf(&self, room_bytes: usize) -> Result<Image, EncodeError> {
        let keep = |leaf: &[u8]| self.arena.adopted(leaf);
        let root = Object::new(self.root, self.plan.bytes());
        // SAFETY: the struct was decoded by the same plan, and the message is borrowed.
        unsafe { encode(self.plan, root, room_bytes, Some(&keep)) }
    }

    /// Its image, of which nothing is shared with the message.
    pub(crate) fn to_native(&self) -> Result<Image, CompactError> {
        // SAFETY: all that the root reaches lies in the arena, or was adopted by it: it is kept
        // while the message is borrowed, and nobody writes it.
        let source = unsafe { Private::new(self.arena.used_bytes(), |_, _| None) };
        compact(self.plan, &source, self.root.addr().get() as u64)
    }

    /// Appends its encoding to `out` (M31).
    ///
    /// # Errors
    /// If the message is larger or deeper than M18 allows; `out` is as it was then.
    pub fn append_protobuf(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let root = Object::new(self.root, self.plan.bytes());
        // SAFETY: as for `to_protobuf`.
        unsafe { append(self.plan, root, out) }
    }
}

impl fmt::Debug for DynamicMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.arena.allocated_bytes();
        f.debug_struct("DynamicMsg").field("allocated_bytes", &bytes).finish_non_exhaustive()
    }
}
