//! `bytes`.

use std::fmt;
use std::ops::Deref;

use super::Span;
use crate::arena::Arena;
use crate::payload::Payload;

/// Bytes in a message: read them as a `&[u8]`.
#[repr(transparent)]
pub struct Blob(Span);

impl Blob {
    /// The bytes.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the module's invariant; the elements of a blob are bytes.
        unsafe { self.0.elements() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set(&mut self, arena: &Arena, value: Payload<'_>) {
        match value.into_kept() {
            Ok(owner) => self.0.set_adopted(arena, owner),
            Err(copied) => self.0.set_bytes(arena, &copied),
        }
    }

    #[doc(hidden)]
    pub fn clear(&mut self, arena: &Arena) {
        self.0.set_bytes(arena, &[]);
    }

    pub(crate) fn span(&mut self) -> &mut Span {
        &mut self.0
    }
}

impl Deref for Blob {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Blob) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Blob {}

impl PartialEq<[u8]> for Blob {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl PartialEq<&[u8]> for Blob {
    fn eq(&self, other: &&[u8]) -> bool {
        self.as_slice() == *other
    }
}
