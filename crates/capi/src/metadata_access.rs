//! Functions for making, filling and reading metadata.

use std::ffi::c_char;

use petasos::{Metadata, Status};

use crate::bytes::petasos_slice;
use crate::failure::{PETASOS_OK, guarded, guarded_or, petasos_code};
use crate::metadata::petasos_metadata;
use crate::pointer;

/// Makes metadata without entries; free them with petasos_metadata_free.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn petasos_metadata_new() -> *mut petasos_metadata {
    pointer::give(petasos_metadata::from(Metadata::new()))
}

/// Adds an entry. Keys are `[0-9a-z_.-]+`, and do not begin with `grpc-`. If a key ends in `-bin`,
/// the value may be any bytes; otherwise it must be printable ASCII. PETASOS_INVALID_ARGUMENT if
/// this is violated; then nothing is added.
///
/// # Safety
/// The metadata are valid and not in use elsewhere; `key` ends with a zero; `length` bytes are at
/// `value`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_metadata_append(
    metadata: *mut petasos_metadata,
    key: *const c_char,
    value: *const u8,
    length: usize,
) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promises.
        let (metadata, key, value) = unsafe {
            (
                pointer::out(metadata)?,
                pointer::text(key, "the key")?,
                pointer::slice(value, length)?,
            )
        };
        let added = metadata.get_mut().append_bytes(key.as_bytes(), value);
        added.map_err(|error| Status::invalid_argument(error.to_string()))?;
        Ok(PETASOS_OK)
    })
}

/// The number of entries.
///
/// # Safety
/// The metadata are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_metadata_count(metadata: *const petasos_metadata) -> usize {
    // SAFETY: the caller's promise.
    unsafe { metadata.as_ref() }.map_or(0, |known| known.get().len())
}

/// Returns the entry at an index, from 0: its key and its value, without zeros at their ends. They
/// are valid until the metadata are changed or freed. The result is false if there is no such
/// entry.
///
/// # Safety
/// The metadata are null or valid; `key` and `value` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_metadata_get(
    metadata: *const petasos_metadata,
    index: usize,
    key: *mut petasos_slice,
    value: *mut petasos_slice,
) -> bool {
    guarded_or(false, || {
        // SAFETY: the caller's promise.
        let known = unsafe { metadata.as_ref() };
        let Some(entry) = known.and_then(|known| known.get().iter().nth(index)) else {
            return false;
        };
        // SAFETY: the caller's promise.
        let (Ok(to_key), Ok(to_value)) = (unsafe { (pointer::out(key), pointer::out(value)) })
        else {
            return false;
        };
        *to_key = petasos_slice::of(entry.0.as_bytes());
        *to_value = petasos_slice::of(entry.1);
        true
    })
}

/// Frees metadata from petasos_metadata_new or a call; does nothing if they are null.
///
/// # Safety
/// They are null, or belong to the program and are not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_metadata_free(metadata: *mut petasos_metadata) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(metadata) }
}
