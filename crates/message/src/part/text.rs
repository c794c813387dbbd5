//! `string`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use super::Span;
use crate::arena::Arena;

/// A string in a message: read it as a `&str`.
#[repr(transparent)]
pub struct Text(Span);

impl Text {
    /// The string.
    #[inline(always)]
    pub fn as_str(&self) -> &str {
        // SAFETY: the setter took a `str`, or M26 found the bytes to be UTF-8.
        unsafe { std::str::from_utf8_unchecked(self.0.elements()) }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set(&mut self, arena: &Arena, value: &str) {
        self.0.set_bytes(arena, value.as_bytes());
    }

    #[doc(hidden)]
    pub fn clear(&mut self, arena: &Arena) {
        self.0.set_bytes(arena, &[]);
    }

    pub(crate) fn span(&mut self) -> &mut Span {
        &mut self.0
    }
}

impl Deref for Text {
    type Target = str;
    #[inline(always)]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self.as_str().cmp(other)
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
