//! The types of values in lists, maps and oneofs.

use std::cmp::Ordering;
use std::ptr::NonNull;

use super::{Blob, OneOf, Pointer, Shape, Slot, Text, ValueShape};
use crate::arena::Arena;
use crate::part::Message;
use crate::payload::Payload;

/// What can be moved within an arena: elements, and the entries of maps.
///
/// # Safety
/// Zeros are a valid value, and `relocate` corrects all pointers in it.
#[doc(hidden)]
pub unsafe trait Relocate: Sized {
    /// Empties a value, and leaves zeros.
    ///
    /// # Safety
    /// `at` is a value in `arena` that the caller alone may write.
    unsafe fn clear(at: NonNull<Self>, arena: &Arena);

    /// Corrects the pointers of a value that was moved by `distance` bytes (M15).
    ///
    /// # Safety
    /// As for `clear`, where the value lies now.
    unsafe fn relocate(at: NonNull<Self>, distance: i64);
}

/// What a list can have as an element and a map as a value: scalars, strings, bytes, messages.
///
/// # Safety
/// The shape is the truth about the type's memory.
pub unsafe trait Element: Relocate + Send + Sync + 'static {
    /// What a value is set from.
    type Value<'v>;
    #[doc(hidden)]
    const VALUE: ValueShape;

    /// Sets an element to `value`.
    ///
    /// # Safety
    /// `at` is an element in `arena` that the caller alone may write.
    #[doc(hidden)]
    unsafe fn put(at: NonNull<Self>, value: Self::Value<'_>, arena: &Arena);
}

/// Elements that are pushed by value (scalars) or by reference (messages).
pub trait Plain: Element {}

/// A number, a bool or an enum.
///
/// # Safety
/// The type has the size and alignment that `VALUE` says (1, 4 or 8 bytes), no padding and no
/// pointers, and all that M26 accepts are valid values: any bytes, or 0 and 1 if it is 1 byte.
pub unsafe trait Scalar: Element + Copy {}

/// What a map can have as a key: integers, bools, strings.
pub trait Key: Element {
    /// The key as it is passed and compared.
    type Ref<'a>: Copy + Ord;
    #[doc(hidden)]
    fn as_key(&self) -> Self::Ref<'_>;
    #[doc(hidden)]
    fn compare(&self, key: Self::Ref<'_>) -> Ordering;
    #[doc(hidden)]
    fn value<'a>(key: Self::Ref<'a>) -> Self::Value<'a>;
}

/// Implements [`Element`] for scalar types.
#[doc(hidden)]
#[macro_export]
macro_rules! scalar {
    ($type:ty, $shape:ident) => {
        // SAFETY: without pointers, and zeros are a valid value.
        unsafe impl $crate::Relocate for $type {
            // SAFETY: the trait's contract.
            #[inline(always)]
            unsafe fn clear(at: ::core::ptr::NonNull<$type>, _: &$crate::Arena) {
                // SAFETY: the value is the caller's to write, and zeros are one of its kind.
                unsafe { at.write_bytes(0, 1) }
            }
            // SAFETY: the trait's contract.
            #[inline(always)]
            unsafe fn relocate(_: ::core::ptr::NonNull<$type>, _: i64) {}
        }
        // SAFETY: the assertion compares the size with the shape.
        unsafe impl $crate::Element for $type {
            type Value<'v> = $type;
            const VALUE: $crate::ValueShape = {
                let bytes = match $crate::ValueShape::$shape {
                    $crate::ValueShape::Word1 => 1,
                    $crate::ValueShape::Word4 => 4,
                    _ => 8,
                };
                assert!(size_of::<$type>() == bytes && align_of::<$type>() == bytes);
                $crate::ValueShape::$shape
            };

            // SAFETY: the trait's contract.
            #[inline(always)]
            unsafe fn put(at: ::core::ptr::NonNull<$type>, value: $type, _: &$crate::Arena) {
                // SAFETY: the element is the caller's to write.
                unsafe { at.write(value) }
            }
        }
        // SAFETY: the size is asserted above; numbers and enums take all values, a bool 0 and 1.
        unsafe impl $crate::Scalar for $type {}
        impl $crate::Plain for $type {}
    };
}

scalar!(bool, Word1);
scalar!(i32, Word4);
scalar!(u32, Word4);
scalar!(f32, Word4);
scalar!(i64, Word8);
scalar!(u64, Word8);
scalar!(f64, Word8);

