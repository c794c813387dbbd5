//! All fields of one oneof (M11).

use std::ptr::NonNull;

use super::{Blob, Member, Pointer, Scalar, Text};
use crate::arena::Arena;
use crate::edit::Edit;
use crate::part::Message;
use crate::payload::Payload;

/// At most one of several values: the number of the member present, 0 for none, and its part.
/// Generated code's, which reads and writes each number as the kind that the schema gives it;
/// programs see an enum.
#[repr(C)]
pub struct OneOf {
    case: u32,
    zero: u32,
    value: [u64; 2],
}

impl OneOf {
    /// The number of the member present; 0 for none.
    #[inline(always)]
    pub const fn case(&self) -> u32 {
        self.case
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn text(&self) -> &str {
        // SAFETY: generated code asks for what the case says, and so for a `Text` here.
        unsafe { &*self.value.as_ptr().cast::<Text>() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn blob(&self) -> &[u8] {
        // SAFETY: generated code asks for what the case says, and so for a `Blob` here.
        unsafe { &*self.value.as_ptr().cast::<Blob>() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn link<T: Message>(&self) -> &T {
        // SAFETY: generated code asks for what the case says, and so for a pointer to a `T` here,
        // which is not 0: the setter or M26 saw to it, because the case is not 0.
        unsafe { &*(*self.value.as_ptr().cast::<Pointer>()).target().cast::<T>() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn scalar<S: Scalar>(&self) -> S {
        // SAFETY: generated code asks for what the case says, and so for an `S` here, whose size
        // is 8 bytes at most.
        unsafe { *self.value.as_ptr().cast::<S>() }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set_text(&mut self, number: u32, arena: &Arena, value: &str) {
        self.switch(number, arena);
        // SAFETY: 16 bytes that are zero, an empty `Text`, or the one that this case had.
        unsafe { &mut *self.value.as_mut_ptr().cast::<Text>() }.set(arena, value);
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set_blob(&mut self, number: u32, arena: &Arena, value: Payload<'_>) {
        self.switch(number, arena);
        // SAFETY: 16 bytes that are zero, an empty `Blob`, or the one that this case had.
        unsafe { &mut *self.value.as_mut_ptr().cast::<Blob>() }.set(arena, value);
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set_scalar<S: Scalar>(&mut self, number: u32, arena: &Arena, value: S) {
        self.switch(number, arena);
        // SAFETY: 8 bytes that the case is going to give this type; a scalar has 8 at most.
        unsafe { self.value.as_mut_ptr().cast::<S>().write(value) };
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn set_link<T: Message>(&mut self, number: u32, arena: &Arena, value: &T) {
        let mut edit = self.link_mut::<T>(number, arena);
        // SAFETY: the struct is the cursor's to write, and no part of `value`, which is borrowed.
        unsafe { super::copy::assign(edit.at(), value, arena) }
    }

    /// A cursor on the message, which replaces another member if it is not the one present.
    #[doc(hidden)]
    #[inline(always)]
    pub fn link_mut<'a, T: Message>(&'a mut self, number: u32, arena: &'a Arena) -> Edit<'a, T> {
        self.switch(number, arena);
        // SAFETY: 8 bytes that are zero, no target, or the pointer that this case had.
        let pointer = unsafe { &mut *self.value.as_mut_ptr().cast::<Pointer>() };
        if pointer.is_none() {
            pointer.set(arena.object(size_of::<T>() as u32).at());
        }
        let at = NonNull::new(pointer.target()).expect("set above, or before");
        // SAFETY: a `T` in this arena, that no other part points to (M14).
        unsafe { Edit::new(at.cast(), arena) }
    }

    #[doc(hidden)]
    pub fn clear(&mut self, arena: &Arena) {
        self.switch(0, arena);
    }

    /// Makes `number` the case. Another member is abandoned, and the value all zeros then.
    #[inline(always)]
    fn switch(&mut self, number: u32, arena: &Arena) {
        if self.case != number {
            if self.case != 0 {
                // What the member was is not known here, nor how many bytes it had.
                arena.abandon(8);
            }
            self.case = number;
            self.value = [0; 2];
        }
    }

    /// Corrects the pointer that the value begins with, if the member has one (M15).
    pub(super) fn relocate(&mut self, members: &[Member], distance: i64) {
        let is_part = |member: &Member| member.number == self.case && member.shape.is_part();
        if members.iter().any(is_part) {
            // SAFETY: `Text`, `Blob` and a link begin with a pointer.
            unsafe { &mut *self.value.as_mut_ptr().cast::<Pointer>() }.relocate(distance);
        }
    }
}
