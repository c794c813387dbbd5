//! Conversion of pointers from C to references: the only place that trusts them.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use petasos::Status;

/// The referent of a pointer.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null.
///
/// # Safety
/// It is null, or its referent is valid and not written to during `'a`.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Status> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// The place for a result.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is null.
///
/// # Safety
/// It is null, or valid for writes during `'a`, and its referent is a value of the type.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T) -> Result<&'a mut T, Status> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null("the place for the result"))
}

/// A struct of options, which begins with its own length. New versions add fields at its end. If a
/// program was built for an earlier version, the fields that it does not know are zero.
pub(crate) trait Options: Copy {
    /// The lengths in earlier versions.
    const EARLIER_BYTES: &'static [usize];
}

/// A copy of the options of a program, converted to this version.
///
/// # Errors
/// `INVALID_ARGUMENT` if no version has this length.
///
/// # Safety
/// They are null, or as long as their first field says, and not written to meanwhile. Zeros are a
/// valid `T`, whose first field is a `usize`.
pub(crate) unsafe fn options<T: Options>(pointer: *const T) -> Result<Option<T>, Status> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise: the first field is there whatever the version.
    let bytes = unsafe { pointer.cast::<usize>().read() };
    // Later versions are longer than this one.
    if bytes < size_of::<T>() && !T::EARLIER_BYTES.contains(&bytes) {
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

/// A slice; empty if the length is 0, whatever the pointer is.
///
/// # Errors
/// `INVALID_ARGUMENT` if the length is not 0 and the pointer is null.
///
/// # Safety
/// It is null, or `length` bytes are there, and not written to during `'a`.
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
/// It is null, or a zero follows, and nothing before it is written to during `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Status> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Status::invalid_argument(format!("{what} is not UTF-8")))
}

/// Like [`text`], but `None` if the pointer is null.
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

/// Several texts that end with zeros.
///
/// # Errors
/// As [`text`].
///
/// # Safety
/// `count` is 0, or `count` pointers are there that meet the requirements of [`text`].
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

/// Frees a handle from [`give`]; does nothing if it is null.
///
/// # Safety
/// It is null, or came from [`give`], was not freed, and is not in use.
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
