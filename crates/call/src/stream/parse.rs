//! Parses segments (R16) from a peer that may send anything.

use std::ops::Range;

use super::segment::{CallerSegment, Message, Open, ServerSegment};
use super::window::WIDTH_MAX;
use super::write::{
    ANSWER_NATIVE, CLOSE, END, END_FIXED_BYTES, ENDED, HEAD, MESSAGE, MORE, OPEN, OPEN_FIXED_BYTES,
    RECEIVE, RECORD_HEAD_BYTES, RESET, SEND, record_bytes,
};
use crate::tail::{TailError, TailParts, read_tail};
use crate::{Answer, Code, Codec, Encoding, HEAD_BYTES, Malformed, Metadata, Status};

/// A segment that is invalid. The peer is at fault; the stream ends with the status of `why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segment {number} of stream {stream}: {why}")]
pub struct SegmentError {
    /// The stream, if the segment names one; otherwise 0, which is not a stream.
    pub stream: u32,
    /// The segment's number, as far as it could be read.
    pub number: u16,
    /// What is wrong.
    pub why: TailError,
}

impl CallerSegment<Range<usize>> {
    /// Parses a request of a stream. Bodies are ranges of `bytes`. `limit` is the maximum size of
    /// metadata in bytes.
    ///
    /// # Errors
    /// See [`SegmentError`].
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Self, SegmentError> {
        let Some([flags, under_way, n0, n1, s0, s1, s2, s3]) = bytes.first_chunk::<HEAD_BYTES>()
        else {
            return Err(SegmentError { stream: 0, number: 0, why: Malformed::TooShort.into() });
        };
        let stream = u32::from_le_bytes([*s0, *s1, *s2, *s3]);
        let number = u16::from_le_bytes([*n0, *n1]);
        let mut segment = CallerSegment::bare(stream, number, flags & RECEIVE != 0);
        segment.under_way = *under_way;
        let is_wide = u16::from(*under_way) >= WIDTH_MAX;
        let read = if flags & !RECEIVE != 0 || is_wide || stream == 0 {
            Err(Malformed::Reserved.into())
        } else {
            segment.read(bytes, limit)
        };
        read.map(|()| segment).map_err(|why| SegmentError { stream, number, why })
    }

    fn read(&mut self, bytes: &[u8], limit: usize) -> Result<(), TailError> {
        for record in Records::behind_head(bytes) {
            let record = record?;
            let first = self.is_bare();
            match record.kind {
                OPEN if first => self.open = Some(open(&bytes[record.content], limit)?),
                MESSAGE if !self.close && !self.reset => self.messages.push(record.message()?),
                CLOSE if !self.close && !self.reset && record.is_empty() => self.close = true,
                RESET if first && record.is_empty() => self.reset = true,
                _ => return Err(Malformed::Record.into()),
            }
        }
        Ok(())
    }
}

impl ServerSegment<Range<usize>> {
    /// Parses a response of a stream. Bodies are ranges of `bytes`. `limit` is the maximum size of
    /// metadata in bytes.
    ///
    /// # Errors
    /// See [`TailError`].
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Self, TailError> {
        let head = bytes.first_chunk::<HEAD_BYTES>().ok_or(Malformed::TooShort)?;
        let [flags, codec, code, reserved, n0, n1, r0, r1] = *head;
        if flags & !(SEND | ENDED | MORE) != 0 || [codec, code, reserved, r0, r1] != [0; 5] {
            return Err(Malformed::Reserved.into());
        }
        let mut segment = Self::bare(u16::from_le_bytes([n0, n1]), flags & SEND != 0);
        segment.ended = flags & ENDED != 0;
        segment.more = flags & MORE != 0;
        for record in Records::behind_head(bytes) {
            let record = record?;
            match record.kind {
                HEAD if segment.is_bare() => {
                    segment.head = Some(read_tail(&bytes[record.content], limit)?.initial);
                }
                MESSAGE if segment.end.is_none() => segment.messages.push(record.message()?),
                END if segment.end.is_none() => {
                    segment.end = Some(end(&bytes[record.content], limit)?);
                }
                _ => return Err(Malformed::Record.into()),
            }
        }
        // An answer that says *ended* has an end record, unless it is bare; no other answer has one
        // (R18, R19).
        if segment.end.is_some() != (segment.ended && !segment.is_bare()) {
            return Err(Malformed::Record.into());
        }
        Ok(segment)
    }
}

fn open(content: &[u8], limit: usize) -> Result<Open, TailError> {
    let (fixed, entries) =
        content.split_first_chunk::<OPEN_FIXED_BYTES>().ok_or(Malformed::Record)?;
    let [t0, t1, t2, t3, t4, t5, t6, t7, f0, f1, f2, f3, reserved @ ..] = *fixed;
    let flags = u32::from_le_bytes([f0, f1, f2, f3]);
    if flags & !(ANSWER_NATIVE | 0xf0) != 0 || reserved != [0; 4] {
        return Err(Malformed::Reserved.into());
    }
    let TailParts { initial, trace, .. } = read_tail(entries, limit)?;
    Ok(Open {
        time_left_us: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
        answer: Answer { native: flags & ANSWER_NATIVE != 0, codec: Codec::from_number(f0 >> 4) },
        metadata: initial,
        trace,
    })
}

fn end(content: &[u8], limit: usize) -> Result<Status, TailError> {
    let (fixed, entries) =
        content.split_first_chunk::<END_FIXED_BYTES>().ok_or(Malformed::Record)?;
    let [c0, c1, c2, c3, reserved @ ..] = *fixed;
    if reserved != [0; 4] {
        return Err(Malformed::Reserved.into());
    }
    let code = Code::from_number(u32::from_le_bytes([c0, c1, c2, c3]));
    let (status, _initial): (Status, Metadata) = read_tail(entries, limit)?.into_status(code);
    Ok(status)
}

struct Record {
    kind: u8,
    codec: u8,
    encoding: u8,
    content: Range<usize>,
}

impl Record {
    fn message(self) -> Result<Message<Range<usize>>, Malformed> {
        let encoding = Encoding::from_number(self.encoding)?;
        Ok(Message { encoding, codec: Codec::from_number(self.codec), body: self.content })
    }

    fn is_empty(&self) -> bool {
        self.content.is_empty()
    }
}

/// The records of a segment, checked to be in bounds but not for their order. Stops at the first
/// error.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    fn behind_head(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, at: HEAD_BYTES }
    }

    fn read(&mut self) -> Result<Record, Malformed> {
        let rest = &self.bytes[self.at..];
        let (head, behind) =
            rest.split_first_chunk::<RECORD_HEAD_BYTES>().ok_or(Malformed::TooShort)?;
        let [kind, codec, encoding, reserved, l0, l1, l2, l3] = *head;
        if reserved != 0 || kind != MESSAGE && (codec, encoding) != (0, 0) {
            return Err(Malformed::Reserved);
        }
        let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3]));
        let length = length.ok().filter(|length| *length <= behind.len());
        let length = length.ok_or(Malformed::TooShort)?;
        let start = self.at + RECORD_HEAD_BYTES;
        let content = start..start + length;
        // The last record needs no padding. If another one lacks it, the rest is malformed.
        self.at = (self.at + record_bytes(length)).min(self.bytes.len());
        Ok(Record { kind, codec, encoding, content })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.at = self.bytes.len();
        }
        Some(record)
    }
}
