//! Streams of messages as programs see them, over any transport.
//!
//! [`Streaming`] receives and [`Sender`] sends, at both ends. A client gets them from an
//! [`Opening`], or both in one as an [`Upload`] if there is one response; a server's handler is
//! given them. All are `Send`.
//!
//! What a transport does is behind two closed enums, matched once per message: [`Source`] receives
//! and [`Sink`] sends. All else here is the same for each.
//!
//! Who may touch what: programs see the four types above; a transport makes [`Ends`] and nothing
//! else of them. A sink ends when its `Sender` is dropped: a client's closes its half of the call,
//! a server's leaves what goes with the end, which itself comes when the handler is done.

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

/// Where messages come from.
pub(crate) enum Source {
    /// A stream of requests (R14).
    Datagrams(StreamHandle),
    /// A stream of HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(Box<grpc::GrpcSource>),
}

/// Where messages go.
pub(crate) enum Sink {
    /// A stream of requests (R14).
    Datagrams(StreamHandle),
    /// A stream of HTTP/2.
    #[cfg(feature = "grpc")]
    Grpc(grpc::GrpcSink),
}

/// Both directions of a call.
pub(crate) struct Ends {
    pub(crate) sink: Sink,
    pub(crate) source: Source,
    /// Interceptors around the call.
    pub(crate) watched: Option<Watched>,
    /// Of a client's messages.
    limits: Limits,
}

impl Ends {
    pub(crate) fn new(sink: Sink, source: Source) -> Ends {
        Ends { sink, source, watched: None, limits: Limits::default() }
    }

    /// As a program sees them.
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
    /// What comes next. An error is the end, too: at a client the call's status with the trailing
    /// metadata in it. Nothing is asked behind the end.
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

    /// Whether the latest message came compressed.
    pub(crate) fn was_compressed(&self) -> bool {
        match self {
            Source::Datagrams(port) => port.was_compressed(),
            #[cfg(feature = "grpc")]
            Source::Grpc(source) => source.was_compressed(),
        }
    }

    /// A client's: gives the call up, whose end is not asked for any more.
    pub(crate) fn give_up(&mut self) {
        match self {
            Source::Datagrams(port) => port.give_up(),
            #[cfg(feature = "grpc")]
            Source::Grpc(source) => source.give_up(),
        }
    }
}

impl Sink {
    /// Waits until a message may be sent.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self {
            Sink::Datagrams(port) => port.poll_room(cx),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.poll_room(cx),
        }
    }

    /// Sends a message, for which there was room.
    pub(crate) fn send<T: Message>(&mut self, message: Msg<T>) -> Result<(), Status> {
        match self {
            Sink::Datagrams(port) => port.send(message),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.send(message),
        }
    }

    /// A client's: ends the call with `status`, which its other direction is told.
    #[cold]
    pub(crate) fn refuse(&mut self, status: &Status) {
        match self {
            Sink::Datagrams(port) => port.refuse(status),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.refuse(status),
        }
    }

    /// Whether messages are compressed from now on, if the receiver takes that.
    pub(crate) fn compress(&mut self, compress: bool) {
        match self {
            Sink::Datagrams(port) => port.compress(compress),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.compress(compress),
        }
    }

    /// A server's: sends the initial metadata. At most once, before messages.
    pub(crate) fn head(&mut self, metadata: Metadata) {
        match self {
            Sink::Datagrams(port) => port.head(metadata),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.head(metadata),
        }
    }

    /// The sender is gone. A client closes its half of the call; a server keeps `trailers` for the
    /// end.
    pub(crate) fn finish(&mut self, trailers: Metadata) {
        match self {
            Sink::Datagrams(port) => port.finish(trailers),
            #[cfg(feature = "grpc")]
            Sink::Grpc(sink) => sink.finish(trailers),
        }
    }
}
