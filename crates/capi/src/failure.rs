//! Codes, and what is known of the last failure on a thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

use petasos::{Code, Status};

use crate::bytes::petasos_slice;
use crate::metadata::petasos_metadata;

/// What a function came to: 0 if it worked, gRPC's codes if something failed, and less than 0 for
/// what is neither.
pub type petasos_code = i32;

/// It worked.
pub const PETASOS_OK: petasos_code = 0;
/// The caller gave the call up.
pub const PETASOS_CANCELLED: petasos_code = 1;
/// Something that no other code tells.
pub const PETASOS_UNKNOWN: petasos_code = 2;
/// An argument or a request is wrong, whatever the state of things.
pub const PETASOS_INVALID_ARGUMENT: petasos_code = 3;
/// The call's time ran out, perhaps after it had its effect.
pub const PETASOS_DEADLINE_EXCEEDED: petasos_code = 4;
/// What was asked for does not exist.
pub const PETASOS_NOT_FOUND: petasos_code = 5;
/// What was to be made exists already.
pub const PETASOS_ALREADY_EXISTS: petasos_code = 6;
/// The caller may not do this.
pub const PETASOS_PERMISSION_DENIED: petasos_code = 7;
/// A quota, memory or a limit is used up.
pub const PETASOS_RESOURCE_EXHAUSTED: petasos_code = 8;
/// The state of things does not allow it.
pub const PETASOS_FAILED_PRECONDITION: petasos_code = 9;
/// It clashed with another change.
pub const PETASOS_ABORTED: petasos_code = 10;
/// Beyond the valid range.
pub const PETASOS_OUT_OF_RANGE: petasos_code = 11;
/// The server has no such method.
pub const PETASOS_UNIMPLEMENTED: petasos_code = 12;
/// An invariant is broken.
pub const PETASOS_INTERNAL: petasos_code = 13;
/// The server cannot be reached now; a retry may work.
pub const PETASOS_UNAVAILABLE: petasos_code = 14;
/// Data are lost or damaged for good.
pub const PETASOS_DATA_LOSS: petasos_code = 15;
/// The caller is not known.
pub const PETASOS_UNAUTHENTICATED: petasos_code = 16;
/// Not yet: the waker will be called.
pub const PETASOS_PENDING: petasos_code = -1;
/// Nothing follows, and all is well.
pub const PETASOS_END: petasos_code = -2;
/// The time to wait is over; nothing else has changed, and one may wait again.
pub const PETASOS_TIMED_OUT: petasos_code = -3;

/// What is known of a failure.
pub struct petasos_status {
    status: Status,
    metadata: petasos_metadata,
}

thread_local! {
    static LAST: RefCell<Option<Box<petasos_status>>> = const { RefCell::new(None) };
}

/// Notes a failure of this thread, and gives its code.
pub(crate) fn fail(status: Status) -> petasos_code {
    // A failure that says OK would look like none.
    let code = if status.code() == Code::Ok { Code::Unknown } else { status.code() };
    let metadata = petasos_metadata::from(status.metadata().clone());
    let last = Box::new(petasos_status { status, metadata });
    // A thread that ends may have lost the place; then nobody can ask.
    let earlier = LAST.try_with(|place| place.replace(Some(last)));
    drop(earlier);
    petasos_code::from(code.number())
}

/// The code of a result, with the failure noted.
pub(crate) fn code(result: Result<petasos_code, Status>) -> petasos_code {
    result.unwrap_or_else(fail)
}

/// Runs what C has asked for: a panic in it is a failure, not the end of the process.
pub(crate) fn guarded(run: impl FnOnce() -> Result<petasos_code, Status>) -> petasos_code {
    catch_unwind(AssertUnwindSafe(|| code(run())))
        .unwrap_or_else(|_| fail(Status::internal("petasos has panicked: this is a bug of it")))
}

/// [`guarded`], of what gives a value: `otherwise` after a panic.
pub(crate) fn guarded_or<T>(otherwise: T, run: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(otherwise)
}

/// [`guarded`], of what gives nothing.
pub(crate) fn contained(run: impl FnOnce()) {
    guarded_or((), run);
}

/// What is known of the last failure on this thread, that is, of the last function that returned a
/// code above 0; null if there was none. Valid until the next failure on this thread.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub extern "C" fn petasos_last_error() -> *const petasos_status {
    let last = LAST.try_with(|place| match &*place.borrow() {
        Some(status) => &raw const **status,
        None => null(),
    });
    last.unwrap_or(null())
}

/// A text for people; UTF-8 without a zero at its end. Empty if the status is null.
///
/// # Safety
/// The status is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_status_message(status: *const petasos_status) -> petasos_slice {
    // SAFETY: the caller's promise.
    let status = unsafe { status.as_ref() };
    petasos_slice::of(status.map_or(&[], |known| known.status.message().as_bytes()))
}

/// Details for programs: a serialized `google.rpc.Status`, or nothing.
///
/// # Safety
/// The status is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_status_details(status: *const petasos_status) -> petasos_slice {
    // SAFETY: the caller's promise.
    let status = unsafe { status.as_ref() };
    petasos_slice::of(status.map_or(&[], |known| known.status.details()))
}

/// The trailing metadata that came with it, which belong to the status; null if that is null.
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
