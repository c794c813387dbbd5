//! Growing arrays in an arena, for lists and maps (M15).
//!
//! Functions here take a span whose elements are `T`s in `arena`, and which only the caller may
//! write; that makes them unsafe. They move elements as bytes and correct pointers in them by the
//! distance, so no element is ever constructed or dropped.

use std::ptr::{self, NonNull};

use crate::arena::Arena;
use crate::part::{Relocate, Span};

/// Elements that a list has room for when it gets its first.
const ROOM_MIN: u32 = 4;

/// The address of element `index <= cap`.
///
/// # Safety
/// See the module's documentation; `cap > 0`.
#[inline(always)]
pub(crate) unsafe fn element<T>(span: &Span, index: u32) -> NonNull<T> {
    debug_assert!(index <= span.cap, "within the array's room");
    // SAFETY: the array has room for `cap` elements.
    unsafe { NonNull::new_unchecked(span.at.target()).cast::<T>().add(index as usize) }
}

/// Makes room for `more` elements behind the last.
///
/// # Panics
/// If the array would have 4 GiB or more: no message can (M18).
///
/// # Safety
/// See the module's documentation.
#[inline(always)]
pub(crate) unsafe fn reserve<T: Relocate>(span: &mut Span, arena: &Arena, more: u32) {
    if more > span.cap - span.len {
        // SAFETY: passed on.
        unsafe { grow::<T>(span, arena, more) }
    }
}

/// Room twice as large, or what is asked for; where the array lies, if it is the last object.
///
/// # Safety
/// As [`reserve`].
#[cold]
#[inline(never)]
unsafe fn grow<T: Relocate>(span: &mut Span, arena: &Arena, more: u32) {
    let len = span.len.checked_add(more).expect("an array is less than 4 GiB");
    // A first reservation knows what it wants; only pushes, of one element, leave room for more.
    let floor = if more == 1 { ROOM_MIN } else { 0 };
    let cap = len.max(span.cap.saturating_mul(2)).max(floor);
    let bytes = array_bytes::<T>(cap);
    if span.cap > 0 {
        // SAFETY: the array has room, so a target.
        let at = unsafe { element::<u8>(span, 0) };
        if arena.extend(at, array_bytes::<T>(span.cap), bytes) {
            span.cap = cap;
            return;
        }
    }
    let to = arena.object(bytes).at().cast::<T>();
    if span.cap > 0 {
        // SAFETY: both arrays have room for `len` elements and are different objects; the old one
        // is given up, so that nothing else points to what was moved.
        unsafe {
            let from = element::<T>(span, 0);
            ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), span.len as usize);
            corrected(from, to, span.len);
        }
        arena.abandon(array_bytes::<T>(span.cap));
    }
    span.at.set(to.cast());
    span.cap = cap;
}

fn array_bytes<T>(elements: u32) -> u32 {
    let bytes = u64::from(elements) * size_of::<T>() as u64;
    crate::arena::field_bytes(bytes as usize)
}

/// Corrects the pointers of `len` elements that were moved.
///
/// # Safety
/// See the module's documentation; the elements at `to` have the bytes of those at `from`.
unsafe fn corrected<T: Relocate>(from: NonNull<T>, to: NonNull<T>, len: u32) {
    let distance = to.addr().get().wrapping_sub(from.addr().get()) as i64;
    for index in 0..len as usize {
        // SAFETY: `len` elements are there.
        unsafe { T::relocate(to.add(index), distance) };
    }
}

/// A new last element, zeroed.
///
/// # Safety
/// See the module's documentation.
#[inline(always)]
pub(crate) unsafe fn push<T: Relocate>(span: &mut Span, arena: &Arena) -> NonNull<T> {
    // SAFETY: passed on. Memory behind the last element is zero, a valid value.
    unsafe {
        reserve::<T>(span, arena, 1);
        let at = element(span, span.len);
        span.len += 1;
        at
    }
}

/// A new element before the one at `index <= len`, zeroed.
///
/// # Safety
/// See the module's documentation.
pub(crate) unsafe fn insert<T: Relocate>(span: &mut Span, arena: &Arena, index: u32) -> NonNull<T> {
    // SAFETY: there is room for one element more, and `len - index` are moved by one; what they
    // leave behind is overwritten with zeros.
    unsafe {
        reserve::<T>(span, arena, 1);
        let at = element::<T>(span, index);
        move_elements(at, at.add(1), span.len - index);
        at.write_bytes(0, 1);
        span.len += 1;
        at
    }
}

/// Moves `len` elements within an array; where they were, their bytes are left to be overwritten.
///
/// # Safety
/// See the module's documentation; both places have room for `len` elements.
pub(crate) unsafe fn move_elements<T: Relocate>(from: NonNull<T>, to: NonNull<T>, len: u32) {
    // SAFETY: passed on.
    unsafe {
        ptr::copy(from.as_ptr(), to.as_ptr(), len as usize);
        corrected(from, to, len);
    }
}

/// Takes out the element at `index < len`.
///
/// # Safety
/// See the module's documentation.
pub(crate) unsafe fn remove<T: Relocate>(span: &mut Span, arena: &Arena, index: u32) {
    // SAFETY: the elements behind it move by one, and the last place is zeroed.
    unsafe {
        let at = element::<T>(span, index);
        T::clear(at, arena);
        move_elements(at.add(1), at, span.len - index - 1);
        span.len -= 1;
        element::<T>(span, span.len).write_bytes(0, 1);
    }
}

/// Takes out all elements from `len` on.
///
/// # Safety
/// See the module's documentation.
pub(crate) unsafe fn truncate<T: Relocate>(span: &mut Span, arena: &Arena, len: u32) {
    while span.len > len {
        span.len -= 1;
        // SAFETY: an element, which the list counts no more.
        unsafe { T::clear(element(span, span.len), arena) };
    }
}
