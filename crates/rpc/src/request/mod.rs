//! Messages with metadata and the other parts of a call.

mod parts;
mod tail;

use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use petasos_call::{Codec, Metadata, MetadataError, TAIL_BYTES_MAX, TraceContext};
use petasos_endpoint::Routing;
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

/// The longest tail that is accepted, in bytes (R9).
pub const TAIL_BYTES_LIMIT: usize = TAIL_BYTES_MAX;

/// A request, as the caller makes it and the handler receives it. It dereferences to its message.
pub struct Request<T> {
    message: Msg<T>,
    metadata: Metadata,
    timeout: Option<Duration>,
    extensions: Extensions,
    origin: Origin,
}

impl<T: Message> Request<T> {
    /// A request with a message and nothing else.
    #[inline(always)]
    pub fn new(message: impl Into<Msg<T>>) -> Request<T> {
        let (metadata, extensions) = (Metadata::new(), Extensions::new());
        let origin = Origin::Here;
        Request { message: message.into(), metadata, timeout: None, extensions, origin }
    }

    /// Sets the call's timeout. Without one, a call that a handler makes has the time that the
    /// handler's own call has left (R10).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Request<T> {
        self.timeout = Some(timeout);
        self
    }

    /// Adds an entry to the metadata.
    ///
    /// # Errors
    /// The key or the value is not allowed; see [`MetadataError`].
    pub fn with_metadata(mut self, key: &str, value: &str) -> Result<Request<T>, MetadataError> {
        self.metadata.append(key, value)?;
        Ok(self)
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata, mutable.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The caller's timeout; at the server, the time that was left when the request arrived.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// At a server: the client. `None` once the client's session is gone.
    pub fn peer(&self) -> Option<Peer> {
        self.origin.peer()
    }

    /// At a server: the number of the loop that the request came through. For the facade.
    #[doc(hidden)]
    pub fn loop_id(&self) -> Option<u32> {
        self.origin.loop_id()
    }

    /// At a server: a future that is ready when nobody waits for the answer any more. It may move
    /// to any thread. A handler in a loop must call this itself, before it gives the request away:
    /// called elsewhere, the result knows only the deadline. [`Cancelled::is_cancelled`] then shows
    /// when that has passed, but awaiting it never ends. At a client the result never becomes
    /// ready.
    pub fn cancelled(&self) -> Cancelled {
        self.origin.cancelled()
    }

    /// At a server: whether nobody waits for the answer any more, because the caller has given the
    /// call up or is gone, or its deadline has passed. For handlers that compute or block, which
    /// run on workers. A handler that blocks its loop also keeps the loop from noticing, so it sees
    /// only the deadline.
    pub fn is_cancelled(&self) -> bool {
        self.origin.is_cancelled()
    }

    /// The call's place in a distributed trace, if it has one.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.extensions.get()
    }

    /// Makes the call part of a distributed trace, such as that of the call in whose handler it is
    /// made. Traces are not inherited automatically.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Request<T> {
        self.extensions.insert(trace);
        self
    }

    /// Compresses the request with this codec instead of the channel's, if the request has at least
    /// a kilobyte and the server accepts the codec, and lets the server compress its response with
    /// it. [`Codec::IDENTITY`] turns compression off. gRPC supports only [`Codec::GZIP`]; any other
    /// codec counts as the identity there.
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Request<T> {
        self.extensions.insert(ChosenCodec(codec));
        self
    }

    /// Says how a call to a group of workers is routed: to any of them, which is the default, to
    /// the primary, or by a key. It has no effect on other calls.
    #[must_use]
    pub fn with_routing(mut self, routing: Routing) -> Request<T> {
        self.extensions.insert(routing);
        self
    }

    /// At a server: whether the request was compressed.
    pub fn was_compressed(&self) -> bool {
        self.extensions.get::<CameCompressed>().is_some()
    }

    /// The call's extensions: values from this end's interceptors, or from the caller for them.
    /// They are not sent.
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The call's extensions, mutable, for this end's interceptors.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Returns the message alone.
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

/// A response, as the handler makes it and the caller receives it. It dereferences to its message.
pub struct Response<T> {
    message: Msg<T>,
    /// One word, because few responses have more than a message.
    more: Option<Box<More>>,
}

static NO_METADATA: Metadata = Metadata::new();

impl<T: Message> Response<T> {
    /// A response with a message and nothing else.
    #[inline]
    pub fn new(message: impl Into<Msg<T>>) -> Response<T> {
        Response { message: message.into(), more: None }
    }

    /// The initial metadata.
    pub fn metadata(&self) -> &Metadata {
        self.more.as_ref().map_or(&NO_METADATA, |more| &more.metadata)
    }

    /// The initial metadata, mutable.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.more.get_or_insert_default().metadata
    }

    /// The trailing metadata.
    pub fn trailers(&self) -> &Metadata {
        self.more.as_ref().map_or(&NO_METADATA, |more| &more.trailers)
    }

    /// The trailing metadata, mutable.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        &mut self.more.get_or_insert_default().trailers
    }

    /// At the server: sets whether the response is compressed. With `true` it is, if it has at
    /// least a kilobyte and the caller accepts that; with `false` it is not. If this is not called,
    /// the caller decides: over gRPC, the response is compressed if the requests are.
    #[must_use]
    pub fn compressed(mut self, compressed: bool) -> Response<T> {
        self.more.get_or_insert_default().compressed = Some(compressed);
        self
    }

    /// At the caller: whether the response was compressed.
    pub fn was_compressed(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.compressed == Some(true))
    }

    /// Returns the message alone.
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
