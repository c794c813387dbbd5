//! Unary calls whose policy limits their messages.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use petasos_call::Status;
use petasos_message::Message;
use petasos_rpc::limits::{BytesMax, Limits, check};
use petasos_rpc::request::{Request, RequestParts as _, Response, ResponseParts as _};

use super::Unary;

/// A unary call that fails if its response is longer than its policy allows.
pub(crate) struct Limited<P> {
    call: Unary<P>,
    bytes_max: BytesMax,
}

impl<P: Message> Limited<P> {
    /// Starts a call with `begin`, and applies these limits to it.
    ///
    /// # Errors
    /// The request is too long.
    #[cold]
    pub(super) fn new<Q: Message>(
        limits: Limits,
        request: Request<Q>,
        begin: impl FnOnce(Request<Q>) -> Unary<P>,
    ) -> Result<Limited<P>, Status> {
        check("request", request.message(), limits.request)?;
        Ok(Limited { call: begin(request), bytes_max: limits.response })
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<P>, Status>> {
        let response = ready!(Pin::new(&mut self.call).poll(cx))?;
        check("response", response.message(), self.bytes_max)?;
        Poll::Ready(Ok(response))
    }
}
