//! The pointer in all parts, alone and with length and capacity.

use std::ptr::{self, NonNull};

use crate::arena::Object;
use crate::arena::{Arena, copy, rounded};

/// Self-relative: the target's address minus the pointer's own; 0 is no target (M3).
#[repr(transparent)]
pub(crate) struct Pointer(i64);

impl Pointer {
    #[inline(always)]
    pub(crate) fn is_none(&self) -> bool {
        self.0 == 0
    }

    /// The target, with the provenance that its memory exposed; dangling if there is none.
    #[inline(always)]
    pub(crate) fn target(&self) -> *mut u8 {
        let here = ptr::from_ref(self).addr();
        ptr::with_exposed_provenance_mut(here.wrapping_add(self.0 as usize))
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, to: NonNull<u8>) {
        let here = ptr::from_mut(self).addr();
        self.0 = to.addr().get().wrapping_sub(here) as i64;
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.0 = 0;
    }

    /// Corrects a pointer that was moved by `distance` bytes together with what it is in (M15).
    #[inline(always)]
    pub(crate) fn relocate(&mut self, distance: i64) {
        if self.0 != 0 {
            self.0 = self.0.wrapping_sub(distance);
        }
    }
}

/// A pointer to `len` elements, in room for `cap`.
///
/// For bytes, `cap` is the leaf's size in this arena, rounded up; 0 with a `len` above 0 marks
/// adopted bytes. For elements, it counts these. All memory behind the last is zero.
#[repr(C)]
pub(crate) struct Span {
    pub(crate) at: Pointer,
    pub(crate) len: u32,
    pub(crate) cap: u32,
}

impl Span {
    /// The elements.
    ///
    /// # Safety
    /// The span is a part in the sense of the module's invariant, and its elements are `T`s.
    #[inline(always)]
    pub(crate) unsafe fn elements<T>(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `len` elements were written there, or accepted by M26 with their alignment, in
        // memory that lives as long as this part's and is not written while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.at.target().cast(), self.len as usize) }
    }

    /// Replaces the bytes; in place, if they fit (M14).
    #[inline(always)]
    pub(crate) fn set_bytes(&mut self, arena: &Arena, value: &[u8]) {
        if self.at.is_none() {
            if !value.is_empty() {
                self.point_to_leaf(arena.leaf(value));
            }
            return;
        }
        self.replace_bytes(arena, value);
    }

    #[cold]
    #[inline(never)]
    fn replace_bytes(&mut self, arena: &Arena, value: &[u8]) {
        // Adopted bytes, whose capacity is 0, are never written.
        if self.cap > 0 && value.len() <= self.cap as usize {
            self.overwrite(value);
            return;
        }
        self.drop_bytes(arena);
        if !value.is_empty() {
            self.point_to_leaf(arena.leaf(value));
        }
    }

    /// Makes adopted bytes the value (M16).
    pub(crate) fn set_adopted(&mut self, arena: &Arena, adopted: bytes::Bytes) {
        self.drop_bytes(arena);
        let target = arena.adopt(adopted);
        self.at.set(target.at());
        self.len = target.bytes();
        self.cap = 0;
    }

    /// Gives up the bytes, and their memory.
    pub(crate) fn drop_bytes(&mut self, arena: &Arena) {
        if self.cap == 0 && self.len > 0 {
            arena.release(self.at.target());
        }
        arena.abandon(self.cap);
        self.at.clear();
        (self.len, self.cap) = (0, 0);
    }

    fn point_to_leaf(&mut self, leaf: Object<'_>) {
        self.at.set(leaf.at());
        self.len = leaf.bytes();
        self.cap = rounded(leaf.bytes()) as u32;
    }

    /// Writes over the old bytes, and zeros over what is left of them.
    fn overwrite(&mut self, value: &[u8]) {
        let old_len = self.len as usize;
        let target = NonNull::new(self.at.target()).expect("a capacity comes with a target");
        // SAFETY: the target has `cap` bytes in this arena, at least `value.len()` and `old_len`,
        // and nothing refers to them while the part is borrowed to be written.
        unsafe {
            copy(value, target);
            if let Some(left @ 1..) = old_len.checked_sub(value.len()) {
                ptr::write_bytes(target.as_ptr().add(value.len()), 0, left);
            }
        }
        self.len = value.len() as u32;
    }
}
