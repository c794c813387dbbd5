//! Receives a call's messages, and a client's status.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Response, StatusCode};
use petasos_call::{Code, Metadata, Retry, Status};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

use crate::compress::Compression;
use crate::deframe::{Deframer, FrameError, Framed, Packed};
use crate::failure;
use crate::headers::{self, Content};
use crate::places::Share;
use crate::send_half::SendHalf;
use crate::unpacking::Unpacking;
use crate::usage::CallUse;

/// Receives a call's messages.
///
/// If a client's reader is dropped before the call has ended, the call is cancelled.
pub struct FrameReader {
    source: Source,
    deframer: Deframer,
    /// A message that another thread is decompressing.
    unpacking: Option<Unpacking>,
    /// The peer's share of the decompression threads.
    share: Share,
    head: Metadata,
    trailers: Metadata,
    client: Option<Client>,
}

enum Source {
    /// At a client: the response has not begun.
    Response(ResponseFuture),
    Body(RecvStream),
    Over(Result<(), Status>),
}

/// The part that only a client's reader has.
struct Client {
    send_half: Arc<SendHalf>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// The runtime of its connection.
    runtime: Option<Handle>,
    /// The status in the response's headers, if there is one. It counts if nothing follows the
    /// headers.
    early: Option<Status>,
    /// After a failure of the connection: whether the request may be sent again.
    below: Option<Retry>,
    /// Makes the connection count the call.
    _running: Arc<()>,
}

impl FrameReader {
    pub(crate) fn server(
        body: RecvStream,
        compression: Compression,
        bytes_max: usize,
        share: Share,
        usage: Arc<CallUse>,
    ) -> Self {
        let deframer = Deframer::new(compression, bytes_max).counted_for(usage);
        let (head, trailers) = (Metadata::new(), Metadata::new());
        let (source, unpacking) = (Source::Body(body), None);
        FrameReader { source, deframer, unpacking, share, head, trailers, client: None }
    }

