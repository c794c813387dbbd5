//! Sends a call's messages.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use petasos_buf::MsgBuf;
use petasos_buf::memory::LONG_BYTES_MIN;
use petasos_call::{Code, HEAD_BYTES, Metadata, RETRY_PUSHBACK, Status};
use tokio::time::{Instant, Sleep};

use crate::compress::Compression;
use crate::payload::Payload;
use crate::send_half::SendHalf;
use crate::usage::CallUse;

/// Sends a call's messages, and at a server its status.
///
/// Dropping a client's writer closes its half of the call. Dropping a server's writer before the
/// call has ended ends the call with `INTERNAL`.
pub struct FrameWriter {
    send_half: Arc<SendHalf>,
    side: Side,
    /// The compression that the headers name. Each message is compressed with it, or not at all.
    named: Compression,
    compression: Compression,
    compress_bytes_min: usize,
}

enum Side {
    /// The compression that the client accepts besides the identity, whether the call ends with the
    /// writer, and for what its messages count.
    Server { accepted: Compression, is_last: bool, usage: Arc<CallUse> },
    /// The call's deadline, and a timer once a message has waited.
    Client { deadline: Option<Instant>, timer: Option<Pin<Box<Sleep>>> },
}

impl FrameWriter {
    pub(crate) fn server(
        send_half: Arc<SendHalf>,
        compression: Compression,
        accepted: Compression,
        compress_bytes_min: usize,
        usage: Arc<CallUse>,
    ) -> Self {
        let side = Side::Server { accepted, is_last: true, usage };
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

    /// Sets how messages are compressed from now on, except short ones. If the peer does not accept
    /// `wanted`, or was not told before the first message, messages are not compressed. Returns the
    /// compression that is used.
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

    /// Sets whether messages are compressed from now on, except short ones. A client uses the
    /// compression that its head has named. A server uses the one that the client accepts, if its
    /// headers have named it or have not been sent yet.
    pub fn compress(&mut self, compress: bool) {
        let wanted = match (&self.side, compress) {
            (_, false) => Compression::Identity,
            (Side::Server { accepted, .. }, true) => *accepted,
            (Side::Client { .. }, true) => self.named,
        };
        self.set_compression(wanted);
    }

    /// At a server: sends the initial metadata, now. Only the first call counts, and only before
    /// the first message; without it there are none. A client's metadata were sent with the call's
    /// head.
    pub fn head(&mut self, metadata: Metadata) {
        self.send_half.head(&metadata);
    }

    /// Sends a message, after waiting until most of the previous one has left. Its buffer begins
    /// with [`HEAD_BYTES`] bytes of room. If the future is dropped while it waits, nothing has been
    /// sent.
    ///
    /// # Errors
    /// The call is over; the code says how. At a client, the reader knows the whole status. Earlier
    /// messages may or may not have been handled.
    ///
    /// # Panics
    /// If the buffer has no such room.
    pub async fn send(&mut self, message: MsgBuf) -> Result<(), Status> {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await?;
        self.send_now(message)
    }

    /// Sends a message without waiting, once [`FrameWriter::poll_ready`] has been ready.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    ///
    /// # Panics
    /// If the buffer has no such room.
    pub fn send_now(&mut self, message: MsgBuf) -> Result<(), Status> {
        self.check_room(message.len())?;
        let payload = self.payload(message);
        self.send_half.send(payload)
    }

    /// At a server: ends the call if its client has read too little of what it was sent.
    fn check_room(&self, bytes: usize) -> Result<(), Status> {
        if bytes < LONG_BYTES_MIN || self.usage().is_none_or(|call| call.has_room(bytes)) {
            return Ok(());
        }
        let status = Status::resource_exhausted("the client reads too little of its responses");
        // The handler has run: who retries calls by their codes must not run it again.
        let mut no_retry = Metadata::new();
        no_retry.append(RETRY_PUSHBACK, "-1").expect("it is a key");
        self.send_half.end(&status, &no_retry);
        Err(status)
    }

    /// Sends bytes that consist of uncompressed messages with their prefixes, once
    /// [`FrameWriter::poll_ready`] has been ready. They may be cut anywhere. They are not copied.
    ///
    /// # Errors
    /// As [`FrameWriter::send`].
    pub fn send_frames_now(&mut self, frames: Bytes) -> Result<(), Status> {
        self.check_room(frames.len())?;
        let payload = Payload::frames(frames).counted_for(self.usage());
        self.send_half.send(payload)
    }

    fn payload(&self, message: MsgBuf) -> Payload {
        let is_short = message.len() < HEAD_BYTES + self.compress_bytes_min;
        let compression = if is_short { Compression::Identity } else { self.compression };
        Payload::message(message, compression).counted_for(self.usage())
    }

    fn usage(&self) -> Option<&Arc<CallUse>> {
        match &self.side {
            Side::Server { usage, .. } => Some(usage),
            Side::Client { .. } => None,
        }
    }

    /// Waits until most of the previous messages have left.
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
            Err(Status::deadline_exceeded("the server accepted no more data before the deadline"))
        })
    }

    /// At a server: ends the call with a status, and with `trailers` besides the status's own
    /// metadata. At a client it is the same as [`FrameWriter::close`].
    pub fn end(self, status: Status, trailers: Metadata) {
        if matches!(self.side, Side::Server { .. }) {
            self.send_half.end(&status, &trailers);
        }
    }

    /// At a server: answers with one message and OK, in one step. It does not wait: bytes that the
    /// client does not read yet are buffered; if its calls have too many of them, the call ends
    /// with `RESOURCE_EXHAUSTED`.
    ///
    /// # Panics
    /// If the buffer has no room as [`FrameWriter::send`] needs it, and at a client.
    pub fn finish(self, metadata: &Metadata, message: MsgBuf, trailers: &Metadata) {
        assert!(matches!(self.side, Side::Server { .. }), "only a server's writer sends a status");
        if self.check_room(message.len()).is_err() {
            return;
        }
        let payload = self.payload(message);
        self.send_half.finish(metadata, payload, trailers);
    }

    /// At a client: sends the last message and closes the half, in one step and without waiting.
    ///
    /// # Panics
    /// If the buffer has no room as [`FrameWriter::send`] needs it, and at a server.
    pub fn close_with(self, message: MsgBuf) {
        assert!(matches!(self.side, Side::Client { .. }), "a server's writer ends with a status");
        let payload = self.payload(message);
        self.send_half.close(payload);
    }

    /// At a server: from now on the [`CallEnd`] ends the call, and not the writer.
    ///
    /// # Panics
    /// At a client.
    pub fn split(&mut self) -> CallEnd {
        let Side::Server { is_last, .. } = &mut self.side else {
            panic!("only a server's writer sends a status")
        };
        *is_last = false;
        CallEnd { send_half: self.send_half.clone() }
    }

    /// At a server: adds metadata that are sent with the status, besides those that are passed with
    /// it.
    pub fn keep_trailers(&mut self, trailers: Metadata) {
        self.send_half.keep_trailers(trailers);
    }

    /// At a client: cancels the call. Its reader fails, unless the call has ended.
    pub fn give_up(self) {
        self.send_half.reset(Reason::CANCEL, Code::Cancelled);
    }

    /// At a client: says that no more messages follow. At a server this ends the call with
    /// `INTERNAL`, because the status is missing.
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

/// Ends a call at its server, independently of the writer of its messages. If it is dropped before
/// the call has ended, the call ends with `INTERNAL`.
pub struct CallEnd {
    send_half: Arc<SendHalf>,
}

impl CallEnd {
    /// Ends the call with a status, its metadata, and the writer's.
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
