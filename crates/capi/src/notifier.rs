//! Notifications for programs and threads that wait for a call, a queue or a server.
//!
//! Each object to wait for has a [`Notifier`]: one Rust waker, and a list of waiters. A waiter
//! first adds itself to the list and then polls; the waker notifies the whole list and empties it.
//! Needless notifications are allowed, so none is lost.
//!
//! Invariant: callbacks run under the list's lock. Therefore no callback runs once
//! [`Notifier::clear`] has returned.

use core::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// Called once when the waiter should poll again. It may be called on any thread, including the one
/// that polls. It must return soon, and must not call any function of this library except
/// petasos_queue_push.
pub type petasos_wake = Option<unsafe extern "C" fn(context: *mut c_void, tag: u64)>;

/// The callback for a waiter.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_waker {
    /// The function to call.
    pub wake: petasos_wake,
    /// Passed to the function. Must be valid until the function was called, or the handle that the
    /// program waits for is freed.
    pub context: *mut c_void,
    /// Passed to the function.
    pub tag: u64,
}

// SAFETY: whoever makes one says that it may be called on any thread.
unsafe impl Send for petasos_waker {}

/// A waiting thread.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    woken: Mutex<bool>,
    more: Condvar,
}

impl Sleeper {
    fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.more.notify_one();
    }

    /// Waits until woken, or for the given time. It may return early.
    pub(crate) fn sleep(&self, time: Option<Duration>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !*woken {
            woken = match time {
                None => self.more.wait(woken).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let waited = self.more.wait_timeout(woken, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *woken = false;
    }
}

/// A waiter.
#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Arc<Sleeper>),
    Program(petasos_waker),
}

impl Waiter {
    fn notify(self) {
        match self {
            Waiter::Thread(sleeper) => sleeper.wake(),
            Waiter::Program(waker) => {
                if let Some(wake) = waker.wake {
                    // SAFETY: the program said that it may be called so until now, and silencing
                    // the notifier waits for the lock that is held.
                    unsafe { wake(waker.context, waker.tag) }
                }
            }
        }
    }
}

/// What a waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A message, the end, or a call to handle.
    Receiving,
    /// Room for the next message.
    Sending,
    /// The end of a call that is being handled.
    Cancelling,
}

/// The waiters of one handle.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    waiters: Mutex<Vec<(For, Waiter)>>,
}

impl Notifier {
    fn waiters(&self) -> MutexGuard<'_, Vec<(For, Waiter)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter. A program has at most one entry per kind of waiting; threads have one each.
    pub(crate) fn add(&self, what: For, waiter: Waiter) {
        let mut waiters = self.waiters();
        if matches!(waiter, Waiter::Program(_)) {
            waiters.retain(|(taken, by)| *taken != what || matches!(by, Waiter::Thread(_)));
        }
        waiters.push((what, waiter));
    }

    /// Removes a thread, or the program's entry for one kind of waiting.
    pub(crate) fn leave(&self, what: For, sleeper: Option<&Arc<Sleeper>>) {
        self.waiters().retain(|(taken, by)| match (by, sleeper) {
            (Waiter::Thread(there), Some(here)) => !Arc::ptr_eq(there, here),
            (Waiter::Program(_), None) => *taken != what,
            _ => true,
        });
    }

    /// Notifies and removes all waiters.
    pub(crate) fn notify(&self) {
        let mut waiters = self.waiters();
        for (_, waiter) in waiters.drain(..) {
            waiter.notify();
        }
    }

    /// Removes all waiters. No callback runs afterwards.
    pub(crate) fn clear(&self) {
        self.waiters().clear();
    }
}

impl Wake for Notifier {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}
