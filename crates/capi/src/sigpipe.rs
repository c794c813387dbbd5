//! Blocks SIGPIPE in the library's threads.
//!
//! The kernel raises SIGPIPE when a thread writes to a connection that its peer has closed. By
//! default this ends the process. Rust programs ignore it from the start; C programs may not. A new
//! thread inherits the blocked signals of the thread that creates it, and all threads of the
//! library are created, directly or indirectly, while a channel is opened or a server is started.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `make`; threads that it creates never receive SIGPIPE. Afterwards, the signal mask of the
/// calling thread is as before.
pub(crate) fn without<R>(make: impl FnOnce() -> R) -> R {
    let _restored = Blocked::new();
    make()
}

/// The thread's previous signal mask, which is restored on drop.
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
