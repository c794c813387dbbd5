//! The state that a handler's future in the server shares with the program, which may answer from
//! any thread.
//!
//! The future only waits for the outcome. If it is dropped, the server no longer needs the answer:
//! the call was cancelled, or its deadline has passed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use petasos::rt::ServiceRef;
use petasos::untyped::Payload;
use petasos::{Response, Status};

use crate::notifier::Notifier;

/// The outcome of a handler; with the response, if the method has only one.
pub(crate) type Outcome = Result<Option<Response<Payload>>, Status>;

/// The called method, and the timeout.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The program may read its name as long as it has the call.
    pub(crate) service: ServiceRef,
    /// The method's index.
    pub(crate) method: u16,
    pub(crate) timeout: Option<Duration>,
}

/// The additional parts of a handler's call.
pub(crate) struct Handling {
    pub(crate) asked: Asked,
    answer: Arc<Answer>,
}

impl Handling {
    /// Makes the handling, and the future that the server polls.
    pub(crate) fn new(asked: Asked, notifier: Arc<Notifier>) -> (Handling, Waiting) {
        let answer = Arc::new(Answer { state: Mutex::default(), notifier });
        (Handling { asked, answer: answer.clone() }, Waiting(answer))
    }

    /// Ends the call. Returns whether anybody waits for it.
    pub(crate) fn finish(&self, outcome: Outcome) -> bool {
        self.answer.finish(outcome)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.answer.state().is_over
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.answer.finish(Err(Status::internal("the handler gave no answer")));
    }
}

/// The shared state.
struct Answer {
    state: Mutex<State>,
    notifier: Arc<Notifier>,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    /// The outcome was set, or is no longer needed.
    is_over: bool,
}

impl Answer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, outcome: Outcome) -> bool {
        let mut state = self.state();
        if core::mem::replace(&mut state.is_over, true) {
            drop(state);
            return false;
        }
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// The handler's future.
pub(crate) struct Waiting(Arc<Answer>);

impl Future for Waiting {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let waker = cx.waker().clone();
        let mut state = self.0.state();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        let earlier = state.waker.replace(waker);
        drop(state);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let rest = (state.outcome.take(), state.waker.take());
        drop(state);
        drop(rest);
        self.0.notifier.notify();
    }
}
