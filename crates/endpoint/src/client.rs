//! Async clients: `call(...).await` on top of an endpoint.
//!
//! Two of them, over one mechanism. [`LocalClient`] lives on the loop's own thread and calls
//! straight into the endpoint; [`Client`] can be on any thread and sends mail. In both cases **the
//! endpoint's thread turns the loop** (`run`, `run_ready`, or [`LocalClient::block_on`]); the
//! thread that awaits only waits to be woken, on whatever executor.
//!
//! A call begins when it is made, not when it is first awaited. Dropping its future cancels it; the
//! loop keeps the buffers until that is safe. If the endpoint is dropped, its calls end with
//! [`ClientError::EndpointGone`].

pub(crate) mod local;
pub(crate) mod promise;
pub(crate) mod remote;

use core::fmt;

use petasos_buf::MsgBuf;

use crate::call::{CallError, EnqueueError};
use crate::context::Context;
use crate::{CallId, Completion, Payload};
pub use local::LocalClient;
use promise::Promise;
use remote::RemoteCall;
pub use remote::{CallFuture, Client, SessionFuture};

/// Why an async call has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// It was not started; a retry is safe.
    NotStarted(EnqueueError),
    /// It failed; see [`CallError::retry_is_safe`].
    Failed(CallError),
    /// The endpoint was dropped first. The handler may have run.
    EndpointGone,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::NotStarted(error) => error.fmt(f),
            ClientError::Failed(error) => error.fmt(f),
            ClientError::EndpointGone => f.write_str("the endpoint is gone"),
        }
    }
}

impl std::error::Error for ClientError {}

/// The outcome of an async call.
pub(crate) type Response = Result<MsgBuf, ClientError>;

/// An async call in progress, as the endpoint keeps it.
pub(crate) struct AsyncCall {
    call: CallId,
    promise: Promise<Response>,
}

impl<S> Context<S> {
    /// Starts an async call; its outcome goes to the promise.
    pub(crate) fn start_async(&mut self, call: RemoteCall) {
        let RemoteCall { id, session, method, request, settings, promise } = call;
        match self.enqueue_with(session, method, request, finish::<S>, id, &settings) {
            Ok(call) => {
                self.core.outside.calls.insert(id, AsyncCall { call, promise });
            }
            Err(refused) => promise.keep(Err(ClientError::NotStarted(refused.error))),
        }
    }

    /// Cancels an async call whose future is gone.
    pub(crate) fn cancel_async(&mut self, id: u64) {
        let call = self.core.outside.calls.get(&id).map(|entry| entry.call);
        if let Some(call) = call {
            self.cancel(call);
        }
    }
}

/// The continuation of every async call; the tag is the call's id.
fn finish<S>(_: &mut S, cx: &mut Context<S>, completion: Completion<'_>) {
    let entry = cx.core.outside.calls.remove(&completion.tag);
    let AsyncCall { promise, .. } = entry.expect("an async call ends once");
    promise.keep(match completion.result {
        Ok(Payload::Frame(bytes)) => Ok(MsgBuf::from_slice(bytes)),
        Ok(Payload::Buffer(response)) => {
            // The response leaves the endpoint for good, so the pool gets another buffer of its
            // size in its place. That is cheaper than a copy, which would need that memory too.
            cx.free(MsgBuf::with_capacity(response.capacity()));
            Ok(response)
        }
        Err(error) => Err(ClientError::Failed(error)),
    });
}
