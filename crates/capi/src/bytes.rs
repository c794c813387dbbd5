//! Bytes in the C interface.

use std::ptr::{null_mut, slice_from_raw_parts_mut};

/// Borrowed bytes. They are valid as long as the function that returns them documents.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_slice {
    /// The first byte; must not be read if there are none.
    pub data: *const u8,
    /// The number of bytes.
    pub length: usize,
}

impl petasos_slice {
    pub(crate) fn of(bytes: &[u8]) -> petasos_slice {
        petasos_slice { data: bytes.as_ptr(), length: bytes.len() }
    }
}

/// Bytes that the program owns and frees with petasos_bytes_free.
#[repr(C)]
#[derive(Debug)]
pub struct petasos_bytes {
    /// The first byte; null if there are none.
    pub data: *mut u8,
    /// The number of bytes.
    pub length: usize,
}

impl petasos_bytes {
    pub(crate) fn new(bytes: Vec<u8>) -> petasos_bytes {
        if bytes.is_empty() {
            return petasos_bytes { data: null_mut(), length: 0 };
        }
        let length = bytes.len();
        petasos_bytes { data: Box::into_raw(bytes.into_boxed_slice()).cast(), length }
    }
}

/// Frees bytes, and leaves an empty value. Does nothing if the pointer is null or there are no
/// bytes.
///
/// # Safety
/// The pointer is null, or the bytes came from this library and are not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_bytes_free(bytes: *mut petasos_bytes) {
    // SAFETY: the caller's promise.
    let Some(bytes) = (unsafe { bytes.as_mut() }) else { return };
    let petasos_bytes { data, length } = core::mem::replace(bytes, petasos_bytes::new(Vec::new()));
    if !data.is_null() {
        // SAFETY: `petasos_bytes::new` made it of a boxed slice of this length.
        drop(unsafe { Box::from_raw(slice_from_raw_parts_mut(data, length)) });
    }
}
