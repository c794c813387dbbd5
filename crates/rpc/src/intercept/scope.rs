//! One call's hooks: each runs in its turn, and `ended` runs exactly once.
//!
//! A call's owner has a [`Scope`]. The other parts of a call, the directions of a stream, share the
//! scope's [`Watch`]. Code that ends the call reports the outcome; if a scope is dropped without a
//! report, the call was given up.

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

/// A client's deadline is exact. A server enforces its deadline with a resolution of a millisecond.
const SLACK: core::time::Duration = core::time::Duration::from_millis(1);

/// What all parts of a call share.
pub struct Watch {
    around: Arc<Around>,
    pub(super) info: CallInfo,
    /// How many interceptors have seen the call.
    begun: usize,
    is_over: AtomicBool,
    streams: Mutex<Streams>,
}

/// What the two directions of a stream tell each other and the end of the call.
#[derive(Default)]
struct Streams {
    /// The status with which a message was refused.
    refusal: Option<Status>,
    /// The reader's waker, for when a message is refused.
    waker: Option<Waker>,
    /// The metadata that a server's sender has sent besides messages.
    metadata: Metadata,
    trailers: Metadata,
}

/// The owner of a call's hooks.
pub struct Scope {
    pub(super) watch: Arc<Watch>,
    /// At a client: the timer that ends the wait at the deadline. A server drops the handler then.
    timekeeper: Option<Arc<dyn Timekeeper>>,
}

impl Scope {
    /// A call that its interceptors have not seen yet.
    pub fn new(around: &Arc<Around>, method: u16, side: Side, parts: CallParts) -> Scope {
        let info = CallInfo::new(around, method, side, parts);
        let (around, is_over) = (around.clone(), AtomicBool::new(false));
        let streams = Mutex::default();
        let watch = Arc::new(Watch { around, info, begun: 0, is_over, streams });
        Scope { watch, timekeeper: None }
    }

    /// At a client: interceptors wait at most until the call's deadline.
    pub fn timed_by(mut self, timekeeper: Arc<dyn Timekeeper>) -> Scope {
        self.timekeeper = Some(timekeeper);
        self
    }

    /// Runs the interceptors, from the outermost, and returns the parts of the call.
    ///
    /// # Errors
    /// An interceptor has refused the call, or its deadline has passed.
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
        let mut parts = info.parts();
        if has_waited && info.time_left().is_some() {
            parts.timeout = info.time_left();
            if parts.timeout.is_some_and(|left| left.is_zero()) {
                return Err(Status::deadline_exceeded("the deadline passed before the call began"));
            }
        }
        Ok(parts)
    }

    /// Reports the outcome of the call.
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
    /// Shows a message to the interceptors.
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

    /// Reports the outcome of the call. Only the first report counts.
    pub(super) fn ended(&self, outcome: &Outcome<'_>) {
        // Relaxed: the flag only decides who reports the outcome.
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        for interceptor in self.around.chain.list()[..self.begun].iter().rev() {
            // At this point nothing can be refused any more, so a panic is ignored.
            let _ = shielded(|| interceptor.ended(&self.info, outcome));
        }
    }

    /// Reports that the call failed with `status`.
    pub(super) fn failed(&self, status: &Status, metadata: &Metadata) {
        let trailers = status.metadata();
        self.ended(&Outcome { result: Err(status), metadata, trailers });
    }

    /// Nothing panics under the lock, and no foreign code runs under it.
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a message was refused: no more messages pass in either direction.
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

    /// Reports that the handler of a stream has finished.
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

    /// Reports that the call was given up.
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

/// The span that an interceptor has put into a call's extensions, if there is one.
#[derive(Default)]
pub struct CallSpan {
    #[cfg(feature = "tracing")]
    span: Option<tracing::Span>,
}

impl CallSpan {
    /// The span in the extensions.
    pub fn of(extensions: &Extensions) -> CallSpan {
        #[cfg(not(feature = "tracing"))]
        let _ = extensions;
        CallSpan {
            #[cfg(feature = "tracing")]
            span: extensions.get::<tracing::Span>().cloned(),
        }
    }

    /// Runs `poll` within the span.
    pub fn around<R>(&self, poll: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tracing")]
        let _entered = self.span.as_ref().map(tracing::Span::enter);
        poll()
    }
}

/// Polls a handler within the span in its call's extensions, if there is one.
pub(super) async fn within<F: Future>(watch: &Watch, handler: F) -> F::Output {
    let span = CallSpan::of(watch.info.extensions());
    let mut handler = pin!(handler);
    poll_fn(|cx| span.around(|| handler.as_mut().poll(cx))).await
}

/// The result of a hook, or an error if it panicked.
fn shielded<R>(hook: impl FnOnce() -> R) -> Result<R, Status> {
    let panicked = |_| Status::internal("an interceptor panicked");
    catch_unwind(AssertUnwindSafe(hook)).map_err(panicked)
}

/// The result of a future, or an error if it panicked or took too long.
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
