//! How whoever waits for a call, a queue or a server learns that it should look again.
//!
//! Each thing to wait for has a [`Notifier`]: one Rust waker, and a list of those who wait. Whoever
//! is about to wait enters the list and then polls; the waker notifies all of the list and empties
//! it. A needless notification is allowed, so no notification is lost.
//!
//! Invariant: callbacks run under the list's lock. So once [`Notifier::clear`] has returned, none
//! runs or will.

use core::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// Called once when whoever waits is to look again, on any thread, also on the one that is looking.
/// It must return soon, and call no function of this library but petasos_queue_push.
pub type petasos_wake = Option<unsafe extern "C" fn(context: *mut c_void, tag: u64)>;

/// Whom to tell that it is time to look again.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_waker {
    /// What is called.
    pub wake: petasos_wake,
    /// Passed to it. Must be valid until it was called, or until the handle that was waited for is
    /// freed.
    pub context: *mut c_void,
    /// Passed to it.
    pub tag: u64,
}

// SAFETY: whoever makes one says that it may be called on any thread.
unsafe impl Send for petasos_waker {}

/// A thread that waits.
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

    /// Waits until woken, or for so long; returns early at times.
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

/// Who waits.
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

/// For what somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A message, an end, a call to handle.
    Receiving,
    /// Room for the next message.
    Sending,
    /// The end of a call that is being handled.
    Cancelling,
}

/// Those who wait for one handle.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    waiters: Mutex<Vec<(For, Waiter)>>,
}

impl Notifier {
    fn waiters(&self) -> MutexGuard<'_, Vec<(For, Waiter)>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter. A program is there once for each thing to wait for; threads have as many as
    /// there are.
    pub(crate) fn add(&self, what: For, waiter: Waiter) {
        let mut waiters = self.waiters();
        if matches!(waiter, Waiter::Program(_)) {
            waiters.retain(|(taken, by)| *taken != what || matches!(by, Waiter::Thread(_)));
        }
        waiters.push((what, waiter));
    }

    /// Removes the waiters of a thread, or a program's for one thing.
    pub(crate) fn leave(&self, what: For, sleeper: Option<&Arc<Sleeper>>) {
        self.waiters().retain(|(taken, by)| match (by, sleeper) {
            (Waiter::Thread(there), Some(here)) => !Arc::ptr_eq(there, here),
            (Waiter::Program(_), None) => *taken != what,
            _ => true,
        });
    }

    /// Notifies all waiters, and forgets them.
    pub(crate) fn notify(&self) {
        let mut waiters = self.waiters();
        for (_, waiter) in waiters.drain(..) {
            waiter.notify();
        }
    }

    /// Forgets all waiters. No callback runs afterwards.
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
