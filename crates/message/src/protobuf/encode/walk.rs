//! The pass over the message, from its last field to its first.
//!
//! A nested message is not a call: the pass pushes its position on a stack and continues inside.
//! Rare kinds of fields are in `rare`; only messages in maps and oneofs use recursion.

use super::read::{Number, bool, int32, int64, is_selected, number, sint32, sint64, uint32};
use crate::arena::Object;
use crate::plan::{Op, OpCode, OpPlace, Plan, ValueKind};
use crate::protobuf::leaf;
use crate::protobuf::stack::Stack;
use crate::protobuf::struct_at::StructAt;
use crate::protobuf::writer::{At, Place, Scratch, Stopped, Writer};
use crate::{ADOPT_BYTES_MIN, EncodeError, MESSAGE_BYTES_MAX};

/// A leaf of at least [`ADOPT_BYTES_MIN`] bytes, which is left out of what is written.
pub(super) struct Late<'m> {
    pub(super) leaf: &'m [u8],
    /// How much of what is written follows it, in bytes.
    pub(super) from_end: usize,
    /// Whether it is one that M24 gathers: no string.
    pub(super) is_gathered: bool,
}

/// Where a pass is: before a field that is written, in the struct at `root`, one of `plan`'s.
#[derive(Clone, Copy)]
struct Here<'m, 'p> {
    plan: Plan<'p>,
    root: StructAt<'m>,
    field: OpPlace<'p>,
}

/// What a pass comes back to when all of a nested message is written.
#[derive(Clone, Copy)]
pub(super) struct Frame<'m, 'p> {
    /// The field that has the message, in the struct at `outer`, which is one of `plan`'s.
    field: OpPlace<'p>,
    outer: StructAt<'m>,
    plan: Plan<'p>,
    /// The output's bytes behind the message.
    behind: usize,
    /// How many elements of a list are before it.
    left: u32,
}

/// What a pass makes.
pub(super) struct Walk<'m, 'p, 's> {
    pub(super) writer: Writer<'s>,
    /// Long leaves, the last one first, and their bytes in all.
    pub(super) late: Vec<Late<'m>>,
    pub(super) late_bytes: usize,
    /// The messages that the one that the pass is at is nested in.
    stack: &'s mut Stack<Frame<'m, 'p>>,
    /// Why the pass stopped, if it did.
    error: EncodeError,
}

impl<'m, 'p, 's> Walk<'m, 'p, 's> {
    /// Goes over a whole message. Answers where what is written begins, too.
    #[inline(always)]
    pub(super) fn of(
        plan: Plan<'p>,
        object: Object<'m>,
        scratch: &'s mut Scratch,
        stack: &'s mut Stack<Frame<'m, 'p>>,
    ) -> Result<(Walk<'m, 'p, 's>, At), EncodeError> {
        let (writer, at) = Writer::new(scratch);
        let error = EncodeError::TooLarge;
        let mut walk = Walk { writer, late: Vec::new(), late_bytes: 0, stack, error };
        match walk.message(plan, StructAt::of(object), at) {
            Ok(at) if walk.bytes(at) <= MESSAGE_BYTES_MAX => Ok((walk, at)),
            _ => Err(walk.error),
        }
    }

    /// The output's bytes so far.
    #[inline(always)]
    pub(super) fn bytes(&self, at: At) -> usize {
        self.writer.len(at) + self.late_bytes
    }

    /// The fields of the message of `plan` that lies at `root`, and what nobody knows of it.
    #[inline(never)]
    fn message(&mut self, plan: Plan<'p>, root: StructAt<'m>, at: At) -> Place {
        let base = self.stack.len();
        let mut here = Here { plan, root, field: plan.end() };
        let mut at = self.unknown(root, at)?;
        loop {
            // SAFETY: the end behind the fields or a field: before the first the pass turns away.
            here.field = unsafe { here.field.before() };
            let (op, root) = (here.field.op(), here.root);
            let value = match op.code {
                OpCode::Int32 => int32(load(root, op)),
                OpCode::Uint32 => uint32(load(root, op)),
                OpCode::Sint32 => sint32(load(root, op)),
                OpCode::Int64 => int64(load(root, op)),
                OpCode::Sint64 => sint64(load(root, op)),
                OpCode::Bool => bool(load(root, op)),
                code => {
                    at = match code {
                        OpCode::Fixed32 => self.fixed(op, load::<4>(root, op), at)?,
                        OpCode::Fixed64 => self.fixed(op, load::<8>(root, op), at)?,
                        OpCode::String | OpCode::Bytes => self.single_leaf(op, root, at)?,
                        OpCode::Link => self.enter_link(&mut here, at)?,
                        OpCode::Messages => self.enter_list(&mut here, at)?,
                        OpCode::End if self.stack.len() == base => return Ok(at),
                        OpCode::End => self.leave(&mut here, at)?,
                        OpCode::Leaves | OpCode::Numbers | OpCode::Map | OpCode::Flagged
                            if is_absent(root, op) =>
                        {
                            at
                        }
                        OpCode::Leaves => self.leaves(op, root, at)?,
                        OpCode::Numbers
                        | OpCode::Map
                        | OpCode::Flagged
                        | OpCode::Member
                        | OpCode::Struct => self.rare(op, here.plan, root.object(here.plan), at)?,
                        _ => unreachable!("numbers are above"),
                    };
                    continue;
                }
            };
            if value != 0 {
                at = self.writer.varint_field(at, op, value)?;
            }
        }
    }

