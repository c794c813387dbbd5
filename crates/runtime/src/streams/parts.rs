//! What streams are made of, for all who deal with them.

use petasos_call::stream::{Body, Message as Coded};
use petasos_call::{Codec, Metadata, Status};
use petasos_endpoint::PeerKey;

use super::encoded::EncodedMessage;

/// What a message counts for beside its bytes, so that empty ones fill a mailbox, too.
pub(super) const MESSAGE_BYTES: usize = 64;

/// Names a stream in its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

/// A direction, as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What comes.
    Reader,
    /// What goes.
    Writer,
}

/// What is called, and how.
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
    /// What long messages are compressed with (R8).
    pub(crate) codec: Codec,
    /// What a segment may have, its head and its record's head included.
    pub(crate) bytes_max: usize,
    /// What a received message may become when it is unpacked.
    pub(crate) unpacked_bytes_max: usize,
    /// Who sends what is received: it is decompressed within its sender's share.
    pub(crate) peer: PeerKey,
}

/// What an application is told.
pub(crate) enum Event {
    Head(Metadata),
    Message(Coded<EncodedMessage>),
    End(Result<Metadata, Status>),
}

impl Event {
    /// What a mailbox counts for it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Event::Message(message) => weight(message),
            _ => 0,
        }
    }
}

/// A loop that has ended.
pub(crate) fn gone() -> Status {
    Status::unavailable("the loop of the call is gone")
}

/// What a mailbox counts for a message.
pub(super) fn weight(message: &Coded<EncodedMessage>) -> usize {
    MESSAGE_BYTES + message.body.len()
}
