//! Receives the messages of a stream.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use petasos_call::{Metadata, Status, TraceContext};
use petasos_message::{Message, Msg};
use petasos_rpc::cancelled::Cancelled;
use petasos_rpc::codec::Incoming;
use petasos_rpc::extensions::Extensions;
use petasos_rpc::intercept::{ReaderScope, Tap};
use petasos_rpc::limits::{self, BytesMax};
use petasos_rpc::origin::{CancelGuard, Origin};
use petasos_rpc::peer::Peer;
use petasos_rpc::request::CallParts;

use super::Source;

/// Receives the messages of one direction of a call. Also a `Stream` of the crate `futures-core`.
///
/// What has come and is not taken is bounded: who does not read stops the sender (R17). A client
/// that drops it before its end gives the call up, and the server's handler is dropped.
pub struct Streaming<T> {
    source: Source,
    head: Metadata,
    has_head: bool,
    timeout: Option<Duration>,
    extensions: Extensions,
    origin: Origin,
    /// Interceptors that see the messages.
    tap: Option<Tap>,
    /// A client's: interceptors that are told of the end.
    scope: Option<ReaderScope>,
    /// A client's, of each message.
    bytes_max: BytesMax,
    /// A message that came while the initial metadata were waited for.
    prefetched: Option<Msg<T>>,
    end: Option<End>,
    message: PhantomData<fn() -> T>,
}

struct End {
    trailers: Metadata,
    outcome: Result<(), Status>,
}

impl<T: Message> Streaming<T> {
    /// A client's.
    pub(crate) fn of_call(source: Source) -> Streaming<T> {
        let beside = CallParts::default();
        Streaming { has_head: false, ..Streaming::of_handler(source, beside) }
    }

    /// A server's, with what came with the call.
    pub(crate) fn of_handler(source: Source, beside: CallParts) -> Streaming<T> {
        let CallParts { metadata: head, timeout, extensions, origin } = beside;
        let (has_head, message) = (true, PhantomData);
        let (tap, scope, bytes_max, prefetched, end) = Default::default();
        Streaming {
            source,
            head,
            has_head,
            timeout,
            extensions,
            origin,
            tap,
            scope,
            bytes_max,
            prefetched,
            end,
            message,
        }
    }

    /// Shows the messages that are read from now on.
    pub(crate) fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// A client's: ends the call at a message that is longer.
    pub(crate) fn limit(&mut self, bytes_max: BytesMax) {
        self.bytes_max = bytes_max;
    }

    /// A client's: tells of the end.
    pub(crate) fn end_to(&mut self, scope: ReaderScope) {
        self.scope = Some(scope);
    }

    /// A server's: what goes with the call, taken out.
    pub(crate) fn take_beside(&mut self) -> CallParts {
        let metadata = core::mem::take(&mut self.head);
        let extensions = core::mem::take(&mut self.extensions);
        let origin = self.origin.clone();
        CallParts { metadata, timeout: self.timeout, extensions, origin }
    }

    /// A server's: what goes with the call.
    pub(crate) fn put_beside(&mut self, beside: CallParts) {
        let CallParts { metadata, timeout, extensions, .. } = beside;
        (self.head, self.timeout, self.extensions) = (metadata, timeout, extensions);
    }

    /// The next message; `None` behind the last, which at a client means that the call went well.
    /// A future that is dropped while it waits has lost nothing.
    ///
    /// # Errors
    /// At a client the call's status, or what failed on the way. At a server: the caller gave the
    /// call up, or broke a rule; the handler can pass the status on. All later calls give the same.
    pub async fn message(&mut self) -> Result<Option<Msg<T>>, Status> {
        core::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// [`Streaming::message`] for those who poll by hand.
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Msg<T>>, Status>> {
        if let Some(message) = self.prefetched.take() {
            return Poll::Ready(Ok(Some(message)));
        }
        loop {
            if let Some(end) = &self.end {
                return Poll::Ready(end.outcome.clone().map(|()| None));
            }
            if let Some(message) = ready!(self.poll_incoming(cx)) {
                return Poll::Ready(Ok(Some(message)));
            }
        }
    }

    /// Whether the message that came last was compressed.
    pub fn was_compressed(&self) -> bool {
        self.source.was_compressed()
    }

    /// A client's: waits until the server's initial metadata are there. They come with the first
    /// message at the latest, and are empty if the server sends none.
    ///
    /// # Errors
    /// As [`Streaming::message`], if the call failed before.
    pub async fn head(&mut self) -> Result<&Metadata, Status> {
        core::future::poll_fn(|cx| self.poll_head(cx)).await?;
        Ok(&self.head)
    }

    /// The metadata: at a server, those of the caller; at a client, the server's initial ones as
    /// far as they have come ([`Streaming::head`] waits for them).
    pub fn metadata(&self) -> &Metadata {
        &self.head
    }

    /// At a client, once the stream has ended: the trailing metadata.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.end.as_ref().map(|end| &end.trailers)
    }

