//! One value of a field: numbers, strings and bytes.

use super::Decoder;
use crate::arena::Object;
use crate::plan::ValueKind;
use crate::protobuf::cursor::Cursor;
use crate::protobuf::struct_at::StructAt;
use crate::{ADOPT_BYTES_MIN, DecodeError};

/// Numbers from the wire, each as it lies in memory.
impl Cursor<'_> {
    /// A number of `kind`, in its usual form, into the part at `offset`.
    ///
    /// # Panics
    /// If `kind` is no number: callers have looked.
    #[inline(always)]
    pub(super) fn number(
        &mut self,
        kind: ValueKind,
        object: Object<'_>,
        offset: u32,
    ) -> Result<(), DecodeError> {
        match kind {
            ValueKind::Int32 | ValueKind::Uint32 | ValueKind::Enum => {
                object.store(offset, self.word4()?);
            }
            ValueKind::Int64 | ValueKind::Uint64 => object.store(offset, self.word8()?),
            ValueKind::Sint32 => object.store(offset, self.zigzag4()?),
            ValueKind::Sint64 => object.store(offset, self.zigzag8()?),
            ValueKind::Bool => object.store(offset, self.bool()?),
            ValueKind::Float | ValueKind::Fixed32 | ValueKind::Sfixed32 => {
                object.store(offset, self.fixed::<4>()?);
            }
            ValueKind::Double | ValueKind::Fixed64 | ValueKind::Sfixed64 => {
                object.store(offset, self.fixed::<8>()?);
            }
            ValueKind::String | ValueKind::Bytes | ValueKind::Message => {
                unreachable!("no kind of number")
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn word4(&mut self) -> Result<[u8; 4], DecodeError> {
        Ok(word4(self.varint()?))
    }

    #[inline(always)]
    pub(super) fn word8(&mut self) -> Result<[u8; 8], DecodeError> {
        Ok(self.varint()?.to_le_bytes())
    }

    #[inline(always)]
    pub(super) fn zigzag4(&mut self) -> Result<[u8; 4], DecodeError> {
        Ok(zigzag4(self.varint()?))
    }

    #[inline(always)]
    pub(super) fn zigzag8(&mut self) -> Result<[u8; 8], DecodeError> {
        Ok(zigzag8(self.varint()?))
    }

    #[inline(always)]
    pub(super) fn bool(&mut self) -> Result<[u8; 1], DecodeError> {
        Ok(bool(self.varint()?))
    }
}

/// Of a 32-bit field only the low 32 bits count (M29).
#[inline(always)]
pub(super) fn word4(value: u64) -> [u8; 4] {
    (value as u32).to_le_bytes()
}

#[inline(always)]
pub(super) fn zigzag4(value: u64) -> [u8; 4] {
    let value = value as u32;
    ((value >> 1) ^ (value & 1).wrapping_neg()).to_le_bytes()
}

#[inline(always)]
pub(super) fn zigzag8(value: u64) -> [u8; 8] {
    ((value >> 1) ^ (value & 1).wrapping_neg()).to_le_bytes()
}

#[inline(always)]
pub(super) fn bool(value: u64) -> [u8; 1] {
    [u8::from(value != 0)]
}

impl<'a, 'i> Decoder<'a, '_, 'i> {
    /// Makes a copy of `bytes` the value of the `Text` or `Blob` at `offset`.
    #[inline(always)]
    pub(super) fn set_leaf(
        &mut self,
        root: StructAt<'a>,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), DecodeError> {
        self.drop_leaf(root, offset);
        if bytes.is_empty() {
            // SAFETY: the field has 16 bytes.
            unsafe { root.store(offset, [0; 16]) };
            return Ok(());
        }
        self.charge(bytes.len() as u64)?;
        let len = bytes.len() as u32;
        self.point(root, offset, self.arena.leaf(bytes), len.next_multiple_of(8));
        Ok(())
    }

    /// Makes the `Text` or `Blob` at `offset` point to a leaf with room for `cap`.
    #[inline(always)]
    fn point(&self, root: StructAt<'a>, offset: u32, leaf: Object<'a>, cap: u32) {
        let lengths = u64::from(leaf.bytes()) | u64::from(cap) << 32;
        // SAFETY: callers name a `Text` or a `Blob` of the struct that lies there.
        unsafe {
            root.lead_to(offset, leaf);
            root.store(offset + 8, lengths.to_le_bytes());
        }
    }

    /// As [`Decoder::set_leaf`], but long bytes with an owner are not copied (M16).
    #[inline(always)]
    pub(super) fn set_blob(
        &mut self,
        root: StructAt<'a>,
        offset: u32,
        bytes: &'i [u8],
    ) -> Result<(), DecodeError> {
        match self.owner {
            Some(owner) if bytes.len() >= ADOPT_BYTES_MIN => {
                self.drop_leaf(root, offset);
                self.point(root, offset, self.arena.adopt(owner.slice_ref(bytes)), 0);
                self.granted = 0;
                Ok(())
            }
            _ => self.set_leaf(root, offset, bytes),
        }
    }

    #[inline(always)]
    fn drop_leaf(&mut self, root: StructAt<'a>, offset: u32) {
        // SAFETY: callers name a `Text` or a `Blob`.
        if unsafe { root.len(offset) } != 0 {
            self.drop_old_leaf(root, offset);
        }
    }

    /// Gives up the bytes that the part at `offset` has; 0 as a capacity marks adopted ones.
    #[cold]
    fn drop_old_leaf(&mut self, root: StructAt<'a>, offset: u32) {
        // SAFETY: as for `drop_leaf`.
        match u32::from_le_bytes(unsafe { root.load(offset + 12) }) {
            0 => {
                // SAFETY: as for `drop_leaf`; nobody writes adopted bytes.
                let old = unsafe { root.leaf(offset) }.expect("a part with a length has a target");
                self.arena.release(old.as_ptr());
            }
            cap => self.arena.abandon(cap),
        }
    }

    /// The struct of `bytes` that the link at `offset` leads to, made if there is none (M29).
    #[inline(always)]
    pub(super) fn linked(
        &mut self,
        root: StructAt<'a>,
        offset: u32,
        bytes: u32,
    ) -> Result<StructAt<'a>, DecodeError> {
        // SAFETY: callers name a link of the struct that lies there.
        match unsafe { root.link(offset) } {
            Some(message) => Ok(message),
            None => {
                let message = self.object(u64::from(bytes))?;
                // SAFETY: as above.
                unsafe { root.lead_to(offset, message) };
                Ok(StructAt::of(message))
            }
        }
    }
}
