//! The cursor that generated cursors are made of.

use std::ptr::NonNull;

use crate::arena::Arena;

/// Writes a message of an arena. Generated code wraps it, with a setter per field.
///
/// It holds a pointer, and no reference, because what it points to is also reached through parts'
/// pointers; it is borrowed from the owner, so nothing reads the message while it writes.
pub struct Edit<'a, T> {
    at: NonNull<T>,
    arena: &'a Arena,
}

impl<'a, T> Edit<'a, T> {
    /// # Safety
    /// `at` is a message in `arena` that lives for `'a` and that is reached in that time only
    /// through this cursor.
    #[inline(always)]
    pub(crate) unsafe fn new(at: NonNull<T>, arena: &'a Arena) -> Edit<'a, T> {
        Edit { at, arena }
    }

    /// The struct and its arena, for one statement of generated code (M12).
    #[doc(hidden)]
    #[inline(always)]
    pub fn parts(&mut self) -> (&mut T, &Arena) {
        // SAFETY: the cursor alone reaches the message, and is borrowed.
        (unsafe { self.at.as_mut() }, self.arena)
    }

    /// What [`Edit::parts`] lends, for as long as the cursor would have lived.
    #[inline(always)]
    pub(crate) fn into_parts(mut self) -> (&'a mut T, &'a Arena) {
        // SAFETY: the cursor alone reaches the message, and is gone.
        (unsafe { self.at.as_mut() }, self.arena)
    }

    /// The message.
    #[inline(always)]
    pub fn get(&self) -> &T {
        // SAFETY: the cursor alone reaches the message, and is borrowed.
        unsafe { self.at.as_ref() }
    }

    pub(crate) fn at(&mut self) -> NonNull<T> {
        self.at
    }
}
