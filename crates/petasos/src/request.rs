//! Messages with what travels beside them.

use core::fmt;
use core::ops::Deref;
use core::time::Duration;

use petasos_call::{Metadata, MetadataError, MetadataKind, TAIL_BYTES_MAX, TailWriter};
use petasos_message::{Message, Msg};

use crate::intercept::{Beside, Extensions};

/// The longest tail that is taken, in bytes (R9).
pub(crate) const TAIL_BYTES_LIMIT: usize = TAIL_BYTES_MAX;

/// A request, as the caller makes it and the handler gets it. Reads as its message.
pub struct Request<T> {
    message: Msg<T>,
    metadata: Metadata,
    timeout: Option<Duration>,
    extensions: Extensions,
}

impl<T: Message> Request<T> {
    /// A request with nothing beside its message.
    pub fn new(message: impl Into<Msg<T>>) -> Request<T> {
        let (metadata, extensions) = (Metadata::new(), Extensions::new());
        Request { message: message.into(), metadata, timeout: None, extensions }
    }

    pub(crate) fn received(
        message: Msg<T>,
        metadata: Metadata,
        timeout: Option<Duration>,
    ) -> Request<T> {
        Request { message, metadata, timeout, extensions: Extensions::new() }
    }

    /// A message with what goes with it.
    pub(crate) fn with(message: Msg<T>, beside: Beside) -> Request<T> {
        let Beside { metadata, timeout, extensions } = beside;
        Request { message, metadata, timeout, extensions }
    }

    /// The message, and what goes with it.
    pub(crate) fn apart(self) -> (Msg<T>, Beside) {
        let Request { message, metadata, timeout, extensions } = self;
        (message, Beside { metadata, timeout, extensions })
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

    pub(crate) fn into_parts(self) -> (Msg<T>, Metadata, Option<Duration>) {
        (self.message, self.metadata, self.timeout)
    }
}

impl<T: Message> Deref for Request<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.message
    }
}

impl<T: Message> From<Msg<T>> for Request<T> {
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
    pub(crate) metadata: Metadata,
    pub(crate) trailers: Metadata,
}

impl<T: Message> Response<T> {
    /// A response with nothing beside its message.
    pub fn new(message: impl Into<Msg<T>>) -> Response<T> {
        let (metadata, trailers) = (Metadata::new(), Metadata::new());
        Response { message: message.into(), metadata, trailers }
    }

    pub(crate) fn received(message: Msg<T>, metadata: Metadata, trailers: Metadata) -> Response<T> {
        Response { message, metadata, trailers }
    }

    pub(crate) fn message(&self) -> &Msg<T> {
        &self.message
    }

    /// The initial metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The initial metadata, to be changed.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// The trailing metadata.
    pub fn trailers(&self) -> &Metadata {
        &self.trailers
    }

    /// The trailing metadata, to be changed.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        &mut self.trailers
    }

    /// The message alone.
    pub fn into_message(self) -> Msg<T> {
        self.message
    }

    pub(crate) fn into_parts(self) -> (Msg<T>, Metadata, Metadata) {
        (self.message, self.metadata, self.trailers)
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
        debug.field("message", &self.message).field("metadata", &self.metadata);
        debug.field("trailers", &self.trailers).finish()
    }
}

/// R9: the tail of a message, with its length; nothing if there is nothing to say.
pub(crate) fn tail_of(initial: &Metadata, trailing: &Metadata) -> Vec<u8> {
    let mut bytes = Vec::new();
    if initial.is_empty() && trailing.is_empty() {
        return bytes;
    }
    let mut tail = TailWriter::new(&mut bytes);
    tail.metadata(MetadataKind::Initial, initial);
    tail.metadata(MetadataKind::Trailing, trailing);
    tail.finish();
    bytes
}
