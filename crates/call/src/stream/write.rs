//! Writes segments as bytes (R16), in place.

use super::segment::{Body, CallerSegment, Message, Open, ServerSegment};
use crate::tail::{TailWriter, status_bytes, trace_bytes};
use crate::{HEAD_BYTES, Metadata, MetadataKind, Status};

pub(super) const RECORD_HEAD_BYTES: usize = 8;
/// The bytes before a message that is alone in its segment: the heads of the segment and of the
/// record.
pub const LONE_HEAD_BYTES: usize = HEAD_BYTES + RECORD_HEAD_BYTES;
pub(super) const OPEN_FIXED_BYTES: usize = 16;
pub(super) const END_FIXED_BYTES: usize = 8;
const ALIGNMENT: usize = 8;

pub(super) const RECEIVE: u8 = 1 << 4;
pub(super) const SEND: u8 = 1 << 4;
pub(super) const ENDED: u8 = 1 << 5;
pub(super) const MORE: u8 = 1 << 6;
pub(super) const ANSWER_NATIVE: u32 = 1;

pub(super) const OPEN: u8 = 1;
pub(super) const MESSAGE: u8 = 2;
pub(super) const CLOSE: u8 = 3;
pub(super) const RESET: u8 = 4;
pub(super) const HEAD: u8 = 5;
pub(super) const END: u8 = 6;

/// The bytes of a record with this much content, including padding.
pub(super) const fn record_bytes(content_bytes: usize) -> usize {
    RECORD_HEAD_BYTES + content_bytes.next_multiple_of(ALIGNMENT)
}

/// Bytes of an open record's content.
pub(super) fn open_bytes(open: &Open) -> usize {
    OPEN_FIXED_BYTES + open.metadata.tail_bytes() + open.trace.as_ref().map_or(0, trace_bytes)
}

/// Bytes of an end record's content.
pub(super) fn end_bytes(status: &Status) -> usize {
    END_FIXED_BYTES + status_bytes(status)
}

impl<B: Body> CallerSegment<B> {
    /// Bytes of the segment as it is sent.
    pub fn bytes(&self) -> usize {
        let open = self.open.as_ref().map(open_bytes);
        let messages = self.messages.iter().map(|message| message.body.len());
        let marks = usize::from(self.close) + usize::from(self.reset);
        total(open.into_iter().chain(messages).chain(std::iter::repeat_n(0, marks)))
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        let ([n0, n1], [s0, s1, s2, s3]) = (self.number.to_le_bytes(), self.stream.to_le_bytes());
        let receive = if self.receive { RECEIVE } else { 0 };
        [receive, self.under_way, n0, n1, s0, s1, s2, s3]
    }

    /// The body of a segment that consists of one message, and the bytes before it. A driver with
    /// room before the body needs to write no other memory.
    ///
    /// # Errors
    /// Returns the segment if it does not consist of one message.
    pub fn into_lone(self) -> Result<([u8; LONE_HEAD_BYTES], B), Self> {
        let head = self.head();
        if self.open.is_some() || self.close || self.reset || self.messages.len() != 1 {
            return Err(self);
        }
        let message = self.messages.into_iter().next().expect("there is one");
        Ok((lone_head(head, &message), message.body))
    }

    /// Writes the segment. `body` writes a message's bytes where they belong.
    ///
    /// # Panics
    /// If `out` is not [`CallerSegment::bytes`] long.
    pub fn write(&self, out: &mut [u8], mut body: impl FnMut(&B, &mut [u8])) {
        assert_eq!(out.len(), self.bytes(), "a segment is written into as many bytes as it has");
        let mut writer = Writer::new(out, self.head());
        if let Some(open) = &self.open {
            writer.record(OPEN, &open_content(open));
        }
        for message in self.messages.iter() {
            writer.message(message, &mut body);
        }
        if self.close {
            writer.record(CLOSE, &[]);
        }
        if self.reset {
            writer.record(RESET, &[]);
        }
    }
}

impl<B: Body> ServerSegment<B> {
    /// Bytes of the segment as it is sent.
    pub fn bytes(&self) -> usize {
        let head = self.head.as_ref().map(Metadata::tail_bytes);
        let messages = self.messages.iter().map(|message| message.body.len());
        total(head.into_iter().chain(messages).chain(self.end.as_ref().map(end_bytes)))
    }

    fn head_bytes(&self) -> [u8; HEAD_BYTES] {
        let [n0, n1] = self.number.to_le_bytes();
        let send = if self.send { SEND } else { 0 };
        let ended = if self.ended { ENDED } else { 0 };
        let more = if self.more { MORE } else { 0 };
        [send | ended | more, 0, 0, 0, n0, n1, 0, 0]
    }

