//! Messages with what travels beside them.

mod parts;
mod tail;

use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use petasos_call::{Codec, Metadata, MetadataError, TAIL_BYTES_MAX, TraceContext};
use petasos_message::{Message, Msg};

use crate::cancelled::Cancelled;
use crate::compression::{CameCompressed, ChosenCodec};
use crate::extensions::Extensions;
use crate::origin::Origin;
use crate::peer::Peer;
pub use parts::{CallParts, More, RequestParts, ResponseParts};
pub use tail::{all_in_status, request_tail, tail_of, with_trace};
#[cfg(feature = "grpc")]
pub use tail::{read_traceparent, with_traceparent};

/// The longest tail that is taken, in bytes (R9).
pub const TAIL_BYTES_LIMIT: usize = TAIL_BYTES_MAX;

/// A request, as the caller makes it and the handler gets it. Reads as its message.
pub struct Request<T> {
    message: Msg<T>,
    metadata: Metadata,
    timeout: Option<Duration>,
    extensions: Extensions,
    origin: Origin,
}

impl<T: Message> Request<T> {
    /// A request with nothing beside its message.
    #[inline(always)]
    pub fn new(message: impl Into<Msg<T>>) -> Request<T> {
        let (metadata, extensions) = (Metadata::new(), Extensions::new());
        let origin = Origin::Here;
        Request { message: message.into(), metadata, timeout: None, extensions, origin }
    }

    /// Lets the call take no longer than `timeout`, in place of what is left of the call in whose
    /// handler it is made (R10).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Request<T> {
        self.timeout = Some(timeout);
        self
    }

    /// Adds an entry to the metadata.
    ///
    /// # Errors
    /// If key or value may not be; see [`MetadataError`].
    pub fn with_metadata(mut self, key: &str, value: &str) -> Result<Request<T>, MetadataError> {
        self.metadata.append(key, value)?;
        Ok(self)
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The caller's timeout; at the server, what was left of it when the request arrived.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// At a server: who called. `None` once the caller's session is gone.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// At a server: tells when nobody waits for the answer any more, and may go to any thread. A
    /// handler in its loop asks for it before it gives the request away: elsewhere, what this
    /// gives tells of nothing but the deadline, and that only if it is asked: awaited, it does not
    /// end. At a client it tells of nothing.
    pub fn cancelled(&self) -> Cancelled {
        self.origin.cancelled()
    }

    /// At a server: whether nobody waits for the answer any more, since the caller has given the
    /// call up or is gone, or its deadline has passed. For handlers that compute or block, which
    /// are on workers: one in its loop keeps the loop from hearing of anything but the deadline.
    pub fn is_cancelled(&self) -> bool {
        self.origin.is_cancelled()
    }

    /// Where the call belongs in a distributed trace, if it does.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// Makes the call part of a distributed trace, such as that of the call in whose handler it is
    /// made: nothing is inherited by itself.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Request<T> {
        self.extensions.insert(trace);
        self
    }

    /// Compresses the request with this codec in place of the channel's, if it has a kilobyte or
    /// more and the server takes the codec, and lets the server do so with its response. Not at all
    /// with [`Codec::IDENTITY`]. gRPC knows [`Codec::GZIP`] only; another is the identity there.
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Request<T> {
        self.extensions.insert(ChosenCodec(codec));
        self
    }

    /// At a server: whether the request came compressed.
    pub fn was_compressed(&self) -> bool {
        self.extensions.get::<CameCompressed>().is_some()
    }

    /// What interceptors of this end have put beside the call, or the caller for them. Nothing of
    /// it is sent.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// What is put beside the call for this end's interceptors.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The message alone.
    pub fn into_message(self) -> Msg<T> {
        self.message
    }
}

impl<T: Message> Deref for Request<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T: Message> From<Msg<T>> for Request<T> {
    #[inline(always)]
    fn from(message: Msg<T>) -> Request<T> {
        Request::new(message)
    }
}

impl<T: Message> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Request");
        debug.field("message", &self.message).field("metadata", &self.metadata);
        debug.field("timeout", &self.timeout).finish()
    }
}

/// A response, as the handler makes it and the caller gets it. Reads as its message.
pub struct Response<T> {
    message: Msg<T>,
    /// One word: few responses have more than a message.
    more: Option<Box<More>>,
}

static NO_METADATA: Metadata = Metadata::new();

impl<T: Message> Response<T> {
    /// A response with nothing beside its message.
    #[inline]
    pub fn new(message: impl Into<Msg<T>>) -> Response<T> {
        Response { message: message.into(), more: None }
    }

    /// The initial metadata.
    pub fn metadata(&self) -> &Metadata {
        self.more.as_ref().map_or(&NO_METADATA, |more| &more.metadata)
    }

    /// The initial metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.more.get_or_insert_default().metadata
    }

    /// The trailing metadata.
    pub fn trailers(&self) -> &Metadata {
        self.more.as_ref().map_or(&NO_METADATA, |more| &more.trailers)
    }

    /// The trailing metadata, to be changed.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        &mut self.more.get_or_insert_default().trailers
    }

    /// Says whether the response is compressed, at the server. With `true` it is, if it has a
    /// kilobyte or more and the caller takes that; with `false` it is not. Otherwise it is
    /// compressed as the caller asks for it: over gRPC, if the requests are.
    #[must_use]
    pub fn compressed(mut self, compressed: bool) -> Response<T> {
        self.more.get_or_insert_default().compressed = Some(compressed);
        self
    }

    /// At the caller: whether the response came compressed.
    pub fn was_compressed(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.compressed == Some(true))
    }

    /// The message alone.
    pub fn into_message(self) -> Msg<T> {
        self.message
    }
}

impl<T: Message> Deref for Response<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T: Message> From<Msg<T>> for Response<T> {
    fn from(message: Msg<T>) -> Response<T> {
        Response::new(message)
    }
}

impl<T: Message> fmt::Debug for Response<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Response");
        debug.field("message", &self.message).field("metadata", self.metadata());
        debug.field("trailers", self.trailers()).finish()
    }
}
