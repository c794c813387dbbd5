//! The pass over the message, from its last field to its first.

use super::read::{
    Number, bool, int32, int64, is_flagged, is_selected, len, number, sint32, sint64, uint32,
};
use crate::object::Object;
use crate::plan::{Op, OpCode, Plan, ValueKind};
use crate::protobuf::leaf;
use crate::protobuf::writer::{At, Place, Stopped, Writer};
use crate::{ADOPT_BYTES_MIN, DEPTH_MAX, EncodeError, MESSAGE_BYTES_MAX};

/// Where a struct has its `Unknown` part (M5), and the size of the `Blob` that it points to.
const UNKNOWN_OFFSET: u32 = 0;
const BLOB_BYTES: u32 = 16;

/// A leaf of at least [`ADOPT_BYTES_MIN`] bytes, which is left out of what is written.
pub(super) struct Late<'m> {
    pub(super) leaf: &'m [u8],
    /// How much of what is written follows it, in bytes.
    pub(super) from_end: usize,
    /// Whether it is one that M24 gathers: no string.
    pub(super) is_gathered: bool,
}

/// What a pass makes.
pub(super) struct Walk<'m> {
    pub(super) writer: Writer,
    /// Long leaves, the last one first, and their bytes in all.
    pub(super) late: Vec<Late<'m>>,
    pub(super) late_bytes: usize,
    /// How many levels of messages there may be below the one that the pass is at.
    depth: u32,
    /// Why the pass stopped, if it did.
    error: EncodeError,
}

impl<'m> Walk<'m> {
    /// Goes over a whole message. Answers where what is written begins, too.
    #[inline(always)]
    pub(super) fn of(plan: Plan<'_>, object: Object<'m>) -> Result<(Walk<'m>, At), EncodeError> {
        let (writer, at) = Writer::new();
        let error = EncodeError::TooLarge;
        let mut walk = Walk { writer, late: Vec::new(), late_bytes: 0, depth: DEPTH_MAX, error };
        match walk.message(plan, object, at) {
            Ok(at) if walk.bytes(at) <= MESSAGE_BYTES_MAX => Ok((walk, at)),
            _ => Err(walk.error),
        }
    }

    /// The output's bytes so far.
    #[inline(always)]
    pub(super) fn bytes(&self, at: At) -> usize {
        self.writer.len(at) + self.late_bytes
    }

    /// The fields of a message, and what nobody knows of it.
    fn message(&mut self, plan: Plan<'_>, object: Object<'m>, at: At) -> Place {
        let mut at = at;
        if let Some(unknown) = object.follow(UNKNOWN_OFFSET, BLOB_BYTES) {
            at = self.unknown(unknown, at)?;
        }
        for op in plan.ops().iter().rev() {
            let offset = op.offset;
            // A number, or the length of what is written already.
            let value = match op.code {
                OpCode::Int32 => int32(object.load(offset)),
                OpCode::Uint32 => uint32(object.load(offset)),
                OpCode::Sint32 => sint32(object.load(offset)),
                OpCode::Int64 => int64(object.load(offset)),
                OpCode::Sint64 => sint64(object.load(offset)),
                OpCode::Bool => bool(object.load(offset)),
                OpCode::Fixed32 => {
                    let value = object.load::<4>(offset);
                    if value != [0; 4] {
                        at = self.writer.fixed_field(at, op, value)?;
                    }
                    continue;
                }
                OpCode::String | OpCode::Bytes => {
                    if len(object, offset) != 0 {
                        at = self.leaf(op, object, offset, at)?;
                    }
                    continue;
                }
                OpCode::Link => {
                    let inner = plan.message_of(op);
                    if let Some(message) = object.follow(offset, inner.bytes()) {
                        at = self.nested(op, inner, message, at)?;
                    }
                    continue;
                }
                OpCode::Messages | OpCode::List | OpCode::Map if len(object, offset) == 0 => {
                    continue;
                }
                _ => {
                    at = self.rare(op, plan, object, at)?;
                    continue;
                }
            };
            if value != 0 {
                at = self.writer.varint_field(at, op, value)?;
            }
        }
        Ok(at)
    }

    #[cold]
    #[inline(never)]
    fn unknown(&mut self, blob: Object<'m>, at: At) -> Place {
        // SAFETY: an `Unknown` part points to a `Blob`; the message is borrowed.
        self.raw(at, unsafe { leaf::bytes(blob, 0, 1) }, false)
    }

    /// What the loop over fields leaves to a call.
    #[inline(never)]
    fn rare(&mut self, op: &Op, plan: Plan<'_>, object: Object<'m>, at: At) -> Place {
        match op.code {
            OpCode::Fixed64 if object.load(op.offset) == [0; 8] => Ok(at),
            OpCode::Flagged if !is_flagged(op, object) => Ok(at),
            OpCode::Member if !is_selected(op, object) => Ok(at),
            OpCode::Member if op.kind == ValueKind::Message => {
                let inner = plan.message_of(op);
                let message = object.follow(op.offset, inner.bytes());
                let message = message.expect("a message that is present has a link");
                self.nested(op, inner, message, at)
            }
            OpCode::Messages => self.messages(op, plan.message_of(op), object, at),
            OpCode::List => self.list(op, object, at),
            OpCode::Map => self.map(op, plan, object, at),
            _ => self.value(op, object, op.offset, at),
        }
    }

    /// A message with its length and tag.
    #[inline(always)]
    pub(super) fn nested(&mut self, op: &Op, plan: Plan<'_>, object: Object<'m>, at: At) -> Place {
        if self.depth == 0 {
            self.error = EncodeError::TooDeep;
            return Err(Stopped);
        }
        self.depth -= 1;
        let behind = self.bytes(at);
        let at = self.message(plan, object, at)?;
        self.depth += 1;
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
            ValueKind::String | ValueKind::Bytes => self.leaf(op, object, offset, at),
            kind => match number(kind, object, offset) {
                Number::Varint(value) => self.writer.varint_field(at, op, value),
                Number::Fixed32(value) => self.writer.fixed_field(at, op, value),
                Number::Fixed64(value) => self.writer.fixed_field(at, op, value),
            },
        }
    }

    /// The string or bytes at `offset`, with length and tag.
    #[inline(always)]
    pub(super) fn leaf(&mut self, op: &Op, object: Object<'m>, offset: u32, at: At) -> Place {
        // SAFETY: callers name a `Text` or a `Blob`; the message is borrowed.
        let bytes = unsafe { leaf::bytes(object, offset, 1) };
        let at = self.raw(at, bytes, op.kind == ValueKind::Bytes)?;
        self.writer.varint_field(at, op, bytes.len() as u64)
    }

    /// A leaf as it lies, or a note that it is left out.
    #[inline(always)]
    pub(super) fn raw(&mut self, at: At, leaf: &'m [u8], is_gathered: bool) -> Place {
        if leaf.len() < ADOPT_BYTES_MIN {
            return self.writer.raw(at, leaf);
        }
        self.leave_out(at, leaf, is_gathered)
    }

    #[cold]
    fn leave_out(&mut self, at: At, leaf: &'m [u8], is_gathered: bool) -> Place {
        if self.bytes(at) + leaf.len() > MESSAGE_BYTES_MAX {
            return Err(Stopped);
        }
        self.late.push(Late { leaf, from_end: self.writer.len(at), is_gathered });
        self.late_bytes += leaf.len();
        Ok(at)
    }
}
