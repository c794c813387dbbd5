//! A single message, and unknown fields.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{Blob, Pointer};
use crate::arena::Arena;
use crate::edit::Edit;
use crate::part::Message;

/// A message, or none. Generated code's; programs see an `Option<&T>`.
#[repr(transparent)]
pub struct Link<T>(Pointer, PhantomData<T>);

impl<T: Message> Link<T> {
    /// The message, if there is one.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        if self.0.is_none() {
            return None;
        }
        // SAFETY: the module's invariant: a pointer that is not 0 leads to a `T`, which is not
        // written while this is borrowed.
        Some(unsafe { &*self.0.target().cast::<T>() })
    }

    /// A cursor on the message, which is made if it is absent.
    #[doc(hidden)]
    #[inline(always)]
    pub fn edit<'a>(&'a mut self, arena: &'a Arena) -> Edit<'a, T> {
        if self.0.is_none() {
            self.0.set(arena.object(size_of::<T>() as u32).at());
        }
        let at = NonNull::new(self.0.target()).expect("set above, or before");
        // SAFETY: a `T` in this arena, that no other part points to (M14).
        unsafe { Edit::new(at.cast(), arena) }
    }

    #[doc(hidden)]
    pub fn set(&mut self, arena: &Arena, value: &T) {
        let mut edit = self.edit(arena);
        // SAFETY: the struct is the cursor's to write, and no part of `value`, which is borrowed.
        unsafe { super::copy::assign(edit.at(), value, arena) }
    }

    #[doc(hidden)]
    pub fn clear(&mut self, arena: &Arena) {
        if !self.0.is_none() {
            arena.abandon(size_of::<T>() as u32);
            self.0.clear();
        }
    }
}

/// Fields that a protobuf decoder did not know, with their tags, in order of arrival (M10).
#[repr(transparent)]
pub struct Unknown(Pointer);

impl Unknown {
    /// The fields as they were encoded.
    #[inline(always)]
    pub fn as_slice(&self) -> &[u8] {
        if self.0.is_none() {
            return &[];
        }
        // SAFETY: the module's invariant: a pointer that is not 0 leads to a `Blob`.
        unsafe { &*self.0.target().cast::<Blob>() }
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}
