//! Sends a call's messages.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use petasos_buf::MsgBuf;
use petasos_call::{Code, HEAD_BYTES, Metadata, Status};
use tokio::time::{Instant, Sleep};

use crate::compress::Compression;
use crate::payload::Payload;
use crate::send_half::SendHalf;

/// Sends a call's messages, and a server's status.
///
/// Dropping a client's closes its half of the call. Dropping a server's that was not ended ends
/// the call with `INTERNAL`.
pub struct FrameWriter {
    send_half: Arc<SendHalf>,
    side: Side,
    /// What the headers name; messages may be compressed so, or not at all.
    named: Compression,
    compression: Compression,
    compress_bytes_min: usize,
}

enum Side {
    /// With what the client takes, beside the identity, and whether the call ends with the writer.
    Server { accepted: Compression, is_last: bool },
    /// With the call's deadline, and the timer once a message has waited.
    Client { deadline: Option<Instant>, timer: Option<Pin<Box<Sleep>>> },
}

impl FrameWriter {
    pub(crate) fn server(
        send_half: Arc<SendHalf>,
        compression: Compression,
        accepted: Compression,
        compress_bytes_min: usize,
    ) -> Self {
        let side = Side::Server { accepted, is_last: true };
        FrameWriter { send_half, side, named: compression, compression, compress_bytes_min }
    }

    pub(crate) fn client(
        send_half: Arc<SendHalf>,
        deadline: Option<Instant>,
        compression: Compression,
        compress_bytes_min: usize,
    ) -> Self {
        let side = Side::Client { deadline, timer: None };
        FrameWriter { send_half, side, named: compression, compression, compress_bytes_min }
    }

    /// How messages are compressed from now on, short ones apart. What the peer does not take, or
    /// was not told before the first message, is the identity; gives what it is.
    pub fn set_compression(&mut self, wanted: Compression) -> Compression {
        if let Side::Server { accepted, .. } = self.side
            && wanted == accepted
            && wanted != self.named
            && self.send_half.name_compression(wanted)
        {
            self.named = wanted;
        }
        self.compression = if wanted == self.named { wanted } else { Compression::Identity };
        self.compression
    }

    /// Whether messages are compressed from now on, short ones apart. A client's are so as its head
    /// has named it; a server's in whatever way the client takes, if that has been named or nothing
    /// has been sent yet.
    pub fn compress(&mut self, compress: bool) {
        let wanted = match (&self.side, compress) {
            (_, false) => Compression::Identity,
            (Side::Server { accepted, .. }, true) => *accepted,
            (Side::Client { .. }, true) => self.named,
        };
        self.set_compression(wanted);
    }

    /// A server's: sends the initial metadata, now. Only the first call counts, and only before the
    /// first message; without it there are none. A client's went with the call's head.
    pub fn head(&mut self, metadata: Metadata) {
        self.send_half.head(&metadata);
    }

    /// Sends a message, after waiting until the one before it has mostly left. Its buffer begins
    /// with [`HEAD_BYTES`] bytes of room. A future that is dropped while it waits has sent nothing.
    ///
    /// # Errors
    /// The call is over, with a code that says how: at a client the reader knows the whole status.
    /// What was sent before may or may not have been handled.
    ///
    /// # Panics
    /// If the buffer has no such room.
    pub async fn send(&mut self, message: MsgBuf) -> Result<(), Status> {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await?;
        self.send_now(message)
    }

    /// [`FrameWriter::send`], once [`FrameWriter::poll_ready`] was ready.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    ///
    /// # Panics
    /// If the buffer has no such room.
    pub fn send_now(&mut self, message: MsgBuf) -> Result<(), Status> {
        let payload = self.payload(message);
        self.send_half.send(payload)
    }

