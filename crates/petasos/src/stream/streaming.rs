//! Receiving the messages of a stream.

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

/// Receives the messages of one direction of a call. It also implements `Stream` of the crate
/// `futures-core`.
///
/// The number of received messages that wait to be read is bounded: a receiver that does not read
/// stops the sender (R17). A client that drops this before the end cancels the call, and the server
/// drops its handler.
pub struct Streaming<T> {
    source: Source,
    head: Metadata,
    has_head: bool,
    timeout: Option<Duration>,
    extensions: Extensions,
    origin: Origin,
    /// Interceptors that see the messages.
    tap: Option<Tap>,
    /// At a client: interceptors that are told about the end.
    scope: Option<ReaderScope>,
    /// At a client: the length limit of each message.
    bytes_max: BytesMax,
    /// A message that arrived while [`Streaming::head`] waited for the initial metadata.
    prefetched: Option<Msg<T>>,
    end: Option<End>,
    message: PhantomData<fn() -> T>,
}

struct End {
    trailers: Metadata,
    outcome: Result<(), Status>,
}

impl<T: Message> Streaming<T> {
    /// The receiver of a client.
    pub(crate) fn of_call(source: Source) -> Streaming<T> {
        let parts = CallParts::default();
        Streaming { has_head: false, ..Streaming::of_handler(source, parts) }
    }

    /// The receiver of a server, with the parts that arrived with the call.
    pub(crate) fn of_handler(source: Source, parts: CallParts) -> Streaming<T> {
        let CallParts { metadata: head, timeout, extensions, origin } = parts;
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

    /// Passes the messages that are read from now on to interceptors.
    pub(crate) fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// At a client: sets the length limit. A longer message ends the call.
    pub(crate) fn limit(&mut self, bytes_max: BytesMax) {
        self.bytes_max = bytes_max;
    }

    /// At a client: reports the end of the call to `scope`.
    pub(crate) fn end_to(&mut self, scope: ReaderScope) {
        self.scope = Some(scope);
    }

    /// At a server: takes the call's parts out.
    pub(crate) fn take_parts(&mut self) -> CallParts {
        let metadata = core::mem::take(&mut self.head);
        let extensions = core::mem::take(&mut self.extensions);
        let origin = self.origin.clone();
        CallParts { metadata, timeout: self.timeout, extensions, origin }
    }

    /// At a server: puts the call's parts back.
    pub(crate) fn put_parts(&mut self, parts: CallParts) {
        let CallParts { metadata, timeout, extensions, .. } = parts;
        (self.head, self.timeout, self.extensions) = (metadata, timeout, extensions);
    }

    /// Returns the next message; `None` after the last one. At a client, `None` means that the call
    /// succeeded. Dropping the future while it waits loses no message.
    ///
    /// # Errors
    /// At a client: the call's status, or a transport error. At a server: the caller cancelled the
    /// call or broke a protocol rule; the handler can return this status. All later calls of this
    /// method return the same.
    pub async fn message(&mut self) -> Result<Option<Msg<T>>, Status> {
        core::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    /// Like [`Streaming::message`], for code that polls by hand.
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

    /// Whether the latest message was compressed.
    pub fn was_compressed(&self) -> bool {
        self.source.was_compressed()
    }

    /// At a client: waits for the server's initial metadata. They arrive with the first message at
    /// the latest, and are empty if the server sends none.
    ///
    /// # Errors
    /// As [`Streaming::message`], if the call failed before.
    pub async fn head(&mut self) -> Result<&Metadata, Status> {
        core::future::poll_fn(|cx| self.poll_head(cx)).await?;
        Ok(&self.head)
    }

    /// The metadata. At a server: those of the caller. At a client: the server's initial metadata
    /// if they have arrived ([`Streaming::head`] waits for them).
    pub fn metadata(&self) -> &Metadata {
        &self.head
    }

    /// At a client, once the stream has ended: the trailing metadata.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.end.as_ref().map(|end| &end.trailers)
    }

    /// At a server: the remaining timeout when the call arrived.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// At a server: the caller. `None` once the caller's session is gone.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// At a server: a future that completes when nobody waits for the call any more; see
    /// [`Request::cancelled`].
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

    /// Makes a guard. Dropping it marks the call as over.
    pub(crate) fn watch(&mut self) -> CancelGuard {
        CancelGuard::watch(&mut self.origin)
    }

    /// At a server: the call's place in a distributed trace, if it has one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// At a server: values that interceptors have attached to the call.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The only message of a direction that does not stream.
    pub(crate) async fn single(&mut self) -> Result<Msg<T>, Status> {
        let message = self.message().await?;
        let message = message.ok_or_else(|| Status::unimplemented("there is no message"))?;
        match self.message().await? {
            None => Ok(message),
            Some(_) => Err(Status::unimplemented("there is more than one message")),
        }
    }

    /// Takes the metadata out.
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

    /// Takes the next item, which may be a message.
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

    /// Checks a message's length, and passes it to interceptors.
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

    /// Polls whether a message of the other direction was refused. Nothing follows then.
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(tap) = &self.tap else { return Poll::Pending };
        let refusal = ready!(tap.poll_refusal(cx));
        self.give_up();
        Poll::Ready(refusal)
    }

    /// A client cancels the call. At a server, the code that runs the handler ends it.
    #[cold]
    fn give_up(&mut self) {
        if self.scope.is_some() {
            self.source.give_up();
        }
    }
}

impl<T: Message> futures_core::Stream for Streaming<T> {
    type Item = Result<Msg<T>, Status>;

    /// Yields messages, and an error at most once, as the last item.
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
