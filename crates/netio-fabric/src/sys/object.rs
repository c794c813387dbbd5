//! libfabric's objects, which are closed when their owner is dropped, and its error numbers.

use core::ffi::CStr;
use core::ptr::{NonNull, null_mut};
use std::io;

use super::ffi;

/// An object that begins with a `struct fid`, as all objects that can be opened do.
pub(super) struct Object<T> {
    pointer: NonNull<T>,
}

impl<T> Object<T> {
    /// Takes the object that `open` writes to the given place, or returns its error.
    ///
    /// # Safety
    /// `T` begins with a `struct fid`. If `open` returns 0, it has opened an object, which is the
    /// caller's alone to close.
    pub(super) unsafe fn open(open: impl FnOnce(*mut *mut T) -> i32) -> io::Result<Object<T>> {
        let mut pointer = null_mut();
        check(open(&mut pointer).into())?;
        let pointer = NonNull::new(pointer).ok_or_else(|| error_of(-i64::from(ffi::FI_EOTHER)))?;
        Ok(Object { pointer })
    }

    #[inline]
    pub(super) fn pointer(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        // SAFETY: `open`'s caller promised a `struct fid` at the start that nobody else closes. An
        // error leaves the object to the end of the process; nothing can be done about it.
        unsafe { ffi::pf_close(self.pointer.as_ptr().cast()) };
    }
}

/// The error that a negative `code` stands for, otherwise the code.
pub(super) fn check(code: i64) -> io::Result<i64> {
    if code < 0 { Err(error_of(code)) } else { Ok(code) }
}

/// The error of a negative code.
pub(super) fn error_of(code: i64) -> io::Error {
    let number = i32::try_from(-code).unwrap_or(ffi::FI_EOTHER as i32);
    // Smaller numbers are the system's own.
    if number < ffi::FI_EOTHER as i32 {
        return io::Error::from_raw_os_error(number);
    }
    // SAFETY: it returns a static text for any number.
    let text = unsafe { CStr::from_ptr(ffi::fi_strerror(number)) };
    io::Error::other(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_system_and_of_libfabric_become_errors() {
        assert_eq!(check(3).expect("it is no error"), 3);
        let busy = check(-i64::from(ffi::FI_EADDRINUSE)).expect_err("it is one");
        assert_eq!(busy.kind(), io::ErrorKind::AddrInUse);
        let text = error_of(-i64::from(ffi::FI_EAVAIL)).to_string();
        assert!(!text.is_empty() && !text.contains("os error"), "{text}");
    }
}