    /// Sends bytes that are messages with their prefixes already, none of them compressed, once
    /// [`FrameWriter::poll_ready`] was ready. They may be cut anywhere. They are not copied.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    pub fn send_frames_now(&mut self, frames: Bytes) -> Result<(), Status> {
        self.send_half.send(Payload::frames(frames))
    }

    fn payload(&self, message: MsgBuf) -> Payload {
        let is_short = message.len() < HEAD_BYTES + self.compress_bytes_min;
        let compression = if is_short { Compression::Identity } else { self.compression };
        Payload::message(message, compression)
    }

    /// Waits until the messages before have mostly left.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let poll = self.send_half.poll_capacity(cx);
        if poll.is_ready() {
            return poll;
        }
        let Side::Client { deadline: Some(deadline), timer } = &mut self.side else {
            return Poll::Pending;
        };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(*deadline)));
        timer.as_mut().poll(cx).map(|()| {
            self.send_half.reset(Reason::CANCEL, Code::DeadlineExceeded);
            Err(Status::deadline_exceeded("the server took no more before the deadline"))
        })
    }

    /// A server's: ends the call with a status, the status's own metadata and more. At a client it
    /// is [`FrameWriter::close`].
    pub fn end(self, status: Status, trailers: Metadata) {
        if matches!(self.side, Side::Server { .. }) {
            self.send_half.end(&status, &trailers);
        }
    }

    /// A server's: answers with one message and OK, all at once. It waits for nothing: what the
    /// client does not take yet is kept for it.
    ///
    /// # Panics
    /// If the buffer has no room as [`FrameWriter::send`] needs it, and at a client.
    pub fn finish(self, metadata: &Metadata, message: MsgBuf, trailers: &Metadata) {
        assert!(matches!(self.side, Side::Server { .. }), "a client's has no status to end with");
        let payload = self.payload(message);
        self.send_half.finish(metadata, payload, trailers);
    }

    /// A client's: sends the last message and closes, all at once, without waiting.
    ///
    /// # Panics
    /// If the buffer has no room as [`FrameWriter::send`] needs it, and at a server.
    pub fn close_with(self, message: MsgBuf) {
        assert!(matches!(self.side, Side::Client { .. }), "a server ends with a status");
        let payload = self.payload(message);
        self.send_half.close(payload);
    }

    /// A server's: lets who has the [`CallEnd`] end the call, and not the writer any more.
    ///
    /// # Panics
    /// At a client.
    pub fn split(&mut self) -> CallEnd {
        let Side::Server { is_last, .. } = &mut self.side else {
            panic!("a client's has no status to end with")
        };
        *is_last = false;
        CallEnd { send_half: self.send_half.clone() }
    }

    /// A server's: metadata that go with the end, beside those that are given with it.
    pub fn keep_trailers(&mut self, trailers: Metadata) {
        self.send_half.keep_trailers(trailers);
    }

    /// A client's: gives the call up. Its reader fails, unless the call has ended.
    pub fn give_up(self) {
        self.send_half.reset(Reason::CANCEL, Code::Cancelled);
    }

    /// A client's: no more messages follow. At a server this ends the call with `INTERNAL`, as a
    /// status is missing.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        match self.side {
            // Does nothing if the call has ended.
            Side::Server { is_last: true, .. } => end_without_status(&self.send_half),
            Side::Server { .. } => {}
            Side::Client { .. } => self.send_half.close(Payload::empty()),
        }
    }
}

/// Ends a call at its server, whoever writes its messages. Dropping it ends the call with
/// `INTERNAL`, unless it has ended.
pub struct CallEnd {
    send_half: Arc<SendHalf>,
}

impl CallEnd {
    /// Ends the call with a status, the status's own metadata and the writer's.
    pub fn end(self, status: &Status) {
        self.send_half.end(status, &Metadata::new());
    }
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        end_without_status(&self.send_half);
    }
}

/// Does nothing if the call has ended.
fn end_without_status(send_half: &SendHalf) {
    send_half.end_unless_over(|| Status::internal("the handler ended without a status"));
}