    /// At a server: what was left of the caller's timeout when the call arrived.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// At a server: who called. `None` once the caller's session is gone.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// At a server: tells when nobody waits for the call any more; see [`Request::cancelled`].
    ///
    /// [`Request::cancelled`]: crate::Request::cancelled
    pub fn cancelled(&self) -> Cancelled {
        self.origin.cancelled()
    }

    /// At a server: whether nobody waits for the call any more; see [`Request::is_cancelled`].
    ///
    /// [`Request::is_cancelled`]: crate::Request::is_cancelled
    pub fn is_cancelled(&self) -> bool {
        self.origin.is_cancelled()
    }

    /// From now on the call is over when what this gives is dropped.
    pub(crate) fn watch(&mut self) -> CancelGuard {
        CancelGuard::watch(&mut self.origin)
    }

    /// At a server: where the call belongs in a distributed trace, if it does.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// At a server: what interceptors have put beside the call.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The only message of a side that does not stream.
    pub(crate) async fn single(&mut self) -> Result<Msg<T>, Status> {
        let message = self.message().await?;
        let message = message.ok_or_else(|| Status::unimplemented("there is no message"))?;
        match self.message().await? {
            None => Ok(message),
            Some(_) => Err(Status::unimplemented("there is more than one message")),
        }
    }

    /// The metadata, taken out.
    pub(crate) fn take_metadata(&mut self) -> (Metadata, Metadata) {
        let trailers = self.end.as_mut().map(|end| core::mem::take(&mut end.trailers));
        (core::mem::take(&mut self.head), trailers.unwrap_or_default())
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        while !self.has_head {
            if let Some(end) = &self.end {
                return Poll::Ready(end.outcome.clone());
            }
            self.prefetched = ready!(self.poll_incoming(cx));
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what comes next, which may be a message.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Msg<T>>> {
        let incoming = match self.source.poll_next(cx) {
            Poll::Ready(incoming) => incoming,
            Poll::Pending => Err(ready!(self.poll_refusal(cx))),
        };
        let end = match incoming.and_then(|incoming| self.show(incoming)) {
            Ok(Incoming::Head(head)) => {
                (self.head, self.has_head) = (head, true);
                return Poll::Ready(None);
            }
            Ok(Incoming::Message(message)) => {
                self.has_head = true;
                return Poll::Ready(Some(message));
            }
            Ok(Incoming::End(trailers)) => End { trailers, outcome: Ok(()) },
            Err(status) => End { trailers: status.metadata().clone(), outcome: Err(status) },
        };
        if let Some(scope) = self.scope.take() {
            scope.ended(&self.head, &end.trailers, &end.outcome);
        }
        self.end = Some(end);
        Poll::Ready(None)
    }

    /// Judges a message's length, and shows it to interceptors.
    #[inline]
    fn show(&mut self, incoming: Incoming<T>) -> Result<Incoming<T>, Status> {
        if let (Some(_), Incoming::Message(message)) = (self.bytes_max, &incoming) {
            let checked = limits::check("response", message, self.bytes_max);
            checked.inspect_err(|_| self.source.give_up())?;
        }
        let (Some(tap), Incoming::Message(message)) = (&self.tap, &incoming) else {
            return Ok(incoming);
        };
        let shown = tap.message(message);
        shown.inspect_err(|_| self.give_up()).map(|()| incoming)
    }

    /// Whether a message of the other direction was refused: nothing comes then.
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(tap) = &self.tap else { return Poll::Pending };
        let refusal = ready!(tap.poll_refusal(cx));
        self.give_up();
        Poll::Ready(refusal)
    }

    /// A client gives the call up. At a server, whoever runs the handler ends it.
    #[cold]
    fn give_up(&mut self) {
        if self.scope.is_some() {
            self.source.give_up();
        }
    }
}

impl<T: Message> futures_core::Stream for Streaming<T> {
    type Item = Result<Msg<T>, Status>;

    /// Messages, and an error at most once, as the last.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.end.as_ref().is_some_and(|end| end.outcome.is_err()) {
            return Poll::Ready(None);
        }
        self.poll_message(cx).map(Result::transpose)
    }
}

impl<T> fmt::Debug for Streaming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Streaming");
        debug.field("metadata", &self.head).field("over", &self.end.is_some());
        debug.finish_non_exhaustive()
    }
}
