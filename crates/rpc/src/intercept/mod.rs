//! How interceptors run around calls. `petasos::intercept` documents what interceptors can rely on.
//!
//! `chain` is the list of interceptors, and the interceptors around a service's methods. `scope`
//! holds one call's hooks, and ensures that they run once and in order. A server's handler is
//! wrapped in a future that runs the hooks (`unary`, `streams`). A client's call becomes such a
//! future too, instead of being started by the stub. Streams have a `Tap` in each direction.
//!
//! Boundary rule: uses requests and their parts; knows nothing of packets, segments or HTTP/2.

mod call;
mod chain;
mod message;
mod metrics;
mod scope;
#[cfg(feature = "tracing")]
mod spans;
mod streams;
mod unary;

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use petasos_call::Status;

pub use crate::extensions::Extensions;
pub use call::{CallInfo, Outcome, Side};
pub use chain::{Around, Chain, Hooks};
pub use message::AnyMessage;
pub use metrics::{LATENCY_BOUNDS, MethodMetrics, Metrics};
pub use scope::{CallSpan, Scope};
#[cfg(feature = "tracing")]
pub use spans::Tracing;
pub use streams::{HandlerScope, Later, ReaderScope, Tap, Watched, around_opening};
pub use unary::{Intercepted, around_call, around_handler};

/// Hooks that run around calls. By default each hook does nothing.
///
/// Hooks run where calls do: a server's on the loop that received the request, or on the gRPC
/// connection's task. None may block; await slow work in [`Step::Wait`].
pub trait Interceptor: Send + Sync + 'static {
    /// Runs before the call is sent, or before its handler runs. The changed `call` is what is
    /// sent, or what the handler gets.
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        let _ = call;
        Step::Continue
    }

    /// Runs for each message, before it is sent or after it was received.
    ///
    /// # Errors
    /// The call ends with this status, and the message is dropped.
    fn message(
        &self,
        call: &CallInfo,
        direction: Direction,
        message: AnyMessage<'_>,
    ) -> Result<(), Status> {
        let _ = (call, direction, message);
        Ok(())
    }

    /// Runs when the call is over at this end. Exactly once.
    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        let _ = (call, outcome);
    }
}

/// An interceptor that several channels or servers share, or that the program keeps a handle to.
impl<T: Interceptor + ?Sized> Interceptor for Arc<T> {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        (**self).call(call)
    }

    fn message(
        &self,
        call: &CallInfo,
        direction: Direction,
        message: AnyMessage<'_>,
    ) -> Result<(), Status> {
        (**self).message(call, direction, message)
    }

    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        (**self).ended(call, outcome);
    }
}

/// A future that an interceptor waits for.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a call continues after an interceptor.
#[must_use = "a step that is not returned changes nothing"]
pub enum Step<'a> {
    /// It continues at once.
    Continue,
    /// It ends with this status; no handler sees it.
    Refuse(Status),
    /// It waits for this future, and continues or ends according to its result. The future is
    /// dropped at the deadline that the call had when the interceptor was called; the call then
    /// ends with `DEADLINE_EXCEEDED`.
    Wait(BoxFuture<'a, Result<(), Status>>),
}

impl<'a> Step<'a> {
    /// Waits for `future`.
    pub fn wait(future: impl Future<Output = Result<(), Status>> + Send + 'a) -> Step<'a> {
        Step::Wait(Box::pin(future))
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Continue => f.write_str("Continue"),
            Step::Refuse(status) => f.debug_tuple("Refuse").field(status).finish(),
            Step::Wait(_) => f.write_str("Wait"),
        }
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the server.
    Request,
    /// To the client.
    Response,
}
