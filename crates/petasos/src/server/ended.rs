//! The end of a server, and waiting for it.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, Waker};
use std::sync::{Mutex, MutexGuard};

/// What was cut off when a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Calls whose handlers had not answered.
    pub calls: usize,
    /// Threads that had failed before the end.
    pub threads_failed: usize,
}

/// The state that the threads of a server share to report their ends.
pub(crate) struct Ending {
    state: Mutex<State>,
}

struct State {
    /// The number of threads that run.
    running: usize,
    ended: Ended,
    has_begun: bool,
    wakers: Vec<Waker>,
}

impl Ending {
    /// The state for this many threads.
    pub(crate) fn new(threads: usize) -> Ending {
        let (ended, wakers) = (Ended::default(), Vec::new());
        Ending { state: Mutex::new(State { running: threads, ended, has_begun: false, wakers }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// Records that a thread has ended and cut off this many calls; `None` if it failed.
    pub(crate) fn thread_ended(&self, calls: Option<usize>) {
        let mut state = self.state();
        state.running -= 1;
        state.ended.calls += calls.unwrap_or(0);
        state.ended.threads_failed += usize::from(calls.is_none());
        let wakers = core::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Records that the shutdown has begun.
    pub(crate) fn begin(&self) {
        self.state().has_begun = true;
    }

    /// Whether the shutdown has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// Waits until all threads have ended.
    pub(crate) async fn wait(&self) -> Ended {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut state = self.state();
            if state.running == 0 {
                return Poll::Ready(state.ended);
            }
            state.wakers.push(waker);
            Poll::Pending
        })
        .await
    }

    /// Waits for `other`, or until all threads have ended.
    pub(crate) async fn or(&self, other: impl Future<Output = ()>) {
        let (mut ended, mut other) = (pin!(self.wait()), pin!(other));
        poll_fn(|cx| {
            let is_over = ended.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Reports a thread's end, even if it panics.
pub(crate) struct ThreadGuard<'a> {
    pub(crate) ending: &'a Ending,
    /// The number of calls that the thread cut off, once it has ended normally.
    pub(crate) calls: Option<usize>,
}

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        self.ending.thread_ended(self.calls);
    }
}
