//! Types that all parts of the stream implementation use.

use petasos_call::stream::{Body, Message as Coded};
use petasos_call::{Codec, Metadata, Status};
use petasos_endpoint::PeerKey;

use super::encoded::EncodedMessage;

/// Added to each message's size when a mailbox is measured, so that empty messages fill it, too.
pub(super) const MESSAGE_BYTES: usize = 64;

/// Identifies a stream within its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

/// A direction, as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The direction that the application reads from.
    Reader,
    /// The direction that the application writes to.
    Writer,
}

/// The method to call, and through which channel.
#[derive(Clone, Copy, Default)]
pub(crate) struct Target {
    /// The channel's number in the loop.
    pub(crate) channel: u32,
    /// The service's place in the channel, and the method's index in the service.
    pub(crate) method: (u32, u16),
    pub(crate) wait_for_ready: bool,
}

/// How messages of a stream are to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) native: bool,
    /// The codec that long messages are compressed with (R8).
    pub(crate) codec: Codec,
    /// The largest segment in bytes, including its head and the head of its record.
    pub(crate) bytes_max: usize,
    /// The largest size in bytes to which a received message may be decompressed.
    pub(crate) unpacked_bytes_max: usize,
    /// The sender of what is received: decompressed bytes count towards its share.
    pub(crate) peer: PeerKey,
}

/// What a reader reports to the application.
pub(crate) enum Event {
    Head(Metadata),
    Message(Coded<EncodedMessage>),
    End(Result<Metadata, Status>),
}

impl Event {
    /// The bytes that a mailbox counts for this event.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Event::Message(message) => weight(message),
            _ => 0,
        }
    }
}

/// The status of calls whose loop has ended.
pub(crate) fn gone() -> Status {
    Status::unavailable("the call's event loop has ended")
}

/// The bytes that a mailbox counts for a message.
pub(super) fn weight(message: &Coded<EncodedMessage>) -> usize {
    MESSAGE_BYTES + message.body.len()
}
