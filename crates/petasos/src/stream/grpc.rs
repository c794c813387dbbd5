//! Streams over gRPC.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, OnceLock};

use petasos_call::{HEAD_BYTES, Metadata, Status};
use petasos_grpc::{Compression, FrameReader, FrameWriter};
use petasos_message::{Message, Msg};
use petasos_rpc::codec::{First, Incoming, decode_protobuf, unencodable};
use petasos_rpc::request::CallParts;
use tokio::runtime::Handle;

use super::{Ends, Sink, Source};
use crate::caller::ServiceClient;
use crate::grpc_channel::{Begun, GrpcChannel, Lease};

/// A call on its way to a server.
pub(crate) type GrpcOpening = Pin<Box<dyn Future<Output = Result<Ends, Status>> + Send>>;

/// Begins a call when what this gives is polled, by whoever does.
pub(crate) fn open(
    channel: &GrpcChannel,
    service: &ServiceClient,
    method: u16,
    head: CallParts,
    first: Option<First>,
) -> Result<GrpcOpening, Status> {
    let (path, head) = service.grpc_call(method, head)?;
    let first = first.map(|encode| encode(false, HEAD_BYTES)).transpose()?;
    let first = first.map(|encoded| encoded.buf);
    let runtime = channel.runtime().clone();
    let begun = channel.clone().begin(path.clone(), head, first);
    let opening = async move {
        let Begun { reader, writer, lease } = InRuntime(runtime.clone(), Box::pin(begun)).await?;
        let refusal = Arc::default();
        let sink = Sink::Grpc(GrpcSink::of_call(writer, runtime, &refusal));
        let source = Source::Grpc(Box::new(GrpcSource::of_call(reader, lease, refusal)));
        Ok(Ends::new(sink, source))
    };
    Ok(Box::pin(opening))
}

/// Polls a future as a task of a runtime would, for its timers.
struct InRuntime<F>(Handle, Pin<Box<F>>);

impl<F: Future> Future for InRuntime<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let InRuntime(runtime, future) = &mut *self;
        let _context = runtime.enter();
        future.as_mut().poll(cx)
    }
}

/// What a message was refused with that a client wanted to send: the call's status.
type Refusal = Arc<OnceLock<Status>>;

/// Receives.
pub(crate) struct GrpcSource {
    reader: FrameReader,
    /// A client's whose response has not begun.
    awaits_head: bool,
    refusal: Option<Refusal>,
    /// A client's, for as long as the call counts.
    _lease: Option<Lease>,
}

impl GrpcSource {
    pub(crate) fn of_handler(reader: FrameReader) -> GrpcSource {
        GrpcSource { reader, awaits_head: false, refusal: None, _lease: None }
    }

    fn of_call(reader: FrameReader, lease: Lease, refusal: Refusal) -> GrpcSource {
        let (refusal, _lease) = (Some(refusal), Some(lease));
        GrpcSource { reader, awaits_head: true, refusal, _lease }
    }

    /// What comes next; see [`Source::poll_next`](super::Source::poll_next).
    pub(crate) fn poll_next<T: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        let next = self.poll_incoming(cx);
        let Poll::Ready(Err(_)) = &next else { return next };
        let refusal = self.refusal.as_ref().and_then(|refusal| refusal.get());
        refusal.map_or(next, |refusal| Poll::Ready(Err(refusal.clone())))
    }

    fn poll_incoming<T: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        if self.awaits_head {
            ready!(self.reader.poll_head(cx))?;
            self.awaits_head = false;
            return Poll::Ready(Ok(Incoming::Head(self.reader.take_head())));
        }
        let incoming = match ready!(self.reader.poll_next(cx))? {
            Some(message) => decode_protobuf(message).map(Incoming::Message),
            None => Ok(Incoming::End(self.reader.trailers())),
        };
        // What cannot be read ends the call, for a client's server as well.
        Poll::Ready(incoming.inspect_err(|_| self.reader.cancel()))
    }

    /// Whether the latest message came compressed.
    pub(crate) fn was_compressed(&self) -> bool {
        self.reader.compression() != Compression::Identity
    }

    /// A client's: gives the call up.
    pub(crate) fn give_up(&mut self) {
        self.reader.cancel();
    }
}

/// Sends.
pub(crate) struct GrpcSink {
    /// Until the sender is gone.
    writer: Option<FrameWriter>,
    /// A client's, whose deadline is a timer there.
    runtime: Option<Handle>,
    refusal: Option<Refusal>,
}

impl GrpcSink {
    pub(crate) fn of_handler(writer: FrameWriter) -> GrpcSink {
        GrpcSink { writer: Some(writer), runtime: None, refusal: None }
    }

    fn of_call(writer: Option<FrameWriter>, runtime: Handle, refusal: &Refusal) -> GrpcSink {
        GrpcSink { writer, runtime: Some(runtime), refusal: Some(refusal.clone()) }
    }

    /// A client's: ends the call with `status`.
    pub(crate) fn refuse(&mut self, status: &Status) {
        let (Some(writer), Some(refusal)) = (self.writer.take(), &self.refusal) else { return };
        // Only the first counts.
        let _ = refusal.set(status.clone());
        writer.give_up();
    }

    /// Waits until a message may be sent.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let _context = self.runtime.as_ref().map(Handle::enter);
        match &mut self.writer {
            Some(writer) => writer.poll_ready(cx),
            None => Poll::Ready(Err(self.closed())),
        }
    }

    /// Sends a message, for which there was room.
    pub(crate) fn send<T: Message>(&mut self, message: Msg<T>) -> Result<(), Status> {
        let Some(writer) = &mut self.writer else { return Err(self.closed()) };
        let image = Msg::to_protobuf(&message, HEAD_BYTES).map_err(unencodable)?;
        writer.send_now(image.into_buf())
    }

    /// Whether messages are compressed from now on.
    pub(crate) fn compress(&mut self, compress: bool) {
        if let Some(writer) = &mut self.writer {
            writer.compress(compress);
        }
    }

    /// A server's: sends the initial metadata.
    pub(crate) fn head(&mut self, metadata: Metadata) {
        if let Some(writer) = &mut self.writer {
            writer.head(metadata);
        }
    }

    /// The sender is gone.
    pub(crate) fn finish(&mut self, trailers: Metadata) {
        if let Some(mut writer) = self.writer.take() {
            writer.keep_trailers(trailers);
        }
    }

    #[cold]
    fn closed(&self) -> Status {
        let refusal = self.refusal.as_ref().and_then(|refusal| refusal.get());
        let otherwise = || Status::internal("nothing can be sent behind the end");
        refusal.cloned().unwrap_or_else(otherwise)
    }
}