    /// Like [`CallerSegment::into_lone`], for an answer.
    ///
    /// # Errors
    /// Returns the segment if it does not consist of one message.
    pub fn into_lone(self) -> Result<([u8; LONE_HEAD_BYTES], B), Self> {
        let head = self.head_bytes();
        if self.head.is_some() || self.end.is_some() || self.messages.len() != 1 {
            return Err(self);
        }
        let message = self.messages.into_iter().next().expect("there is one");
        Ok((lone_head(head, &message), message.body))
    }

    /// Writes the segment. `body` writes a message's bytes where they belong.
    ///
    /// # Panics
    /// If `out` is not [`ServerSegment::bytes`] long.
    pub fn write(&self, out: &mut [u8], mut body: impl FnMut(&B, &mut [u8])) {
        assert_eq!(out.len(), self.bytes(), "a segment is written into as many bytes as it has");
        let mut writer = Writer::new(out, self.head_bytes());
        if let Some(metadata) = &self.head {
            let mut content = Vec::with_capacity(metadata.tail_bytes());
            TailWriter::new(&mut content).metadata(MetadataKind::Initial, metadata);
            writer.record(HEAD, &content);
        }
        for message in self.messages.iter() {
            writer.message(message, &mut body);
        }
        if let Some(status) = &self.end {
            writer.record(END, &end_content(status));
        }
    }
}

fn record_head(kind: u8, codec: u8, encoding: u8, content_bytes: usize) -> [u8; 8] {
    let length = u32::try_from(content_bytes).expect("a record is shorter than 4 GiB");
    let [l0, l1, l2, l3] = length.to_le_bytes();
    [kind, codec, encoding, 0, l0, l1, l2, l3]
}

/// The bytes before a message that is alone in its segment.
fn lone_head<B: Body>(head: [u8; HEAD_BYTES], message: &Message<B>) -> [u8; LONE_HEAD_BYTES] {
    let (codec, encoding) = (message.codec.number(), message.encoding.number());
    let record = record_head(MESSAGE, codec, encoding, message.body.len());
    let mut lone = [0; LONE_HEAD_BYTES];
    lone[..HEAD_BYTES].copy_from_slice(&head);
    lone[HEAD_BYTES..].copy_from_slice(&record);
    lone
}

/// Every record except the last is padded.
fn total(contents: impl Iterator<Item = usize>) -> usize {
    contents.fold(HEAD_BYTES, |end, content| {
        end.next_multiple_of(ALIGNMENT) + RECORD_HEAD_BYTES + content
    })
}

fn open_content(open: &Open) -> Vec<u8> {
    let mut content = Vec::with_capacity(open_bytes(open));
    let native = if open.answer.native { ANSWER_NATIVE } else { 0 };
    let flags = native | u32::from(open.answer.codec.number() & 0x0f) << 4;
    content.extend_from_slice(&open.time_left_us.to_le_bytes());
    content.extend_from_slice(&flags.to_le_bytes());
    content.extend_from_slice(&[0; 4]);
    let mut writer = TailWriter::new(&mut content);
    writer.metadata(MetadataKind::Initial, &open.metadata);
    if let Some(trace) = &open.trace {
        writer.trace(trace);
    }
    content
}

fn end_content(status: &Status) -> Vec<u8> {
    let mut content = Vec::with_capacity(end_bytes(status));
    content.extend_from_slice(&u32::from(status.code().number()).to_le_bytes());
    content.extend_from_slice(&[0; 4]);
    TailWriter::new(&mut content).status(status);
    content
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(out: &'a mut [u8], head: [u8; HEAD_BYTES]) -> Writer<'a> {
        out[..HEAD_BYTES].copy_from_slice(&head);
        Writer { out, at: HEAD_BYTES }
    }

    fn record(&mut self, kind: u8, content: &[u8]) {
        self.begin(kind, 0, 0, content.len()).copy_from_slice(content);
    }

    fn message<B: Body>(&mut self, message: &Message<B>, body: &mut impl FnMut(&B, &mut [u8])) {
        let (codec, encoding) = (message.codec.number(), message.encoding.number());
        body(&message.body, self.begin(MESSAGE, codec, encoding, message.body.len()));
    }

    /// Pads the previous record, writes a record's head and returns the offset of its content.
    fn begin(&mut self, kind: u8, codec: u8, encoding: u8, content_bytes: usize) -> &mut [u8] {
        let start = self.at.next_multiple_of(ALIGNMENT);
        self.out[self.at..start].fill(0);
        let content = start + RECORD_HEAD_BYTES;
        let head = record_head(kind, codec, encoding, content_bytes);
        self.out[start..content].copy_from_slice(&head);
        self.at = content + content_bytes;
        &mut self.out[content..self.at]
    }
}
