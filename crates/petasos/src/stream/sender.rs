//! Sending the messages of a stream.

use core::fmt;
use core::marker::PhantomData;

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};
use petasos_rpc::intercept::Tap;
use petasos_rpc::limits::{self, BytesMax};

use super::Sink;

/// Sends the messages of one direction of a call.
///
/// Dropping a client's sender closes its half of the call: no more messages follow. A server's
/// sender may be dropped early; the call ends when the handler is done.
pub struct Sender<T> {
    sink: Sink,
    head: Metadata,
    head_is_sent: bool,
    trailers: Metadata,
    /// Interceptors that see the messages.
    tap: Option<Tap>,
    /// At a client: the length limit of each message.
    bytes_max: BytesMax,
    message: PhantomData<fn(T)>,
}

impl<T: Message> Sender<T> {
    pub(crate) fn new(sink: Sink) -> Sender<T> {
        let (head, trailers, tap, bytes_max) = Default::default();
        Sender { sink, head, head_is_sent: false, trailers, tap, bytes_max, message: PhantomData }
    }

    /// Sends a message. First waits until most of the earlier messages have been sent, so that a
    /// sender is never far ahead of the receiver (R17). Dropping the future while it waits sends
    /// nothing.
    ///
    /// # Errors
    /// The call is over, or the message cannot be encoded. At a client, the [`Streaming`] has the
    /// call's complete status. Even if the server ended the call with OK, further messages fail
    /// (`CANCELLED`). A message that is longer than the method's policy allows ends the call
    /// (`RESOURCE_EXHAUSTED`). Earlier messages may or may not have been handled.
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

    /// Sets the length limit. A longer message ends the call.
    pub(crate) fn limit(&mut self, bytes_max: BytesMax) {
        self.bytes_max = bytes_max;
    }

    /// Sets whether messages are compressed from now on. With `true`, a message is compressed if it
    /// has at least a kilobyte, the call has a codec, and the receiver supports it; with `false`,
    /// it is not. By default, a client compresses. A server compresses if the client asks for it;
    /// over gRPC, if the client's requests are compressed.
    ///
    /// A gRPC server must name its codec before its first message. To switch compression on after
    /// some uncompressed messages, set `true` before the first message, then `false`.
    pub fn compress(&mut self, compress: bool) {
        self.sink.compress(compress);
    }

    /// Passes the messages that are sent from now on to interceptors.
    pub(crate) fn tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// At a server: the initial metadata. They are sent with the first message, or with the end.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.head
    }

    /// At a server: sends the initial metadata now. Later changes to them are not sent.
    pub fn send_metadata(&mut self) {
        if !core::mem::replace(&mut self.head_is_sent, true) && !self.head.is_empty() {
            self.send_head();
        }
    }

    /// At a server: the trailing metadata. They are sent at the end of the call if the sender has
    /// been dropped by then, which is the case if the handler owns it.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        &mut self.trailers
    }

    /// Closes this half of the call: no more messages follow. Dropping the sender does the same.
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
