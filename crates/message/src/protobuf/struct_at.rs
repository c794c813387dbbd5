//! The address of a message's struct, for loops over its fields by plan. It has no size, which
//! would be one more value to keep, and nothing checks it for each field.
//!
//! Invariant: a [`StructAt`] is only made for a struct of the plan whose fields are accessed, so
//! that each of them is within the struct.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use crate::arena::Arena;
use crate::arena::Object;
use crate::plan::Plan;

/// Where a struct has its `Unknown` part (M5).
const UNKNOWN_OFFSET: u32 = 0;
/// Where a `Text`, `Blob`, `List` or `Map` has its length.
const LEN_OFFSET: u32 = 8;

/// The place of a struct.
#[derive(Clone, Copy)]
pub(super) struct StructAt<'m>(NonNull<u8>, PhantomData<&'m Arena>);

impl<'m> StructAt<'m> {
    #[inline(always)]
    pub(super) fn of(object: Object<'m>) -> StructAt<'m> {
        StructAt(object.at(), PhantomData)
    }

    /// The struct of `plan`'s message that lies here.
    #[inline(always)]
    pub(super) fn object(self, plan: Plan<'_>) -> Object<'m> {
        self.sized(plan.bytes())
    }

    /// What lies here, of `bytes`.
    #[inline(always)]
    pub(super) fn sized(self, bytes: u32) -> Object<'m> {
        Object::new(self.0, bytes)
    }

    /// The place of an element of an array that begins here, of structs or spans of `bytes`.
    ///
    /// # Safety
    /// There are more elements than `index`.
    #[inline(always)]
    pub(super) unsafe fn element(self, index: u32, bytes: u32) -> StructAt<'m> {
        // SAFETY: within the array.
        StructAt(unsafe { self.0.add(index as usize * bytes as usize) }, PhantomData)
    }

    /// The place of the struct before this one, in an array of structs of `bytes`.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(super) unsafe fn before(self, bytes: u32) -> StructAt<'m> {
        // SAFETY: within the array.
        StructAt(unsafe { self.0.sub(bytes as usize) }, PhantomData)
    }

    /// The `N` bytes of the field at `offset`.
    ///
    /// # Safety
    /// A struct lies here that has the field, of as many bytes.
    #[inline(always)]
    pub(super) unsafe fn load<const N: usize>(self, offset: u32) -> [u8; N] {
        // SAFETY: within the struct; bytes have no invalid values, and an array of them needs no
        // alignment.
        unsafe { self.0.add(offset as usize).cast::<[u8; N]>().read() }
    }

    /// The place of the struct behind this one, in an array of structs of `bytes`.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(super) unsafe fn behind(self, bytes: u32) -> StructAt<'m> {
        // SAFETY: within the array.
        StructAt(unsafe { self.0.add(bytes as usize) }, PhantomData)
    }

    /// Sets the `N` bytes of the field at `offset`.
    ///
    /// # Safety
    /// As [`StructAt::load`], and the struct is being written.
    #[inline(always)]
    pub(super) unsafe fn store<const N: usize>(self, offset: u32, value: [u8; N]) {
        // SAFETY: within the struct, which no reference covers.
        unsafe { self.0.add(offset as usize).cast::<[u8; N]>().write(value) }
    }

    /// Makes the pointer at `offset` lead to an object (M3).
    ///
    /// # Safety
    /// As [`StructAt::store`]; the field begins with a pointer to such an object.
    #[inline(always)]
    pub(super) unsafe fn lead_to(self, offset: u32, object: Object<'m>) {
        let here = self.0.addr().get().wrapping_add(offset as usize);
        let distance = object.at().addr().get().wrapping_sub(here) as i64;
        // SAFETY: passed on.
        unsafe { self.store(offset, distance.to_le_bytes()) }
    }

    /// How many elements, or bytes, the field at `offset` has.
    ///
    /// # Safety
    /// A struct lies here that has the field: a `Text`, `Blob`, `List` or `Map`.
    #[inline(always)]
    pub(super) unsafe fn len(self, offset: u32) -> u32 {
        // SAFETY: passed on.
        u32::from_le_bytes(unsafe { self.load(offset + LEN_OFFSET) })
    }

    /// What the field at `offset` points to, and how many elements or bytes there are; `None` if
    /// there are none.
    ///
    /// # Safety
    /// As [`StructAt::len`].
    #[inline(always)]
    pub(super) unsafe fn target(self, offset: u32) -> Option<(StructAt<'m>, u32)> {
        // SAFETY: passed on.
        match unsafe { self.len(offset) } {
            0 => None,
            // SAFETY: a part with a length points to something.
            len => Some((unsafe { self.lead(offset, self.distance(offset)) }, len)),
        }
    }

    /// The bytes of the field at `offset`; `None` if there are none.
    ///
    /// # Safety
    /// A struct lies here that has the field, a `Text` or `Blob`; nobody writes the bytes as long
    /// as the slice is used.
    #[inline(always)]
    pub(super) unsafe fn leaf(self, offset: u32) -> Option<&'m [u8]> {
        // SAFETY: passed on.
        let (leaf, len) = unsafe { self.target(offset) }?;
        // SAFETY: the part's target has this many bytes, which live as long as the message.
        Some(unsafe { slice::from_raw_parts(leaf.0.as_ptr(), len as usize) })
    }

    /// The struct that the field at `offset` links to, if there is one.
    ///
    /// # Safety
    /// A struct lies here that has the field, which is a link.
    #[inline(always)]
    pub(super) unsafe fn link(self, offset: u32) -> Option<StructAt<'m>> {
        // SAFETY: passed on.
        match unsafe { self.distance(offset) } {
            0 => None,
            // SAFETY: only a link of 0 leads nowhere.
            distance => Some(unsafe { self.lead(offset, distance) }),
        }
    }

    /// The `Blob` of what nobody knows of the message, if there is one (M10).
    ///
    /// # Safety
    /// A struct lies here.
    #[inline(always)]
    pub(super) unsafe fn unknown(self) -> Option<StructAt<'m>> {
        // SAFETY: each struct has the part.
        unsafe { self.link(UNKNOWN_OFFSET) }
    }

    /// # Safety
    /// A pointer lies at `offset`.
    #[inline(always)]
    unsafe fn distance(self, offset: u32) -> i64 {
        // SAFETY: passed on.
        i64::from_le_bytes(unsafe { self.load(offset) })
    }

    /// # Safety
    /// A pointer of this distance lies at `offset`, and leads somewhere.
    #[inline(always)]
    unsafe fn lead(self, offset: u32, distance: i64) -> StructAt<'m> {
        let here = self.0.addr().get().wrapping_add(offset as usize);
        let there = ptr::with_exposed_provenance_mut(here.wrapping_add(distance as usize));
        // SAFETY: an object is nowhere null.
        StructAt(unsafe { NonNull::new_unchecked(there) }, PhantomData)
    }
}
