//! Codes, and the last failure of each thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

use petasos::{Code, Status};

use crate::bytes::petasos_slice;
use crate::metadata::petasos_metadata;

/// The result of a function: 0 for success, gRPC's status codes for failures, and negative numbers
/// for other results.
pub type petasos_code = i32;

/// Success.
pub const PETASOS_OK: petasos_code = 0;
/// The caller cancelled the call.
pub const PETASOS_CANCELLED: petasos_code = 1;
/// An error without a more specific code.
pub const PETASOS_UNKNOWN: petasos_code = 2;
/// An argument or a request is invalid, whatever the server's state.
pub const PETASOS_INVALID_ARGUMENT: petasos_code = 3;
/// The deadline passed, perhaps after the call had its effect.
pub const PETASOS_DEADLINE_EXCEEDED: petasos_code = 4;
/// The requested entity does not exist.
pub const PETASOS_NOT_FOUND: petasos_code = 5;
/// The entity to be created exists already.
pub const PETASOS_ALREADY_EXISTS: petasos_code = 6;
/// The caller has no permission.
pub const PETASOS_PERMISSION_DENIED: petasos_code = 7;
/// A quota, memory or a limit is exhausted.
pub const PETASOS_RESOURCE_EXHAUSTED: petasos_code = 8;
/// The current state does not allow this.
pub const PETASOS_FAILED_PRECONDITION: petasos_code = 9;
/// A conflict with another change.
pub const PETASOS_ABORTED: petasos_code = 10;
/// A value outside of the valid range.
pub const PETASOS_OUT_OF_RANGE: petasos_code = 11;
/// The server has no such method.
pub const PETASOS_UNIMPLEMENTED: petasos_code = 12;
/// An invariant is broken.
pub const PETASOS_INTERNAL: petasos_code = 13;
/// The server is unreachable now. A retry may succeed.
pub const PETASOS_UNAVAILABLE: petasos_code = 14;
/// Data are permanently lost or damaged.
pub const PETASOS_DATA_LOSS: petasos_code = 15;
/// The caller is not authenticated.
pub const PETASOS_UNAUTHENTICATED: petasos_code = 16;
/// Not ready yet: the waker will be called.
pub const PETASOS_PENDING: petasos_code = -1;
/// There are no more items; not an error.
pub const PETASOS_END: petasos_code = -2;
/// The timeout passed. Nothing else has changed, and the program may wait again.
pub const PETASOS_TIMED_OUT: petasos_code = -3;

/// The details of a failure.
pub struct petasos_status {
    status: Status,
    metadata: petasos_metadata,
}

thread_local! {
    static LAST: RefCell<Option<Box<petasos_status>>> = const { RefCell::new(None) };
}

/// Stores a failure of this thread, and returns its code.
pub(crate) fn fail(status: Status) -> petasos_code {
    // A failure with the code OK would look like a success.
    let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
    let metadata = petasos_metadata::from(status.metadata().clone());
    let last = Box::new(petasos_status { status, metadata });
    // While a thread ends, its storage may be gone; then nobody can ask any more.
    let earlier = LAST.try_with(|place| place.replace(Some(last)));
    drop(earlier);
    petasos_code::from(code.number())
}

/// The code of a result. Stores the failure if it is one.
pub(crate) fn code(result: Result<petasos_code, Status>) -> petasos_code {
    result.unwrap_or_else(fail)
}

/// Runs a function that C has called: a panic becomes a failure, and does not end the process.
pub(crate) fn guarded(run: impl FnOnce() -> Result<petasos_code, Status>) -> petasos_code {
    catch_unwind(AssertUnwindSafe(|| code(run())))
        .unwrap_or_else(|_| fail(Status::internal("petasos has panicked: this is a bug of it")))
}

/// Like [`guarded`], for functions that return a value: `otherwise` after a panic.
pub(crate) fn guarded_or<T>(otherwise: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// Like [`guarded`], for functions that return nothing.
pub(crate) fn contained(run: impl FnOnce()) {
    guarded_or((), run);
}

/// The last failure on this thread, which is that of the last function that returned a code above
/// 0; null if there was none. Valid until the next failure on this thread.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn petasos_last_error() -> *const petasos_status {
    let last = LAST.try_with(|place| match &*place.borrow() {
        Some(status) => &raw const **status,
        None => null(),
    });
    last.unwrap_or(null())
}

/// The message for people; UTF-8 without a zero at its end. Empty if the status is null.
///
/// # Safety
/// The status is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_status_message(status: *const petasos_status) -> petasos_slice {
    // SAFETY: the caller's promise.
    let status = unsafe { status.as_ref() };
    petasos_slice::of(status.map_or(&[], |known| known.status.message().as_bytes()))
}

/// The details for programs: a serialized `google.rpc.Status`, or empty.
///
/// # Safety
/// The status is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_status_details(status: *const petasos_status) -> petasos_slice {
    // SAFETY: the caller's promise.
    let status = unsafe { status.as_ref() };
    petasos_slice::of(status.map_or(&[], |known| known.status.details()))
}

/// The trailing metadata, which belong to the status; null if the status is null.
///
/// # Safety
/// The status is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_status_metadata(
    status: *const petasos_status,
) -> *const petasos_metadata {
    // SAFETY: the caller's promise.
    let status = unsafe { status.as_ref() };
    status.map_or(null(), |known| &raw const known.metadata)
}
