//! Where the outcome of a call is left for a future on another thread.
//!
//! A cell is shared by one future and its loop. The future may be polled on any thread; the loop
//! tells the cell where in its table the call is, and puts the outcome into it, once. Whoever gives
//! the call up says so in the cell, so that a loop that has not begun it never does.
//!
//! Invariant: no code of the application's (wakers) runs under the lock.

use core::any::Any;
use core::task::Waker;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos_buf::MsgBuf;
use petasos_call::Status;

use super::keys::CallKey;

/// Keeps the thread that turns a loop, if the loop has one of its own.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// What a call has brought.
pub(crate) type Outcome = Result<MsgBuf, Status>;

/// Where the outcome of a call is left.
pub struct RemoteCompletion {
    state: Mutex<State>,
    /// Turns the loop for as long as the call is wanted, though its channel be gone.
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
    /// For a call in the loop that `thread` turns, if one does.
    pub fn new(thread: Option<KeepAlive>) -> Arc<RemoteCompletion> {
        Arc::new(RemoteCompletion { state: Mutex::default(), _thread: thread })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// The outcome, once; otherwise `waker` is woken when there is one.
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

    /// The loop has begun the call. False if nobody wants it any more.
    pub(crate) fn settle(&self, key: CallKey) -> bool {
        match &mut *self.lock() {
            State::Asked { call, .. } => {
                *call = Some(key);
                true
            }
            _ => false,
        }
    }

    /// The call has ended.
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

    /// Nobody wants the outcome. Where the call is, if it is under way.
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
