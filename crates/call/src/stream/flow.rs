//! Queues between a stream's half and its application, and how much they hold (R17).

use std::collections::VecDeque;

use super::segment::{Body, Message, Messages};
use super::write::record_bytes;
use crate::HEAD_BYTES;

/// When an application has not taken this many bytes, its end announces that it wants no more
/// messages. `can_send` is false while this many bytes are queued for sending.
pub const FLOW_BYTES_MAX: usize = 128 << 10;
/// When fewer bytes than this are left, messages are wanted again.
const FLOW_BYTES_LOW: usize = 64 << 10;
/// A segment is filled with messages up to this size.
pub(super) const SEGMENT_BYTES: usize = 32 << 10;
/// A message of at least this length gets a segment of its own, so that neither end has to copy it.
pub(super) const LONE_BYTES_MIN: usize = 8 << 10;

/// Received messages that were not taken yet. Each counts together with its record, so that empty
/// messages count.
#[derive(Debug)]
pub(super) struct Inbox<B> {
    queue: VecDeque<Message<B>>,
    bytes: usize,
    wants: bool,
}

impl<B: Body> Inbox<B> {
    pub(super) fn new() -> Inbox<B> {
        Inbox { queue: VecDeque::new(), bytes: 0, wants: true }
    }

    pub(super) fn extend(&mut self, messages: Messages<B>) {
        for message in messages {
            self.bytes += record_bytes(message.body.len());
            self.queue.push_back(message);
        }
        self.wants &= self.bytes < FLOW_BYTES_MAX;
    }

    pub(super) fn pop(&mut self) -> Option<Message<B>> {
        let message = self.queue.pop_front()?;
        self.bytes -= record_bytes(message.body.len());
        self.wants |= self.bytes < FLOW_BYTES_LOW;
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        *self = Inbox::new();
    }

    /// The value of the caller's *receive* bit or of the server's *send* bit.
    pub(super) fn wants(&self) -> bool {
        self.wants
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The application's messages that were not sent yet.
#[derive(Debug)]
pub(super) struct Outbox<B> {
    queue: VecDeque<Message<B>>,
    bytes: usize,
}

impl<B: Body> Outbox<B> {
    pub(super) fn new() -> Outbox<B> {
        Outbox { queue: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < FLOW_BYTES_MAX
    }

    pub(super) fn push(&mut self, message: Message<B>) {
        self.bytes += record_bytes(message.body.len());
        self.queue.push_back(message);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn into_messages(self) -> impl Iterator<Item = Message<B>> {
        self.queue.into_iter()
    }

    pub(super) fn clear(&mut self) {
        *self = Outbox::new();
    }

    /// Moves messages into a segment: as many as fit (R16), with at most `bytes_left` bytes (R17).
    /// Returns their size in bytes.
    pub(super) fn fill(
        &mut self,
        messages: &mut Messages<B>,
        room: &mut Room,
        bytes_left: usize,
    ) -> usize {
        let mut filled = 0;
        while let Some(front) = self.queue.front() {
            let bytes = record_bytes(front.body.len());
            let is_first = messages.is_empty();
            let is_lone = front.body.len() >= LONE_BYTES_MIN;
            let bytes_max = if is_first { room.bytes_max } else { SEGMENT_BYTES };
            if is_lone && !is_first || filled + bytes > bytes_left || !room.take(bytes, bytes_max) {
                break;
            }
            self.bytes -= bytes;
            filled += bytes;
            messages.extend(self.queue.pop_front());
            if is_lone {
                break;
            }
        }
        filled
    }
}

/// Bytes of messages in a segment, with their records.
pub(super) fn bytes_of<B: Body>(messages: &Messages<B>) -> usize {
    messages.iter().map(|message| record_bytes(message.body.len())).sum()
}

/// The remaining room in a segment that is being made.
pub(super) struct Room {
    used: usize,
    bytes_max: usize,
}

impl Room {
    /// `bytes_max` is the longest single request or response that the session accepts.
    pub(super) fn new(bytes_max: usize) -> Room {
        Room { used: HEAD_BYTES, bytes_max }
    }

    /// Reserves a record's bytes, if the segment then has at most `bytes_max`. The first record
    /// always fits: whether it is too long is not checked here.
    pub(super) fn take(&mut self, record_bytes: usize, bytes_max: usize) -> bool {
        let used = self.used + record_bytes;
        let fits = self.used == HEAD_BYTES || used <= bytes_max.min(self.bytes_max);
        if fits {
            self.used = used;
        }
        fits
    }

    /// Reserves room for a record that is not a message.
    pub(super) fn take_record(&mut self, content_bytes: usize) -> bool {
        self.take(record_bytes(content_bytes), usize::MAX)
    }
}
