//! SIGPIPE stays away from the library's threads.
//!
//! The kernel raises it when a thread writes to a connection that its peer has closed, and by
//! default it ends the process. Programs in Rust ignore it from the start; programs in C may not.
//! A thread begins with the signals blocked that its maker has blocked, and all of the library's
//! threads are made, directly or not, while a channel is opened or a server is started.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `make`, whose threads never take SIGPIPE. The calling thread takes it again afterwards, if
/// it did before.
pub(crate) fn without<R>(make: impl FnOnce() -> R) -> R {
    let _restored = Blocked::new();
    make()
}

/// The signals that the thread had blocked before; they are again when this is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn new() -> Blocked {
        let mut added = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the first two calls make a set of what is not one, the third writes the other;
        // they fail for wrong numbers only.
        unsafe {
            libc::sigemptyset(added.as_mut_ptr());
            libc::sigaddset(added.as_mut_ptr(), libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, added.as_ptr(), before.as_mut_ptr());
            Blocked(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}
