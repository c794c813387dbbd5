//! The parts of requests and responses, for the crates that run calls.
//!
//! These are traits and not methods of the types, because requests and responses dereference to
//! their messages: a method `message` would hide a field of this name from programs.

use core::time::Duration;

use petasos_call::Metadata;
use petasos_message::{Message, Msg};

use super::{Request, Response};
use crate::extensions::Extensions;
use crate::origin::{CancelGuard, Origin};

/// The parts of a call besides its messages.
#[derive(Debug, Default)]
pub struct CallParts {
    /// The metadata that are sent with the call.
    pub metadata: Metadata,
    /// The call's timeout, if it has one.
    pub timeout: Option<Duration>,
    /// The extensions at this end.
    pub extensions: Extensions,
    /// Where it came from.
    pub origin: Origin,
}

/// The parts of a response besides its message.
#[derive(Default)]
pub struct More {
    /// The initial metadata.
    pub metadata: Metadata,
    /// The trailing metadata.
    pub trailers: Metadata,
    /// From a handler: whether to compress the response, if it has said so. At a caller: whether it
    /// was compressed.
    pub compressed: Option<bool>,
}

/// A request in its parts.
pub trait RequestParts<T: Message>: Sized {
    /// A message from this origin, without other parts.
    fn plain(message: Msg<T>, origin: Origin) -> Self;

    /// A message with the other parts of its call.
    fn with(message: Msg<T>, parts: CallParts) -> Self;

    /// Splits the request into its message and the other parts.
    fn into_parts(self) -> (Msg<T>, CallParts);

    /// The message.
    fn message(&self) -> &Msg<T>;

    /// Watches the call: from now on it is over when the returned guard is dropped.
    fn watch(&mut self) -> CancelGuard;

    /// Whether the request has no parts that a call would carry, or that would have to be dropped.
    fn is_plain(&self) -> bool;

    /// The message of a request that [is plain](RequestParts::is_plain). The other parts are
    /// neither moved nor read.
    fn into_plain_message(self) -> Msg<T>;
}

impl<T: Message> RequestParts<T> for Request<T> {
    #[inline(always)]
    fn plain(message: Msg<T>, origin: Origin) -> Request<T> {
        let (metadata, extensions) = (Metadata::new(), Extensions::new());
        Request { message, metadata, timeout: None, extensions, origin }
    }

    fn with(message: Msg<T>, parts: CallParts) -> Request<T> {
        let CallParts { metadata, timeout, extensions, origin } = parts;
        Request { message, metadata, timeout, extensions, origin }
    }

    fn into_parts(self) -> (Msg<T>, CallParts) {
        let Request { message, metadata, timeout, extensions, origin } = self;
        (message, CallParts { metadata, timeout, extensions, origin })
    }

    fn message(&self) -> &Msg<T> {
        &self.message
    }

    fn watch(&mut self) -> CancelGuard {
        CancelGuard::watch(&mut self.origin)
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.timeout.is_none()
            && self.metadata.is_empty()
            && self.extensions.is_empty()
            && self.origin.owns_nothing()
    }

    #[inline(always)]
    fn into_plain_message(self) -> Msg<T> {
        debug_assert!(self.is_plain(), "what is beside the message would be lost");
        let Request { message, metadata, timeout: _, extensions, origin } = self;
        core::mem::forget((metadata, extensions, origin));
        message
    }
}

/// A response in its parts.
pub trait ResponseParts<T: Message>: Sized {
    /// A response that a caller has received.
    fn received(message: Msg<T>, more: More) -> Self;

    /// The message.
    fn message(&self) -> &Msg<T>;

    /// Splits the response into its message and the other parts, if it has any.
    fn into_parts(self) -> (Msg<T>, Option<Box<More>>);
}

impl<T: Message> ResponseParts<T> for Response<T> {
    #[cold]
    fn received(message: Msg<T>, more: More) -> Response<T> {
        let is_plain = more.metadata.is_empty() && more.trailers.is_empty();
        let is_plain = is_plain && more.compressed != Some(true);
        Response { message, more: (!is_plain).then(|| Box::new(more)) }
    }

    fn message(&self) -> &Msg<T> {
        &self.message
    }

    #[inline]
    fn into_parts(self) -> (Msg<T>, Option<Box<More>>) {
        (self.message, self.more)
    }
}
