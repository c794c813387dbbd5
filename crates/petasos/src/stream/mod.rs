//! Streams of messages in the public API, over any transport.
//!
//! At both ends, [`Streaming`] receives and [`Sender`] sends. A client gets them from an
//! [`Opening`]. If there is one response, it gets an [`Upload`] instead, which combines both. A
//! server's handler gets them as arguments. All are `Send`.
//!
//! The transports are behind two closed enums, which are matched once per message: [`Source`]
//! receives and [`Sink`] sends. The rest of this module is the same for all transports.
//!
//! Access: programs see the four types above. A transport only makes [`Ends`]. When a `Sender` is
//! dropped, its sink is finished: a client's sink closes its half of the call. A server's sink
//! keeps the trailers for the end of the call, which follows when the handler is done.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
mod opening;
mod sender;
mod streaming;
mod upload;

use core::task::{Context, Poll};

use petasos_call::{Metadata, Status};
use petasos_message::{Message, Msg};
use petasos_rpc::codec::Incoming;
use petasos_rpc::intercept::Watched;
use petasos_rpc::limits::Limits;

pub use opening::Opening;
use petasos_runtime::stream_handle::StreamHandle;
pub use sender::Sender;
pub use streaming::Streaming;
pub use upload::Upload;

/// The transport of received messages.
pub(crate) enum Source {
    /// A stream over requests (R14).
    Datagrams(StreamHandle),
    /// An HTTP/2 stream.
    #[cfg(feature = "grpc")]
    Grpc(Box<grpc::GrpcSource>),
}

/// The transport of sent messages.
pub(crate) enum Sink {
    /// A stream over requests (R14).
    Datagrams(StreamHandle),
    /// An HTTP/2 stream.
    #[cfg(feature = "grpc")]
    Grpc(grpc::GrpcSink),
}

/// Both directions of a call.
pub(crate) struct Ends {
    pub(crate) sink: Sink,
    pub(crate) source: Source,
    /// The interceptors around the call.
    pub(crate) watched: Option<Watched>,
    /// Limits for a client's messages.
    limits: Limits,
}

impl Ends {
    pub(crate) fn new(sink: Sink, source: Source) -> Ends {
        Ends { sink, source, watched: None, limits: Limits::default() }
    }

    /// Splits them into the types that programs see.
    fn split<Q: Message, P: Message>(self) -> (Sender<Q>, Streaming<P>) {
        let (mut sender, mut streaming) = (Sender::new(self.sink), Streaming::of_call(self.source));
        sender.limit(self.limits.request);
        streaming.limit(self.limits.response);
        if let Some(Watched { scope, reader, writer }) = self.watched {
            streaming.end_to(scope);
            streaming.tap(reader);
            sender.tap(writer);
        }
        (sender, streaming)
    }
}

impl Source {
    /// Polls for the next item. An error is also the end: at a client it is the call's status, with
    /// the trailing metadata in it. Do not poll after the end.
    pub(crate) fn poll_next<T: Message>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Incoming<T>, Status>> {
        match self {
            Source::Datagrams(port) => port.poll_next(cx),
            #[cfg(feature = "grpc")]
            Source::Grpc(source) => source.poll_next(cx),
        }
    }

    /// Whether the latest message was compressed.
    pub(crate) fn was_compressed(&self) -> bool {
        match self {
            Source::Datagrams(port) => port.was_compressed(),
            #[cfg(feature = "grpc")]
            Source::Grpc(source) => source.was_compressed(),
        }
    }

    /// At a client: cancels the call. Its end is not polled any more.
    pub(crate) fn give_up(&mut self) {
        match self {
            Source::Datagrams(port) => port.give_up(),
            #[cfg(feature = "grpc")]
            Source::Grpc(source) => source.give_up(),
        }
    }
}

impl Sink {
    /// Waits until a message can be sent.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self {
            Sink::Datagrams(port) => port.poll_room(cx),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.poll_room(cx),
        }
    }

    /// Sends a message, after [`Sink::poll_room`] has returned ready.
    pub(crate) fn send<T: Message>(&mut self, message: Msg<T>) -> Result<(), Status> {
        match self {
            Sink::Datagrams(port) => port.send(message),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.send(message),
        }
    }

    /// At a client: ends the call with `status`, which the receiving half reports.
    #[cold]
    pub(crate) fn refuse(&mut self, status: &Status) {
        match self {
            Sink::Datagrams(port) => port.refuse(status),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.refuse(status),
        }
    }

    /// Sets whether messages are compressed from now on, if the receiver supports it.
    pub(crate) fn compress(&mut self, compress: bool) {
        match self {
            Sink::Datagrams(port) => port.compress(compress),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.compress(compress),
        }
    }

    /// At a server: sends the initial metadata. At most once, before messages.
    pub(crate) fn head(&mut self, metadata: Metadata) {
        match self {
            Sink::Datagrams(port) => port.head(metadata),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.head(metadata),
        }
    }

    /// Handles the drop of the sender. A client closes its half of the call. A server keeps
    /// `trailers` for the end of the call.
    pub(crate) fn finish(&mut self, trailers: Metadata) {
        match self {
            Sink::Datagrams(port) => port.finish(trailers),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.finish(trailers),
        }
    }
}
