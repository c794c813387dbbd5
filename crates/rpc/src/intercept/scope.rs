//! One call's hooks: each in its time, `ended` exactly once.
//!
//! A call's owner has a [`Scope`]. What else of it runs elsewhere, the directions of a stream, has
//! the scope's [`Watch`]. Whoever ends the call says so; a scope that is dropped before was a call
//! that was given up.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};

use crate::request::CallParts;
use crate::timer::{Timekeeper, Timer};

use super::{AnyMessage, Around, BoxFuture, CallInfo, Direction, Extensions, Outcome, Side, Step};

/// A client's deadline is its call's; a server's is kept to a millisecond where it is kept.
const SLACK: core::time::Duration = core::time::Duration::from_millis(1);

/// What all that belongs to a call shares.
pub struct Watch {
    around: Arc<Around>,
    pub(super) info: CallInfo,
    /// So many interceptors know of the call.
    begun: usize,
    is_over: AtomicBool,
    streams: Mutex<Streams>,
}

/// What the directions of a stream tell each other, and the end.
#[derive(Default)]
struct Streams {
    /// What a message was refused with.
    refusal: Option<Status>,
    /// The reader's, to be told of that.
    waker: Option<Waker>,
    /// What a server's sender has sent beside messages.
    metadata: Metadata,
    trailers: Metadata,
}

/// The owner of a call's hooks.
pub struct Scope {
    pub(super) watch: Arc<Watch>,
    /// A client's: who says when the call's time is over. A server's handler is dropped then.
    timekeeper: Option<Arc<dyn Timekeeper>>,
}

impl Scope {
    /// A call that its interceptors have not seen yet.
    pub fn new(around: &Arc<Around>, method: u16, side: Side, beside: CallParts) -> Scope {
        let info = CallInfo::new(around, method, side, beside);
        let (around, is_over) = (around.clone(), AtomicBool::new(false));
        let streams = Mutex::default();
        let watch = Arc::new(Watch { around, info, begun: 0, is_over, streams });
        Scope { watch, timekeeper: None }
    }

    /// A client's, which waits no longer than until its deadline.
    pub fn timed_by(mut self, timekeeper: Arc<dyn Timekeeper>) -> Scope {
        self.timekeeper = Some(timekeeper);
        self
    }

    /// Goes through the interceptors, from the outermost. What is left of the call then.
    ///
    /// # Errors
    /// One has refused the call, or its time is over.
    pub(super) async fn enter(&mut self) -> Result<CallParts, Status> {
        let watch = Arc::get_mut(&mut self.watch).expect("nobody watches before the call begins");
        let Watch { around, info, begun, .. } = watch;
        let mut has_waited = false;
        for interceptor in around.chain.list() {
            *begun += 1;
            let left = self.timekeeper.as_ref().and(info.time_left());
            let lent = &mut *info;
            match shielded(move || interceptor.call(lent))? {
                Step::Continue => {}
                Step::Refuse(status) => return Err(status),
                Step::Wait(future) => {
                    has_waited = true;
                    let timer = left.zip(self.timekeeper.as_ref());
                    let timer = timer.map(|(left, timekeeper)| timekeeper.start(left));
                    caught(future, timer).await?;
                }
            }
        }
        let mut beside = info.beside();
        if has_waited && info.time_left().is_some() {
            beside.timeout = info.time_left();
            if beside.timeout.is_some_and(|left| left.is_zero()) {
                return Err(Status::deadline_exceeded("the call waited too long before it began"));
            }
        }
        Ok(beside)
    }

    /// The call is over.
    pub(super) fn ended(&self, outcome: &Outcome<'_>) {
        self.watch.ended(outcome);
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.watch.given_up();
    }
}

impl Watch {
    /// A message on its way.
    ///
    /// # Errors
    /// One of the interceptors refuses it.
    pub(super) fn message<T: Message>(
        &self,
        direction: Direction,
        message: &Msg<T>,
    ) -> Result<(), Status> {
        let seen = AnyMessage::new(message);
        let list = &self.around.chain.list()[..self.begun];
        let show = |interceptor: &Arc<dyn super::Interceptor>| {
            shielded(|| interceptor.message(&self.info, direction, seen))?
        };
        match direction {
            Direction::Request => list.iter().try_for_each(show),
            Direction::Response => list.iter().rev().try_for_each(show),
        }
    }

