//! Iterates over the fields of a message without a check for the end: before them there is an
//! [`Op::END`], and after them there are two, so that code may look past the expected field.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::Plan;
use super::op::Op;

/// A place in the table of fields: at a field of a message, or at the end before the first or
/// behind the last.
#[derive(Clone, Copy)]
pub(crate) struct OpPlace<'a>(NonNull<Op>, PhantomData<&'a Op>);

impl<'a> OpPlace<'a> {
    /// The field, or [`Op::END`].
    #[inline(always)]
    pub(crate) fn op(self) -> &'a Op {
        // SAFETY: a place is one of the table's, which lives as long.
        unsafe { self.0.as_ref() }
    }

    /// The place before this one.
    ///
    /// # Safety
    /// This is a field, or an end behind the last.
    #[inline(always)]
    pub(crate) unsafe fn before(self) -> OpPlace<'a> {
        // SAFETY: at least the end before the first field is there.
        OpPlace(unsafe { self.0.sub(1) }, PhantomData)
    }

    /// The place behind this one.
    ///
    /// # Safety
    /// This is a field, the end before the first or the first end behind the last.
    #[inline(always)]
    pub(crate) unsafe fn behind(self) -> OpPlace<'a> {
        // SAFETY: at least two ends are behind the last field.
        OpPlace(unsafe { self.0.add(1) }, PhantomData)
    }
}

impl<'a> Plan<'a> {
    /// The first field, or the end if there is none.
    #[inline(always)]
    pub(crate) fn first(self) -> OpPlace<'a> {
        self.place(self.tables.ops.start)
    }

    /// The field with an index, or the end behind the last.
    ///
    /// # Panics
    /// If there are fewer fields.
    #[inline]
    pub(crate) fn field(self, index: usize) -> OpPlace<'a> {
        assert!(index <= self.ops().len(), "an index of a field");
        self.place(self.tables.ops.start + index as u32)
    }

    /// The end behind the last field.
    #[inline(always)]
    pub(crate) fn end(self) -> OpPlace<'a> {
        self.place(self.tables.ops.end)
    }

    /// Where the field with a number is that the dense table knows; an end if it does not.
    #[inline(always)]
    pub(crate) fn seek(self, number: u32) -> OpPlace<'a> {
        let dense = self.dense().get(number as usize);
        self.place(self.tables.ops.start - 1 + dense.map_or(0, |place| u32::from(*place)))
    }

    #[inline(always)]
    fn place(self, index: u32) -> OpPlace<'a> {
        debug_assert!((index as usize) < self.plans.ops.len(), "a place is within the table");
        // SAFETY: a plan's fields are a range of this table with an end on either side, and the
        // dense table has no index beyond them.
        let op = unsafe { self.plans.ops.as_ptr().add(index as usize) };
        OpPlace(NonNull::new(op.cast_mut()).expect("a table is nowhere null"), PhantomData)
    }
}