    /// A field of so many bytes, if it is not zero.
    #[inline(always)]
    fn fixed<const N: usize>(&mut self, op: &Op, value: [u8; N], at: At) -> Place {
        if value == [0; N] { Ok(at) } else { self.writer.fixed_field(at, op, value) }
    }

    /// A string or bytes, if there are any.
    #[inline(always)]
    fn single_leaf(&mut self, op: &Op, root: StructAt<'m>, at: At) -> Place {
        // SAFETY: the struct's field, which is one; the message is borrowed.
        match unsafe { root.leaf(op.offset) } {
            Some(leaf) => self.leaf(op, leaf, at),
            None => Ok(at),
        }
    }

    /// Enters the message of a field, if there is one.
    #[inline(always)]
    fn enter_link(&mut self, here: &mut Here<'m, 'p>, at: At) -> Place {
        let (field, outer, plan) = (here.field, here.root, here.plan);
        // SAFETY: the struct's field, which is one.
        let Some(message) = (unsafe { outer.link(field.op().offset) }) else { return Ok(at) };
        self.enter(Frame { field, outer, plan, behind: self.bytes(at), left: 0 })?;
        let inner = plan.message_of(field.op());
        *here = Here { plan: inner, root: message, field: inner.end() };
        self.unknown(message, at)
    }

    /// Enters the last message of a list, if there is one.
    #[inline(always)]
    fn enter_list(&mut self, here: &mut Here<'m, 'p>, at: At) -> Place {
        let (field, outer, plan) = (here.field, here.root, here.plan);
        // SAFETY: the struct's field, which is one.
        let Some((array, len)) = (unsafe { outer.target(field.op().offset) }) else {
            return Ok(at);
        };
        let left = len - 1;
        self.enter(Frame { field, outer, plan, behind: self.bytes(at), left })?;
        let inner = plan.message_of(field.op());
        // SAFETY: as many elements are before the last.
        let message = unsafe { array.element(left, inner.bytes()) };
        *here = Here { plan: inner, root: message, field: inner.end() };
        self.unknown(message, at)
    }

    /// Writes the length and the tag of a nested message, and goes on before it.
    #[inline(always)]
    fn leave(&mut self, here: &mut Here<'m, 'p>, at: At) -> Place {
        let bytes = self.bytes(at);
        let frame = self.stack.top(0).expect("a nested message has one around it");
        let at = self.writer.varint_field(at, frame.field.op(), (bytes - frame.behind) as u64)?;
        if frame.left == 0 {
            *here = Here { plan: frame.plan, root: frame.outer, field: frame.field };
            self.stack.pop();
            return Ok(at);
        }
        frame.left -= 1;
        frame.behind = self.writer.len(at) + self.late_bytes;
        // SAFETY: so many elements were before this one.
        here.root = unsafe { here.root.before(here.plan.bytes()) };
        here.field = here.plan.end();
        self.unknown(here.root, at)
    }

    /// Notes what the pass comes back to.
    #[inline(always)]
    fn enter(&mut self, frame: Frame<'m, 'p>) -> Result<(), Stopped> {
        self.stack.push(frame).ok_or_else(|| {
            self.error = EncodeError::TooDeep;
            Stopped
        })
    }

    /// The records of a message that nobody knows, which come last.
    #[inline(always)]
    fn unknown(&mut self, root: StructAt<'m>, at: At) -> Place {
        // SAFETY: the pass has structs of plans.
        match unsafe { root.unknown() } {
            Some(blob) => self.some_unknown(blob, at),
            None => Ok(at),
        }
    }

