//! Streams over gRPC.

mod replay;

use core::future::Future;
use core::mem::replace;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::{Arc, OnceLock};

use petasos_call::{HEAD_BYTES, Metadata, Status};
use petasos_grpc::{Compression, FrameReader, FrameWriter};
use petasos_message::{Message, Msg};
use petasos_rpc::codec::{First, Incoming, decode_protobuf, unencodable};
use petasos_rpc::request::CallParts;
use petasos_rpc::settings::stream_policy_of;
use tokio::runtime::Handle;

use self::replay::{KeptBytes, Replay, Settled};
use super::{Ends, Sink, Source};
use crate::caller::ServiceClient;
use crate::grpc_channel::{Begun, GrpcChannel, Lease, Retrying};

/// A call that is being assigned to a server.
pub(crate) type GrpcOpening = Pin<Box<dyn Future<Output = Result<Ends, Status>> + Send>>;

/// Makes a future that starts the call when it is polled, on whichever thread.
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
    let of = (service.defaults().cloned(), method);
    let call = Retrying::new(channel, path, head.clone(), of, stream_policy_of);
    let runtime = channel.runtime().clone();
    if first.as_ref().is_some_and(|first| !KeptBytes::default().have_room(first.len())) {
        let begun = channel.clone().begin(path.clone(), head, first);
        return Ok(Box::pin(async move {
            let Begun { reader, lease, .. } = InRuntime(runtime, Box::pin(begun)).await?;
            let source = Source::Grpc(Box::new(GrpcSource::answered(reader, lease)));
            Ok(Ends::new(Sink::Grpc(GrpcSink::closed()), source))
        }));
    }
    Ok(Box::pin(async move {
        let mut progress = call.progress();
        let begun = InRuntime(runtime.clone(), Box::pin(call.begin(&mut progress))).await?;
        let replay = Replay::new(call, progress, begun, first);
        let refusal = Arc::default();
        let sink = Sink::Grpc(GrpcSink::of_call(replay.clone(), runtime, &refusal));
        Ok(Ends::new(sink, Source::Grpc(Box::new(GrpcSource::of_call(replay, refusal)))))
    }))
}

/// Polls a future within a runtime, so that its timers work.
struct InRuntime<F>(Handle, Pin<Box<F>>);

impl<F: Future> Future for InRuntime<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let InRuntime(runtime, future) = &mut *self;
        let _context = runtime.enter();
        future.as_mut().poll(cx)
    }
}

/// The status of a call that ended because a client could not send a message.
type Refusal = Arc<OnceLock<Status>>;

/// The receiving half.
pub(crate) struct GrpcSource {
    reader: Reader,
    /// At a client: the response has not begun.
    awaits_head: bool,
    refusal: Option<Refusal>,
}

#[expect(clippy::large_enum_variant, reason = "sources lie in boxes")]
enum Reader {
    /// At a client: the call may be retried.
    Tentative(Tentative),
    /// At a client, with the lease of its connection, as long as the call counts.
    Own(FrameReader, Option<Lease>),
    /// The call failed before there was anything to read.
    Over,
}

/// Cancels a call that may be retried, when dropped.
struct Tentative(Arc<Replay>);

impl Drop for Tentative {
    fn drop(&mut self) {
        self.0.give_up(Status::cancelled("the call was given up"));
    }
}

impl GrpcSource {
    pub(crate) fn of_handler(reader: FrameReader) -> GrpcSource {
        GrpcSource { reader: Reader::Own(reader, None), awaits_head: false, refusal: None }
    }

    fn of_call(replay: Arc<Replay>, refusal: Refusal) -> GrpcSource {
        let reader = Reader::Tentative(Tentative(replay));
        GrpcSource { reader, awaits_head: true, refusal: Some(refusal) }
    }

    /// At a client: the source of a call whose only message is too long to be kept.
    fn answered(reader: FrameReader, lease: Lease) -> GrpcSource {
        GrpcSource { reader: Reader::Own(reader, Some(lease)), awaits_head: true, refusal: None }
    }

