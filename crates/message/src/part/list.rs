//! `repeated`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::{Element, Span};
use crate::arena::Arena;
use crate::part::ListMut;

/// Contiguous elements. Read them as a `&[T]`.
#[repr(transparent)]
pub struct List<T>(Span, PhantomData<T>);

impl<T: Element> List<T> {
    /// The elements.
    #[inline(always)]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the module's invariant; the elements of the list are `T`s.
        unsafe { self.0.elements() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn edit<'a>(&'a mut self, arena: &'a Arena) -> ListMut<'a, T> {
        // SAFETY: the list lies in this arena, and is borrowed as long as the cursor lives.
        unsafe { ListMut::new(NonNull::from(self), arena) }
    }

    pub(crate) fn span(&mut self) -> &mut Span {
        &mut self.0
    }
}

impl<T: Element> Deref for List<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<'a, T: Element> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_slice(), f)
    }
}

impl<T: Element + PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &List<T>) -> bool {
        self.as_slice() == other.as_slice()
    }
}
