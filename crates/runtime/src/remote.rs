//! Carries the outcome of a call to a future on another thread.
//!
//! A cell is shared by one future and its loop. The future may be polled on any thread. The loop
//! writes into the cell where in its table the call is, and later the outcome, once. A future that
//! is dropped marks the cell, so that a loop that has not begun the call never does.
//!
//! Invariant: no code of the application (a waker) runs under the lock.

use core::any::Any;
use core::task::Waker;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_buf::MsgBuf;
use petasos_call::Status;

use super::keys::CallKey;

/// Keeps the thread of a loop running, if the loop has its own.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// The outcome of a call.
pub type Outcome = Result<MsgBuf, Status>;

/// The cell for the outcome of a call.
pub struct RemoteCompletion {
    state: Mutex<State>,
    /// Keeps the loop turning while the call is wanted, even if its channel is gone.
    _thread: Option<KeepAlive>,
}

#[derive(Debug)]
enum State {
    Asked {
        call: Option<CallKey>,
        waker: Option<Waker>,
    },
    Done(Outcome),
    /// The outcome was taken, or nobody wants it.
    Over,
}

impl Default for State {
    fn default() -> State {
        State::Asked { call: None, waker: None }
    }
}

impl RemoteCompletion {
    /// A cell for a call in the loop on `thread`, if it has its own.
    pub fn new(thread: Option<KeepAlive>) -> Arc<RemoteCompletion> {
        Arc::new(RemoteCompletion { state: Mutex::default(), _thread: thread })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// Takes the outcome; if there is none yet, `waker` is woken when there is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome> {
        let waker = waker.clone();
        let mut state = self.lock();
        if let State::Asked { waker: earlier, .. } = &mut *state {
            let earlier = earlier.replace(waker);
            drop(state);
            drop(earlier);
            return None;
        }
        let outcome = core::mem::replace(&mut *state, State::Over);
        drop(state);
        match outcome {
            State::Done(outcome) => Some(outcome),
            _ => panic!("a call is not polled once it is over"),
        }
    }

    /// Notes that the loop has begun the call. Returns false if nobody wants it any more.
    pub(crate) fn settle(&self, key: CallKey) -> bool {
        match &mut *self.lock() {
            State::Asked { call, .. } => {
                *call = Some(key);
                true
            }
            _ => false,
        }
    }

    /// Stores the outcome, and wakes the future.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let mut state = self.lock();
        let State::Asked { waker, .. } = &mut *state else { return };
        let waker = waker.take();
        *state = State::Done(outcome);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Says that nobody wants the outcome. Returns the call's name, if the loop has begun it.
    pub fn give_up(&self) -> Option<CallKey> {
        let earlier = core::mem::replace(&mut *self.lock(), State::Over);
        match earlier {
            State::Asked { call, .. } => call,
            _ => None,
        }
    }
}

impl core::fmt::Debug for RemoteCompletion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RemoteCompletion").field("state", &self.state).finish_non_exhaustive()
    }
}