    /// Polls for the next item; see [`Source::poll_next`](super::Source::poll_next).
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
        if let Reader::Tentative(Tentative(replay)) = &self.reader {
            ready!(replay.clone().poll_settled(cx)).map(|settled| self.settle(settled))??;
        }
        let Reader::Own(reader, lease) = &mut self.reader else {
            return Poll::Ready(Err(Status::internal("the stream was read after its end")));
        };
        if self.awaits_head {
            ready!(reader.poll_head(cx))?;
            self.awaits_head = false;
            return Poll::Ready(Ok(Incoming::Head(reader.take_head())));
        }
        let incoming = match ready!(reader.poll_next(cx))? {
            Some(message) => decode_protobuf(message).map(Incoming::Message),
            None => {
                lease.iter().for_each(Lease::credit);
                Ok(Incoming::End(reader.trailers()))
            }
        };
        // A message that cannot be decoded ends the call. At a client, this also cancels it at the
        // server.
        Poll::Ready(incoming.inspect_err(|_| reader.cancel()))
    }

    /// Takes the reader of a call that is settled, and will not be retried any more.
    fn settle(
        &mut self,
        Settled { answer: (reader, lease), failure }: Settled,
    ) -> Result<(), Status> {
        self.reader = Reader::Own(reader, Some(lease));
        failure.map_or(Ok(()), Err)
    }

    /// Whether the latest message was compressed.
    pub(crate) fn was_compressed(&self) -> bool {
        match &self.reader {
            Reader::Own(reader, _) => reader.compression() != Compression::Identity,
            _ => false,
        }
    }

    /// At a client: cancels the call.
    pub(crate) fn give_up(&mut self) {
        match &mut self.reader {
            Reader::Own(reader, _) => reader.cancel(),
            Reader::Tentative(_) => self.reader = Reader::Over,
            Reader::Over => {}
        }
    }
}

/// The sending half.
pub(crate) struct GrpcSink {
    writer: Writer,
    /// At a client: the runtime for the timer of the deadline.
    runtime: Option<Handle>,
    refusal: Option<Refusal>,
}

enum Writer {
    /// At a client: the call may be retried.
    Tentative(Arc<Replay>),
    Own(FrameWriter),
    /// The sender was dropped.
    Closed,
}

impl GrpcSink {
    pub(crate) fn of_handler(writer: FrameWriter) -> GrpcSink {
        GrpcSink { writer: Writer::Own(writer), runtime: None, refusal: None }
    }

    fn of_call(replay: Arc<Replay>, runtime: Handle, refusal: &Refusal) -> GrpcSink {
        let (writer, refusal) = (Writer::Tentative(replay), Some(refusal.clone()));
        GrpcSink { writer, runtime: Some(runtime), refusal }
    }

    /// At a client: a sink for a call whose messages are all sent.
    fn closed() -> GrpcSink {
        GrpcSink { writer: Writer::Closed, runtime: None, refusal: None }
    }

    /// At a client: ends the call with `status`.
    pub(crate) fn refuse(&mut self, status: &Status) {
        let Some(refusal) = &self.refusal else { return };
        let writer = replace(&mut self.writer, Writer::Closed);
        if !matches!(writer, Writer::Closed) {
            // Only the first refusal counts.
            let _ = refusal.set(status.clone());
        }
        match writer {
            Writer::Tentative(replay) => replay.refuse(status),
            Writer::Own(writer) => writer.give_up(),
            Writer::Closed => {}
        }
    }

    /// Waits until a message can be sent.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let _context = self.runtime.as_ref().map(Handle::enter);
        if let Writer::Tentative(replay) = &self.writer {
            match ready!(replay.poll_room(cx))? {
                None => return Poll::Ready(Ok(())),
                Some(writer) => self.writer = Writer::Own(writer),
            }
        }
        match &mut self.writer {
            Writer::Own(writer) => writer.poll_ready(cx),
            _ => Poll::Ready(Err(self.refused())),
        }
    }

    /// Sends a message, after [`GrpcSink::poll_room`] has returned ready.
    pub(crate) fn send<T: Message>(&mut self, message: Msg<T>) -> Result<(), Status> {
        if matches!(self.writer, Writer::Closed) {
            return Err(self.refused());
        }
        let image = Msg::to_protobuf(&message, HEAD_BYTES).map_err(unencodable)?.into_buf();
        match &mut self.writer {
            Writer::Own(writer) => writer.send_now(image),
            Writer::Tentative(replay) => replay.send(image),
            Writer::Closed => unreachable!("it was just looked at"),
        }
    }

    /// Sets whether messages are compressed from now on.
    pub(crate) fn compress(&mut self, compress: bool) {
        match &mut self.writer {
            Writer::Own(writer) => writer.compress(compress),
            Writer::Tentative(replay) => replay.compress(compress),
            Writer::Closed => {}
        }
    }

    /// At a server: sends the initial metadata.
    pub(crate) fn head(&mut self, metadata: Metadata) {
        if let Writer::Own(writer) = &mut self.writer {
            writer.head(metadata);
        }
    }

    /// Handles the drop of the sender.
    pub(crate) fn finish(&mut self, trailers: Metadata) {
        match replace(&mut self.writer, Writer::Closed) {
            Writer::Own(mut writer) => writer.keep_trailers(trailers),
            Writer::Tentative(replay) => replay.close(),
            Writer::Closed => {}
        }
    }

    #[cold]
    fn refused(&self) -> Status {
        let refusal = self.refusal.as_ref().and_then(|refusal| refusal.get());
        let otherwise = || Status::internal("nothing can be sent behind the end");
        refusal.cloned().unwrap_or_else(otherwise)
    }
}