    pub(crate) fn client(
        response: ResponseFuture,
        send_half: Arc<SendHalf>,
        deadline: Option<Instant>,
        bytes_max: usize,
        (running, share): (Arc<()>, Share),
    ) -> Self {
        let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at)));
        let (early, below) = (None, None);
        // The thread that polls the reader may have no runtime.
        let runtime = Handle::try_current().ok();
        let client = Client { send_half, deadline, runtime, early, below, _running: running };
        FrameReader {
            source: Source::Response(response),
            deframer: Deframer::new(Compression::Identity, bytes_max),
            unpacking: None,
            share,
            head: Metadata::new(),
            trailers: Metadata::new(),
            client: Some(client),
        }
    }

    /// The next message, decompressed; `None` after the last. At a client, `None` means that the
    /// call has succeeded. If the future is dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// At a client: the call's status, with its trailing metadata, or a failure of the connection,
    /// of the server (a protocol violation), or of the deadline. At a server: the client has given
    /// the call up or violates the protocol, or a message is too long; the handler can return this
    /// status. Further calls return the same error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The only message of a side that does not stream.
    ///
    /// # Errors
    /// As [`FrameReader::next`]; `UNIMPLEMENTED` if the peer sends no message, or a second one.
    pub async fn single(&mut self) -> Result<Bytes, Status> {
        let message = self.next().await?;
        let message = message.ok_or_else(|| Status::unimplemented("there is no message"))?;
        match self.next().await? {
            None => Ok(message),
            Some(_) => Err(self.fail(Status::unimplemented("there is more than one message"))),
        }
    }

    /// At a client: waits for the response to begin, and returns the initial metadata. They are
    /// empty if the response is only a status. (At a server, the metadata come with the call.)
    ///
    /// # Errors
    /// As [`FrameReader::next`], if the response does not begin.
    pub async fn head(&mut self) -> Result<&Metadata, Status> {
        std::future::poll_fn(|cx| self.poll_head(cx)).await?;
        Ok(&self.head)
    }

    /// How the latest message was compressed.
    pub fn compression(&self) -> Compression {
        self.deframer.compression()
    }

    /// At a client: takes the initial metadata, once [`FrameReader::poll_head`] has been ready.
    pub fn take_head(&mut self) -> Metadata {
        std::mem::take(&mut self.head)
    }

    /// At a client: takes the trailing metadata, once [`FrameReader::next`] has returned `None` or
    /// an error.
    pub fn trailers(&mut self) -> Metadata {
        std::mem::take(&mut self.trailers)
    }

    /// At a client, once the call is over and the server has not answered: whether the call may be
    /// sent again. A request that was refused, or that arrived after the server had said that it
    /// takes no more, has certainly not run.
    pub fn failed_below(&self) -> Option<Retry> {
        self.client.as_ref().and_then(|client| client.below)
    }

    /// At a client: cancels the call. After this, [`FrameReader::next`] returns `CANCELLED`, unless
    /// the call has ended.
    pub fn cancel(&mut self) {
        if self.client.is_some() && !matches!(self.source, Source::Over(_)) {
            self.finish(Err(Status::cancelled("the call was given up")));
        }
    }

    /// Poll version of [`FrameReader::next`].
    ///
    /// # Errors
    /// As [`FrameReader::next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        ready!(self.poll_head(cx))?;
        // A response may consist of a status only.
        if let Source::Over(outcome) = &self.source {
            return Poll::Ready(outcome.clone().map(|()| None));
        }
        if let Err(status) = self.check_deadline(cx) {
            return Poll::Ready(Err(status));
        }
        loop {
            match ready!(self.poll_message(cx)) {
                Ok(None) => {}
                Ok(message) => return Poll::Ready(Ok(message)),
                Err(error) => return Poll::Ready(Err(self.fail(error.into()))),
            }
            match ready!(self.poll_chunk(cx)) {
                Ok(true) => {}
                Ok(false) => return self.poll_end(cx).map_ok(|()| None),
                Err(status) => return Poll::Ready(Err(status)),
            }
        }
    }

    /// The next message in the bytes that have arrived.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FrameError>> {
        if self.unpacking.is_none() {
            match self.deframer.next() {
                Ok(Some(Framed::Packed(packed))) => match self.leave(packed) {
                    Ok(()) => {}
                    Err(packed) => return Poll::Ready(packed.unpack().map(Some)),
                },
                Ok(Some(Framed::Plain(message))) => return Poll::Ready(Ok(Some(message))),
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let unpacking = self.unpacking.as_mut().expect("a message is being decompressed");
        let unpacked = ready!(unpacking.poll(cx));
        self.unpacking = None;
        Poll::Ready(unpacked.map(Some))
    }

    /// Starts to decompress a message on another thread, since other calls use this one. Returns it
    /// if there is no runtime: then no other call uses this thread.
    #[cold]
    fn leave(&mut self, packed: Packed) -> Result<(), Packed> {
        let runtime = match &self.client {
            Some(client) => client.runtime.clone(),
            None => Handle::try_current().ok(),
        };
        let Some(runtime) = runtime else { return Err(packed) };
        self.unpacking = Some(Unpacking::start(&runtime, &self.share, packed));
        Ok(())
    }

    /// Poll version of [`FrameReader::head`].
    ///
    /// # Errors
    /// As [`FrameReader::head`].
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Source::Response(response) = &mut self.source else { return Poll::Ready(Ok(())) };
        match Pin::new(response).poll(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(self.begin(response)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.fail_below(&error))),
            Poll::Pending => match self.check_deadline(cx) {
                Ok(()) => Poll::Pending,
                Err(status) => Poll::Ready(Err(status)),
            },
        }
    }

    /// Checks a response's headers.
    fn begin(&mut self, response: Response<RecvStream>) -> Result<(), Status> {
        let (parts, body) = response.into_parts();
        let status = headers::status(&parts.headers);
        if body.is_end_stream() {
            return self.end(status.unwrap_or_else(|| failure::from_http(parts.status)));
        }
        match headers::content(&parts.headers) {
            _ if parts.status != StatusCode::OK => {
                return Err(self.fail(failure::from_http(parts.status)));
            }
            Content::Other => return Err(self.fail(failure::from_http(parts.status))),
            Content::OtherCodec => {
                return Err(self.fail(Status::internal("the response is not protobuf")));
            }
            Content::Grpc => {}
        }
        match compression(&parts.headers) {
            Some(compression) => self.deframer.set_compression(compression),
            None => {
                let text = "the response is compressed in a way that was not offered";
                return Err(self.fail(Status::internal(text)));
            }
        }
        self.head = headers::metadata(&parts.headers);
        let client = self.client.as_mut().expect("only a client's reader waits for a response");
        client.early = status;
        self.source = Source::Body(body);
        Ok(())
    }

    /// Takes bytes that have arrived, and lets the peer send as many more; false at the end of the
    /// stream.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Status>> {
        let Source::Body(body) = &mut self.source else {
            unreachable!("the response has begun and is not over")
        };
        let chunk = match ready!(body.poll_data(cx)) {
            None => return Poll::Ready(Ok(false)),
            Some(Err(error)) => return Poll::Ready(Err(self.fail_below(&error))),
            Some(Ok(chunk)) => chunk,
        };
        // Fails if the stream is over; the next poll notices that.
        let _ = body.flow_control().release_capacity(chunk.len());
        if let Some(client) = &mut self.client
            && !chunk.is_empty()
        {
            client.early = None;
        }
        self.deframer.push(chunk);
        Poll::Ready(Ok(true))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Source::Body(body) = &mut self.source else {
            unreachable!("the response has begun and is not over")
        };
        let trailers = match ready!(body.poll_trailers(cx)) {
            Ok(trailers) => trailers,
            Err(error) => return Poll::Ready(Err(self.fail_below(&error))),
        };
        if let Err(error) = self.deframer.finish() {
            return Poll::Ready(Err(self.fail(error.into())));
        }
        let Some(client) = &mut self.client else {
            self.source = Source::Over(Ok(()));
            return Poll::Ready(Ok(()));
        };
        let status = trailers.as_ref().and_then(headers::status);
        let status = status.or_else(|| client.early.take().filter(|_| trailers.is_none()));
        let missing = || Status::unknown("the response ended without a status");
        Poll::Ready(self.end(status.unwrap_or_else(missing)))
    }

    /// Ends the call with a status.
    fn end(&mut self, status: Status) -> Result<(), Status> {
        self.trailers = status.metadata().clone();
        let outcome = if status.code() == Code::Ok { Ok(()) } else { Err(status) };
        self.finish(outcome.clone());
        outcome
    }

    /// Ends the call after a failure of HTTP/2. A server that enforces deadlines may end a call
    /// before this end does.
    fn fail_below(&mut self, error: &h2::Error) -> Status {
        let deadline = self.client.as_ref().and_then(|client| client.deadline.as_ref());
        let is_late = deadline.is_some_and(|timer| timer.deadline() <= Instant::now());
        let status = match is_late {
            true => Status::deadline_exceeded("the deadline has passed"),
            false => failure::from_h2(error),
        };
        if let Some(client) = &mut self.client {
            client.below = Some(failure::retry(error));
        }
        self.fail(status)
    }

    fn fail(&mut self, status: Status) -> Status {
        self.finish(Err(status.clone()));
        status
    }

    fn check_deadline(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let deadline = self.client.as_mut().and_then(|client| client.deadline.as_mut());
        match deadline.map(|timer| timer.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => {
                Err(self.fail(Status::deadline_exceeded("the deadline has passed")))
            }
            _ => Ok(()),
        }
    }

    /// Stops reading. A client's stream that is still open in a direction is reset.
    fn finish(&mut self, outcome: Result<(), Status>) {
        let code = outcome.as_ref().err().map_or(Code::Cancelled, Status::code);
        self.source = Source::Over(outcome);
        if let Some(client) = &self.client {
            client.send_half.reset(Reason::CANCEL, code);
        }
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            client.send_half.reset(Reason::CANCEL, Code::Cancelled);
        }
    }
}

/// The compression that headers name; `None` if it is unknown.
pub(crate) fn compression(headers: &HeaderMap) -> Option<Compression> {
    match headers.get(headers::ENCODING) {
        None => Some(Compression::Identity),
        Some(name) => Compression::from_name(name.as_bytes()),
    }
}
