//! From pointers to references: the one place where what C gives is believed.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use petasos::Status;

/// What a pointer leads to.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null.
///
/// # Safety
/// It is null, or what it leads to is valid and not written to for as long as `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Status> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Where a result is to be put.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null.
///
/// # Safety
/// It is null, or may be written to for as long as `'a`, and what lies there is of the type.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T) -> Result<&'a mut T, Status> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null("the place for the result"))
}

/// A struct of options, which begins with its own length. It grows at its end: of a program that
/// was built for an earlier version the fields that it does not know are zero.
pub(crate) trait Options: Copy {
    /// The length that it had at first.
    const FIRST_BYTES: usize;
}

/// Options that a program may have given; a copy, as this version knows them.
///
/// # Errors
/// `INVALID_ARGUMENT` if their length is none that they ever had.
///
/// # Safety
/// They are null, or as many bytes of them are there as they say, and not written to meanwhile.
/// Zeros are a valid `T`, whose first field is a `usize`.
pub(crate) unsafe fn options<T: Options>(pointer: *const T) -> Result<Option<T>, Status> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise: the first field is there whatever the version.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    // Later versions are longer than this one; of those before there was one.
    if bytes != T::FIRST_BYTES && bytes < size_of::<T>() {
        return Err(Status::invalid_argument("struct_bytes is no struct's length"));
    }
    let mut options = MaybeUninit::<T>::zeroed();
    let known = bytes.min(size_of::<T>());
    // SAFETY: the caller's promise: so many bytes are there, and the rest may be zeros.
    unsafe {
        options.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(pointer.cast(), known);
        Ok(Some(options.assume_init()))
    }
}

/// Some bytes; none if there are none, whatever the pointer.
///
/// # Errors
/// `INVALID_ARGUMENT` if there should be some and the pointer is null.
///
/// # Safety
/// Unless it is null, `length` bytes are there, and not written to for as long as `'a`.
pub(crate) unsafe fn slice<'a>(data: *const u8, length: usize) -> Result<&'a [u8], Status> {
    match (length, data.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null("data")),
        // SAFETY: the caller's promise; the length of what is in memory fits.
        (_, false) => Ok(unsafe { core::slice::from_raw_parts(data, length) }),
    }
}

/// A text that ends with a zero.
///
/// # Errors
/// `INVALID_ARGUMENT` if the pointer is null or the text is not UTF-8.
///
/// # Safety
/// It is null, or a zero follows, and nothing before it is written to for as long as `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Status> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Status::invalid_argument(format!("{what} is not UTF-8")))
}

/// [`text`], or nothing if the pointer is null.
///
/// # Errors
/// As [`text`].
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn some_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Status> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(pointer, what) }.map(Some)
}

/// Texts that end with zeros each.
///
/// # Errors
/// As [`text`].
///
/// # Safety
/// Unless `count` is 0, so many pointers are there, each as [`text`] wants it.
pub(crate) unsafe fn texts<'a>(
    pointers: *const *const c_char,
    count: usize,
    what: &str,
) -> Result<Vec<&'a str>, Status> {
    if count > 0 && pointers.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise, for the pointers and for what they lead to.
    (0..count).map(|at| unsafe { text(*pointers.add(at), what) }).collect()
}

/// Frees a handle that [`give`] gave; nothing if it is null.
///
/// # Safety
/// It is null, or came from [`give`], was not freed, and nobody uses it.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        crate::failure::contained(|| drop(unsafe { Box::from_raw(handle) }));
    }
}

/// A handle, for the program to free.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

pub(crate) fn null(what: &str) -> Status {
    Status::invalid_argument(format!("{what} must not be null"))
}
