//! The cursor on a list.

use std::ops::Deref;
use std::ptr::NonNull;

use super::array;
use crate::arena::Arena;
use crate::edit::Edit;
use crate::part::Message;
use crate::part::{Blob, Element, List, Plain, Scalar, Span, Text};
use crate::payload::Payload;

/// Writes a list. Dereferences to a slice.
pub struct ListMut<'a, T> {
    list: NonNull<List<T>>,
    arena: &'a Arena,
}

impl<'a, T: Element> ListMut<'a, T> {
    /// # Safety
    /// `list` lies in `arena`, lives for `'a`, and is reached in that time only through this.
    #[inline(always)]
    pub(crate) unsafe fn new(list: NonNull<List<T>>, arena: &'a Arena) -> ListMut<'a, T> {
        ListMut { list, arena }
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Span, &'a Arena) {
        // SAFETY: the cursor alone reaches the list, and is borrowed.
        (unsafe { self.list.as_mut() }.span(), self.arena)
    }

    /// Reserves room for `more` elements, so that adding them moves none.
    ///
    /// # Panics
    /// If the list would take 4 GiB or more.
    pub fn reserve(&mut self, more: usize) -> &mut Self {
        let more = u32::try_from(more).expect("an array is less than 4 GiB");
        let (span, arena) = self.parts();
        // SAFETY: the list's elements are `T`s in this arena, and the cursor's to write.
        unsafe { array::reserve::<T>(span, arena, more) };
        self
    }

    /// Removes the element at `index`; later ones move up.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn remove(&mut self, index: usize) -> &mut Self {
        assert!(index < self.len(), "an index is less than the list's length");
        let (span, arena) = self.parts();
        // SAFETY: as for `reserve`; there is such an element.
        unsafe { array::remove::<T>(span, arena, index as u32) };
        self
    }

    /// Removes all elements from the one at `len` on, if there are as many.
    pub fn truncate(&mut self, len: usize) -> &mut Self {
        let (span, arena) = self.parts();
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        // SAFETY: as for `reserve`.
        unsafe { array::truncate::<T>(span, arena, len) };
        self
    }

    /// Removes all elements. Keeps the memory.
    pub fn clear(&mut self) -> &mut Self {
        self.truncate(0)
    }

    #[inline(always)]
    pub(crate) fn push_with(&mut self, value: T::Value<'_>) {
        let (span, arena) = self.parts();
        // SAFETY: as for `reserve`; the new element is zeroed.
        unsafe { T::put(array::push(span, arena), value, arena) }
    }

    fn set_with(&mut self, index: usize, value: T::Value<'_>) {
        let at = self.element(index);
        // SAFETY: as for `reserve`.
        unsafe { T::put(at, value, self.arena) }
    }

    fn element(&mut self, index: usize) -> NonNull<T> {
        assert!(index < self.len(), "an index is less than the list's length");
        let (span, _) = self.parts();
        // SAFETY: there is such an element, so the array has room.
        unsafe { array::element(span, index as u32) }
    }
}

impl<T: Plain> ListMut<'_, T> {
    /// Adds a scalar, or a copy of a message.
    #[inline(always)]
    pub fn push(&mut self, value: T::Value<'_>) -> &mut Self {
        self.push_with(value);
        self
    }

    /// Replaces an element.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set(&mut self, index: usize, value: T::Value<'_>) -> &mut Self {
        self.set_with(index, value);
        self
    }

    /// Adds scalars, or copies of messages.
    pub fn extend<'v>(&mut self, values: impl IntoIterator<Item = T::Value<'v>>) -> &mut Self {
        let values = values.into_iter();
        self.reserve(values.size_hint().0);
        values.for_each(|value| self.push_with(value));
        self
    }
}

impl<S: Scalar> ListMut<'_, S> {
    /// The elements, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [S] {
        let len = self.len();
        if len == 0 {
            return &mut [];
        }
        let at = self.element(0);
        // SAFETY: `len` scalars, which the cursor alone reaches, and is borrowed. Scalars may be
        // overwritten, swapped and copied: they have no pointers.
        unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }
    }
}

impl ListMut<'_, Text> {
    /// Adds a string.
    #[inline(always)]
    pub fn push(&mut self, value: impl AsRef<str>) -> &mut Self {
        self.push_with(value.as_ref());
        self
    }

    /// Replaces a string.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set(&mut self, index: usize, value: impl AsRef<str>) -> &mut Self {
        self.set_with(index, value.as_ref());
        self
    }

    /// Adds strings.
    pub fn extend(&mut self, values: impl IntoIterator<Item: AsRef<str>>) -> &mut Self {
        let values = values.into_iter();
        self.reserve(values.size_hint().0);
        values.for_each(|value| self.push_with(value.as_ref()));
        self
    }
}

impl ListMut<'_, Blob> {
    /// Adds bytes. Long ones with an owner are not copied.
    pub fn push<'v>(&mut self, value: impl Into<Payload<'v>>) -> &mut Self {
        self.push_with(value.into());
        self
    }

    /// Replaces bytes.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn set<'v>(&mut self, index: usize, value: impl Into<Payload<'v>>) -> &mut Self {
        self.set_with(index, value.into());
        self
    }

    /// Adds bytes, element by element.
    pub fn extend<'v>(&mut self, values: impl IntoIterator<Item: Into<Payload<'v>>>) -> &mut Self {
        let values = values.into_iter();
        self.reserve(values.size_hint().0);
        values.for_each(|value| self.push_with(value.into()));
        self
    }
}

impl<T: Message> ListMut<'_, T> {
    /// Adds an empty message, and returns its cursor.
    #[inline(always)]
    pub fn add(&mut self) -> T::Mut<'_> {
        let (span, arena) = self.parts();
        // SAFETY: the list's elements are `T`s in this arena, reached through this cursor alone.
        unsafe { Edit::new(array::push(span, arena), arena) }.into()
    }

    /// The cursor of the message at `index`.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn at(&mut self, index: usize) -> T::Mut<'_> {
        let at = self.element(index);
        // SAFETY: as for `add`.
        unsafe { Edit::new(at, self.arena) }.into()
    }
}

impl<T: Element> Deref for ListMut<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the cursor alone reaches the list, and is borrowed.
        unsafe { self.list.as_ref() }
    }
}
