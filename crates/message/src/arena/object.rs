//! A struct, an array or a leaf that a plan-driven algorithm writes or follows.
//!
//! Offsets are checked against the object. Only the plan knows that there is a part of the right
//! kind at an offset. Reads and writes use an address with the provenance of the chunk, so they
//! never conflict with references that cursors lend for one statement.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::Arena;

/// An object in an arena.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    at: NonNull<u8>,
    bytes: u32,
    arena: PhantomData<&'a Arena>,
}

impl<'a> Object<'a> {
    /// `at` has `bytes` bytes that live as long as the arena and that no reference covers.
    #[inline(always)]
    pub(crate) fn new(at: NonNull<u8>, bytes: u32) -> Object<'a> {
        Object { at, bytes, arena: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn at(self) -> NonNull<u8> {
        self.at
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> u32 {
        self.bytes
    }

    /// The `N` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(self, offset: u32) -> [u8; N] {
        // SAFETY: within the object, which lives; bytes have no invalid values, and an array of
        // them needs no alignment.
        unsafe { self.place(offset, N).cast::<[u8; N]>().read() }
    }

    /// Sets the `N` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(self, offset: u32, value: [u8; N]) {
        // SAFETY: within the object, which lives and which no reference covers.
        unsafe { self.place(offset, N).cast::<[u8; N]>().write(value) }
    }

    /// Copies `bytes` to `offset`.
    #[inline(always)]
    pub(crate) fn copy(self, offset: u32, bytes: &[u8]) {
        let to = self.place(offset, bytes.len());
        // SAFETY: within the object, which lives and which no reference covers, so that `bytes`
        // cannot overlap with it.
        unsafe { super::copy(bytes, to) }
    }

    /// Copies all bytes of an object of the same size.
    #[inline(always)]
    pub(crate) fn copy_from(self, from: Object<'_>) {
        assert!(self.bytes == from.bytes, "a copy has the size of its original");
        // SAFETY: both live and have this size. They may be one, for all that is known here.
        unsafe { ptr::copy(from.at.as_ptr(), self.at.as_ptr(), self.bytes as usize) };
    }

    /// The bytes, while nobody writes them.
    #[inline(always)]
    pub(crate) fn as_slice(self) -> &'a [u8] {
        // SAFETY: the object lives, and bytes have no invalid values. Who asks for a slice does
        // not write the object as long as it is used.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes as usize) }
    }

    /// Makes the `Text`, `Blob`, `List` or `Map` at `offset` point to an object of `len` elements
    /// (or bytes) with room for `cap`.
    #[inline(always)]
    pub(crate) fn point(self, offset: u32, to: Object<'a>, len: u32, cap: u32) {
        self.link(offset, to);
        self.store(offset + 8, len.to_le_bytes());
        self.store(offset + 12, cap.to_le_bytes());
    }

    /// Makes the pointer at `offset` lead to an object (M3).
    #[inline(always)]
    pub(crate) fn link(self, offset: u32, to: Object<'a>) {
        let here = self.place(offset, 8).addr().get();
        let distance = to.at.addr().get().wrapping_sub(here) as i64;
        self.store(offset, distance.to_le_bytes());
    }

    /// What the `Text`, `Blob`, `List` or `Map` at `offset` points to, with the number of its
    /// elements (or bytes) of `element_bytes` each; `None` if there are none.
    #[inline(always)]
    pub(crate) fn target(self, offset: u32, element_bytes: u32) -> Option<(Object<'a>, u32)> {
        let len = u32::from_le_bytes(self.load(offset + 8));
        if len == 0 {
            return None;
        }
        let bytes = len.checked_mul(element_bytes).expect("an object is less than 4 GiB");
        self.follow(offset, bytes).map(|object| (object, len))
    }

    /// The object of `bytes` that the pointer at `offset` leads to; `None` if it is 0.
    #[inline(always)]
    pub(crate) fn follow(self, offset: u32, bytes: u32) -> Option<Object<'a>> {
        let distance = i64::from_le_bytes(self.load(offset));
        if distance == 0 {
            return None;
        }
        let here = self.place(offset, 8).addr().get();
        let at = ptr::with_exposed_provenance_mut(here.wrapping_add(distance as usize));
        Some(Object::new(NonNull::new(at)?, bytes))
    }

    /// The part of the object from `offset` on that is `bytes` long.
    #[inline(always)]
    pub(crate) fn part(self, offset: u32, bytes: u32) -> Object<'a> {
        Object::new(self.place(offset, bytes as usize), bytes)
    }

    #[inline(always)]
    fn place(self, offset: u32, bytes: usize) -> NonNull<u8> {
        let fits = offset as usize + bytes <= self.bytes as usize;
        assert!(fits, "a part lies within its object");
        // SAFETY: within the object.
        unsafe { self.at.add(offset as usize) }
    }
}