    /// The call is over. Only the first that is said of it counts.
    pub(super) fn ended(&self, outcome: &Outcome<'_>) {
        // Relaxed: the flag guards nothing but who tells of the end.
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        for interceptor in self.around.chain.list()[..self.begun].iter().rev() {
            // There is nothing more to be refused.
            let _ = shielded(|| interceptor.ended(&self.info, outcome));
        }
    }

    /// The call failed with `status`.
    pub(super) fn failed(&self, status: &Status, metadata: &Metadata) {
        let trailers = status.metadata();
        self.ended(&Outcome { result: Err(status), metadata, trailers });
    }

    /// Nothing panics under the lock, and no code of others runs.
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message was refused: no more go either way.
    #[cold]
    pub(super) fn refuse(&self, refusal: &Status) {
        let mut streams = self.streams();
        streams.refusal.get_or_insert_with(|| refusal.clone());
        let waker = streams.waker.take();
        drop(streams);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn refusal(&self) -> Option<Status> {
        self.streams().refusal.clone()
    }

    pub(super) fn poll_refusal(&self, cx: &Context<'_>) -> Poll<Status> {
        let waker = cx.waker().clone();
        let mut streams = self.streams();
        if let Some(refusal) = &streams.refusal {
            return Poll::Ready(refusal.clone());
        }
        let earlier = streams.waker.replace(waker);
        drop(streams);
        drop(earlier);
        Poll::Pending
    }

    pub(super) fn keep(&self, metadata: Option<&Metadata>, trailers: Option<&Metadata>) {
        let mut streams = self.streams();
        if let Some(metadata) = metadata {
            streams.metadata = metadata.clone();
        }
        if let Some(trailers) = trailers {
            streams.trailers = trailers.clone();
        }
    }

    /// The handler of a stream is done.
    pub(super) fn handled(&self, result: &Result<(), Status>) {
        let (metadata, trailers) = {
            let streams = &mut *self.streams();
            (core::mem::take(&mut streams.metadata), core::mem::take(&mut streams.trailers))
        };
        match result {
            Ok(()) => {
                let (metadata, trailers) = (&metadata, &trailers);
                self.ended(&Outcome { result: Ok(()), metadata, trailers });
            }
            Err(status) => self.failed(status, &metadata),
        }
    }

    /// Nobody goes on with the call.
    #[cold]
    fn given_up(&self) {
        // Relaxed: as in `ended`.
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let is_servers = self.info.side() == Side::Server;
        let is_late = self.info.time_left().is_some_and(|left| left <= SLACK);
        let status = match () {
            () if is_servers && std::thread::panicking() => {
                Status::internal("the handler panicked")
            }
            () if is_servers && is_late => {
                Status::deadline_exceeded("the handler was not done in time")
            }
            () => Status::cancelled("the call was given up"),
        };
        self.failed(&status, &Metadata::new());
    }
}

/// The span that an interceptor has put beside a call, if one has.
#[derive(Default)]
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

impl CallSpan {
    /// The span among what is beside a call.
    pub fn of(extensions: &Extensions) -> CallSpan {
        #[cfg(not(feature = "tracing"))]
        let _ = extensions;
        CallSpan {
            #[cfg(feature = "tracing")]
            span: extensions.get::<tracing::Span>().cloned(),
        }
    }

    /// Runs `poll` within it.
    pub fn around<R>(&self, poll: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _entered = self.span.as_ref().map(tracing::Span::enter);
        poll()
    }
}

/// Polls a handler within the span that an interceptor has put beside its call, if one has.
pub(super) async fn within<F: Future>(watch: &Watch, handler: F) -> F::Output {
    let span = CallSpan::of(watch.info.extensions());
    let mut handler = pin!(handler);
    poll_fn(|cx| span.around(|| handler.as_mut().poll(cx))).await
}

/// What a hook gives, or that it panicked.
fn shielded<R>(hook: impl FnOnce() -> R) -> Result<R, Status> {
    let panicked = |_| Status::internal("an interceptor panicked");
    catch_unwind(AssertUnwindSafe(hook)).map_err(panicked)
}

/// What a future comes to, or that it panicked, or that it took too long.
async fn caught(
    mut future: BoxFuture<'_, Result<(), Status>>,
    mut timer: Option<Timer>,
) -> Result<(), Status> {
    poll_fn(|cx| {
        let polled = shielded(|| future.as_mut().poll(cx));
        if let Ok(Poll::Pending) = polled {
            let Some(timer) = &mut timer else { return Poll::Pending };
            return timer.as_mut().poll(cx).map(Err);
        }
        polled.unwrap_or_else(|panicked| Poll::Ready(Err(panicked)))
    })
    .await
}