    #[cold]
    #[inline(never)]
    fn some_unknown(&mut self, blob: StructAt<'m>, at: At) -> Place {
        // SAFETY: a `Blob` lies there; the message is borrowed.
        let records = unsafe { blob.leaf(0) };
        self.raw(at, records.unwrap_or_default(), false)
    }

    /// What the loop over fields leaves to a call.
    #[inline(never)]
    fn rare(&mut self, op: &'p Op, plan: Plan<'p>, object: Object<'m>, at: At) -> Place {
        match op.code {
            OpCode::Member if !is_selected(op, object) => Ok(at),
            OpCode::Member if op.kind == ValueKind::Message => {
                let inner = plan.message_of(op);
                let message = object.follow(op.offset, inner.bytes());
                let message = message.expect("a message that is present has a link");
                self.nested(op, inner, message, at)
            }
            OpCode::Numbers => self.numbers(op, object, at),
            OpCode::Map => self.map(op, plan, object, at),
            _ => self.value(op, object, op.offset, at),
        }
    }

    /// A message with its length and tag, as a call.
    pub(super) fn nested(&mut self, op: &Op, plan: Plan<'p>, object: Object<'m>, at: At) -> Place {
        let (behind, outer) = (self.bytes(at), StructAt::of(object));
        // Only to be counted.
        self.enter(Frame { field: plan.end(), outer, plan, behind, left: 0 })?;
        let at = self.message(plan, outer, at)?;
        self.stack.pop();
        self.delimit(op, behind, at)
    }

    /// Length and tag of what was written since there were `behind` bytes.
    #[inline(always)]
    pub(super) fn delimit(&mut self, op: &Op, behind: usize, at: At) -> Place {
        self.writer.varint_field(at, op, (self.bytes(at) - behind) as u64)
    }

    /// The value at `offset` with its tag, whether or not it is zero or empty; no message.
    #[inline]
    pub(super) fn value(&mut self, op: &Op, object: Object<'m>, offset: u32, at: At) -> Place {
        match op.kind {
            ValueKind::String | ValueKind::Bytes => {
                // SAFETY: callers name a `Text` or a `Blob`; the message is borrowed.
                self.leaf(op, unsafe { leaf::bytes(object, offset, 1) }, at)
            }
            kind => match number(kind, object, offset) {
                Number::Varint(value) => self.writer.varint_field(at, op, value),
                Number::Fixed32(value) => self.writer.fixed_field(at, op, value),
                Number::Fixed64(value) => self.writer.fixed_field(at, op, value),
            },
        }
    }

    /// A string or bytes, with length and tag.
    #[inline(always)]
    pub(super) fn leaf(&mut self, op: &Op, leaf: &'m [u8], at: At) -> Place {
        if leaf.len() < ADOPT_BYTES_MIN {
            return self.writer.leaf_field(at, op, leaf);
        }
        self.long_leaf(op, leaf, at)
    }

    #[cold]
    #[inline(never)]
    fn long_leaf(&mut self, op: &Op, leaf: &'m [u8], at: At) -> Place {
        let at = self.raw(at, leaf, op.kind == ValueKind::Bytes)?;
        self.writer.varint_field(at, op, leaf.len() as u64)
    }

    /// Bytes as they lie, or a note that they are left out.
    pub(super) fn raw(&mut self, at: At, leaf: &'m [u8], is_gathered: bool) -> Place {
        if leaf.len() < ADOPT_BYTES_MIN {
            return self.writer.raw(at, leaf);
        }
        if self.bytes(at) + leaf.len() > MESSAGE_BYTES_MAX {
            return Err(Stopped);
        }
        self.late.push(Late { leaf, from_end: self.writer.len(at), is_gathered });
        self.late_bytes += leaf.len();
        Ok(at)
    }
}

/// The `N` bytes of a field that is as long.
#[inline(always)]
fn load<const N: usize>(root: StructAt<'_>, op: &Op) -> [u8; N] {
    // SAFETY: the pass has structs of the plan that it has the field from.
    unsafe { root.load(op.offset) }
}

/// Whether the bit of a field with one is not set (M6), or a list or map is empty.
#[inline(always)]
fn is_absent(root: StructAt<'_>, op: &Op) -> bool {
    // SAFETY: as for `load`.
    unsafe {
        match op.code {
            OpCode::Flagged => {
                let word = u32::from_le_bytes(root.load(op.oneof_offset));
                word >> (op.presence_bit % u32::BITS as u16) & 1 == 0
            }
            _ => root.len(op.offset) == 0,
        }
    }
}
