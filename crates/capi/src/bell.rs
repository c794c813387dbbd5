//! Bells: how whoever waits is told to look again.
//!
//! Each thing to wait for has one Rust waker and a few *seats*, one for each way to wait. Whoever
//! is about to wait takes a seat and then polls; whatever wakes rings at all seats that are taken,
//! and leaves them empty. Looking in vain is allowed, so nothing is lost and nothing need be sorted
//! out.
//!
//! Invariant: a seat's callback runs under the seats' lock. So once [`Bell::silence`] has returned,
//! none runs or will.

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
pub(crate) enum Seat {
    Thread(Arc<Sleeper>),
    Program(petasos_waker),
}

impl Seat {
    fn ring(self) {
        match self {
            Seat::Thread(sleeper) => sleeper.wake(),
            Seat::Program(waker) => {
                if let Some(wake) = waker.wake {
                    // SAFETY: the program said that it may be called so until now, and silencing
                    // the bell waits for the lock that is held.
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

/// Rings at the seats of one handle.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    seats: Mutex<Vec<(For, Seat)>>,
}

impl Bell {
    fn seats(&self) -> MutexGuard<'_, Vec<(For, Seat)>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a seat. A program has one seat for each thing to wait for; threads have as many as
    /// there are.
    pub(crate) fn sit(&self, what: For, seat: Seat) {
        let mut seats = self.seats();
        if matches!(seat, Seat::Program(_)) {
            seats.retain(|(taken, by)| *taken != what || matches!(by, Seat::Thread(_)));
        }
        seats.push((what, seat));
    }

    /// Leaves the seats of a thread, or a program's for one thing.
    pub(crate) fn leave(&self, what: For, sleeper: Option<&Arc<Sleeper>>) {
        self.seats().retain(|(taken, by)| match (by, sleeper) {
            (Seat::Thread(there), Some(here)) => !Arc::ptr_eq(there, here),
            (Seat::Program(_), None) => *taken != what,
            _ => true,
        });
    }

    /// Rings at all seats.
    pub(crate) fn ring(&self) {
        let mut seats = self.seats();
        for (_, seat) in seats.drain(..) {
            seat.ring();
        }
    }

    /// Empties all seats. No callback runs afterwards.
    pub(crate) fn silence(&self) {
        self.seats().clear();
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
