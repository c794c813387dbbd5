//! Sends the messages of a stream.

use core::fmt;
use core::marker::PhantomData;

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};
use petasos_rpc::intercept::Tap;
use petasos_rpc::limits::{self, BytesMax};

use super::Sink;

/// Sends the messages of one direction of a call.
///
/// A client's closes its half when it is dropped: no more messages follow. A server's need not be
/// kept; the call ends when the handler does.
pub struct Sender<T> {
    sink: Sink,
    head: Metadata,
    head_is_sent: bool,
    trailers: Metadata,
    /// Interceptors that see the messages.
    tap: Option<Tap>,
    /// A client's, of each message.
    bytes_max: BytesMax,
    message: PhantomData<fn(T)>,
}

impl<T: Message> Sender<T> {
    pub(crate) fn new(sink: Sink) -> Sender<T> {
        let (head, trailers, tap, bytes_max) = Default::default();
        Sender { sink, head, head_is_sent: false, trailers, tap, bytes_max, message: PhantomData }
    }

    /// Sends a message, after waiting until those before it have mostly left: a sender is never far
    /// ahead of who reads (R17). A future that is dropped while it waits has sent nothing.
    ///
    /// # Errors
    /// The call is over, or the message cannot be encoded. At a client the [`Streaming`] has the
    /// call's whole status; a call that the server ended well, too, takes no more messages
    /// (`CANCELLED`). One that is longer than the method's policy allows ends the call
    /// (`RESOURCE_EXHAUSTED`). What was sent before may or may not have been handled.
    ///
    /// [`Streaming`]: super::Streaming
    pub async fn send(&mut self, message: impl Into<Msg<T>>) -> Result<(), Status> {
        self.send_metadata();
        core::future::poll_fn(|cx| self.sink.poll_room(cx)).await?;
        let message = message.into();
        if let Some(tap) = &self.tap {
            tap.message(&message)?;
        }
        let checked = limits::check("request", &message, self.bytes_max);
        checked.inspect_err(|status| self.sink.refuse(status))?;
        self.sink.send(message)
    }

    /// Ends the call at a message that is longer.
    pub(crate) fn limit(&mut self, bytes_max: BytesMax) {
        self.bytes_max = bytes_max;
    }

    /// Says whether messages are compressed from now on. With `true` they are if they have a
    /// kilobyte or more, the call has a codec and the receiver takes it; with `false` they are not.
    /// Until then a client's are, and a server's as the client asks for it: over gRPC, if its
    /// requests are.
    ///
    /// What a gRPC server may compress is named before its first message: whoever begins without,
    /// and goes on with, says `true` first.
    pub fn compress(&mut self, compress: bool) {
        self.sink.compress(compress);
    }

    /// Shows the messages that are sent from now on.
    pub(crate) fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// A server's initial metadata. They go with the first message, or with the end.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.head
    }

    /// A server's: sends the initial metadata now. Later changes to them are not sent.
    pub fn send_metadata(&mut self) {
        if !core::mem::replace(&mut self.head_is_sent, true) && !self.head.is_empty() {
            self.send_head();
        }
    }

    /// A server's trailing metadata. They go with the end of the call if the sender has been
    /// dropped by then, as it is with a handler that owns it.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        &mut self.trailers
    }

    /// No more messages follow; the same as dropping it.
    pub fn close(self) {
        drop(self);
    }
}

impl<T> Sender<T> {
    fn send_head(&mut self) {
        if let Some(tap) = &self.tap {
            tap.keep(Some(&self.head), None);
        }
        self.sink.head(core::mem::take(&mut self.head));
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if !self.head_is_sent && !self.head.is_empty() {
            self.send_head();
        }
        if let Some(tap) = &self.tap {
            tap.keep(None, Some(&self.trailers));
        }
        self.sink.finish(core::mem::take(&mut self.trailers));
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("metadata", &self.head).finish_non_exhaustive()
    }
}