macro_rules! scalar_key {
    ($($type:ty)*) => {$(
        impl Key for $type {
            type Ref<'a> = $type;
            #[inline(always)]
            fn as_key(&self) -> Self::Ref<'_> {
                *self
            }
            #[inline(always)]
            fn compare(&self, key: Self::Ref<'_>) -> Ordering {
                self.cmp(&key)
            }
            #[inline(always)]
            fn value<'a>(key: Self::Ref<'a>) -> Self::Value<'a> {
                key
            }
        }
    )*};
}

scalar_key!(bool i32 u32 i64 u64);

impl Key for Text {
    type Ref<'a> = &'a str;
    #[inline(always)]
    fn as_key(&self) -> &str {
        self
    }
    #[inline(always)]
    fn compare(&self, key: &str) -> Ordering {
        self.as_bytes().cmp(key.as_bytes())
    }
    #[inline(always)]
    fn value<'a>(key: Self::Ref<'a>) -> Self::Value<'a> {
        key
    }
}

// SAFETY: as `part::shape` says of the type.
unsafe impl Element for Text {
    type Value<'v> = &'v str;
    const VALUE: ValueShape = ValueShape::Text;

    #[inline(always)]
    unsafe fn put(mut at: NonNull<Text>, value: &str, arena: &Arena) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.set(arena, value);
    }
}

// SAFETY: 16 bytes with one pointer at their begin; zeros are empty.
unsafe impl Relocate for Text {
    unsafe fn clear(mut at: NonNull<Text>, arena: &Arena) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.span().drop_bytes(arena);
    }

    #[inline(always)]
    unsafe fn relocate(mut at: NonNull<Text>, distance: i64) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.span().at.relocate(distance);
    }
}

// SAFETY: as `part::shape` says of the type.
unsafe impl Element for Blob {
    type Value<'v> = Payload<'v>;
    const VALUE: ValueShape = ValueShape::Blob;

    #[inline(always)]
    unsafe fn put(mut at: NonNull<Blob>, value: Payload<'_>, arena: &Arena) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.set(arena, value);
    }
}

// SAFETY: 16 bytes with one pointer at their begin; zeros are empty.
unsafe impl Relocate for Blob {
    unsafe fn clear(mut at: NonNull<Blob>, arena: &Arena) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.span().drop_bytes(arena);
    }

    #[inline(always)]
    unsafe fn relocate(mut at: NonNull<Blob>, distance: i64) {
        // SAFETY: the element is the caller's to write.
        unsafe { at.as_mut() }.span().at.relocate(distance);
    }
}

// SAFETY: what lies in a list or an entry is the struct itself (M7).
unsafe impl<T: Message> Element for T {
    type Value<'v> = &'v T;
    const VALUE: ValueShape = ValueShape::of_message::<T>();

    unsafe fn put(at: NonNull<T>, value: &T, arena: &Arena) {
        // SAFETY: the element is the caller's to write, and a message of this type.
        unsafe { super::copy::assign(at, value, arena) }
    }
}

// SAFETY: the struct is what its type says (M9), so `relocate_message` finds all its pointers; of
// each part zeros are a valid value.
unsafe impl<T: Message> Relocate for T {
    unsafe fn clear(at: NonNull<T>, arena: &Arena) {
        arena.abandon(size_of::<T>() as u32);
        // SAFETY: the struct is the caller's to write.
        unsafe { at.write_bytes(0, 1) }
    }

    unsafe fn relocate(at: NonNull<T>, distance: i64) {
        // SAFETY: the element is a struct with these slots, and the caller's to write.
        unsafe { relocate_message(at.cast(), T::TYPE.fields, distance) }
    }
}

impl<T: Message> Plain for T {}

/// Corrects the pointers of a struct that was moved by `distance` bytes.
///
/// # Safety
/// `at` is a struct that `slots` describe, in an arena, which the caller alone may write.
pub(crate) unsafe fn relocate_message(at: NonNull<u8>, slots: &[Slot], distance: i64) {
    // SAFETY: `Unknown`, a pointer, is at the begin of each struct.
    unsafe { relocate_pointer(at, distance) };
    for slot in slots {
        // SAFETY: the slot lies in the struct, and is what its shape says.
        unsafe {
            let part = at.add(slot.offset as usize);
            match slot.shape {
                Shape::Value(value) if !value.is_part() => {}
                Shape::OneOf(members) => {
                    part.cast::<OneOf>().as_mut().relocate(members, distance);
                }
                _ => relocate_pointer(part, distance),
            }
        }
    }
}

/// # Safety
/// `at` is a part that begins with a pointer, and that the caller alone may write.
unsafe fn relocate_pointer(at: NonNull<u8>, distance: i64) {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<Pointer>().as_mut() }.relocate(distance);
}
