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

mod local;
mod remote;

use petasos_buf::MsgBuf;

use crate::call::{ClientError, Completion};
use crate::core::Context;
use crate::handler::Payload;
use crate::mail::RemoteCall;
use crate::outside::AsyncCall;
pub use local::LocalClient;
pub use remote::{CallFuture, Client, SessionFuture};

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
