//! How interceptors are run around calls. What they are promised stands at `petasos::intercept`.
//!
//! How it works: `chain` is the list, and what is around a service's methods. `scope` is one call's
//! hooks: it makes sure that they run once and in order. A server's handlers are wrapped in a
//! future that goes through them (`unary`, `streams`); a client's calls become such a future
//! instead of being begun by the stub. Streams carry a `Tap` in each direction.
//!
//! Boundary rule: stands on requests and their parts; knows nothing of packets, segments or HTTP/2.

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

/// What runs around calls. All hooks do nothing unless they are written.
///
/// Hooks run where calls do: a server's on the loop that received the request, or on the gRPC
/// connection's task. None may block; what takes time is awaited in [`Step::Wait`].
pub trait Interceptor: Send + Sync + 'static {
    /// Before the call leaves, or before its handler runs. What it changes in `call` is what is
    /// sent, or what the handler finds.
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        let _ = call;
        Step::Continue
    }

    /// Each message, before it is sent or after it was received.
    ///
    /// # Errors
    /// The call ends with this status, and the message goes no farther.
    fn message(
        &self,
        call: &CallInfo,
        direction: Direction,
        message: AnyMessage<'_>,
    ) -> Result<(), Status> {
        let _ = (call, direction, message);
        Ok(())
    }

    /// When the call is over, at this end. Exactly once.
    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        let _ = (call, outcome);
    }
}

/// One that several channels or servers share, or that the program asks later.
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

/// What an interceptor waits for.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a call goes on.
#[must_use = "a step that is not returned changes nothing"]
pub enum Step<'a> {
    /// At once.
    Continue,
    /// It ends with this status, and no handler sees it.
    Refuse(Status),
    /// It goes on, or ends, as this future says. It is dropped at the deadline that the call had
    /// when its interceptor was asked; the call then is `DEADLINE_EXCEEDED`.
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

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the server.
    Request,
    /// To the client.
    Response,
}
