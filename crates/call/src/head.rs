//! The eight-byte head before a unary message, and the position of its tail.

use std::ops::Range;
use std::time::Duration;

use crate::{Code, Codec, Encoding, Malformed};

/// Length of a head in bytes.
pub const HEAD_BYTES: usize = 8;

const ENCODING_MASK: u8 = 0b11;
const ANSWER_NATIVE: u8 = 1 << 2;
const TAIL: u8 = 1 << 3;
const CODEC_MASK: u8 = 0x0f;
const LENGTH_BYTES: usize = 4;
const LOAD_UNIT_US: u32 = 16;

/// The allowed formats of the response to a request (R6). The caller decides, because it knows both
/// schemas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The response may be native (R4).
    pub native: bool,
    /// The codec that the response may use besides the identity (R8).
    pub codec: Codec,
}

/// R6: the head of a unary request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// Encoding of the body.
    pub encoding: Encoding,
    /// Codec of the body; at most 15.
    pub codec: Codec,
    /// The allowed formats of the response.
    pub answer: Answer,
    /// Whether there is a tail.
    pub has_tail: bool,
    /// Time until the deadline, in µs. 0 means no deadline, `u32::MAX` means this time or longer.
    pub time_left_us: u32,
}

impl RequestHead {
    /// The head of most requests: only a native message, without a deadline. The response should
    /// have the same form.
    pub const PLAIN: [u8; HEAD_BYTES] =
        [Encoding::Native.number() | ANSWER_NATIVE, 0, 0, 0, 0, 0, 0, 0];

    /// Parses a head.
    ///
    /// # Errors
    /// See [`Malformed`]. Flags that are only for streams must not be set.
    #[inline]
    pub fn parse(head: [u8; HEAD_BYTES]) -> Result<RequestHead, Malformed> {
        let [flags, codecs, reserved @ .., t0, t1, t2, t3] = head;
        if flags & !(ENCODING_MASK | ANSWER_NATIVE | TAIL) != 0 || reserved != [0; 2] {
            return Err(Malformed::Reserved);
        }
        Ok(RequestHead {
            encoding: Encoding::from_number(flags & ENCODING_MASK)?,
            codec: Codec::from_number(codecs & CODEC_MASK),
            answer: Answer {
                native: flags & ANSWER_NATIVE != 0,
                codec: Codec::from_number(codecs >> 4),
            },
            has_tail: flags & TAIL != 0,
            time_left_us: u32::from_le_bytes([t0, t1, t2, t3]),
        })
    }

    /// The bytes of the head.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let native = if self.answer.native { ANSWER_NATIVE } else { 0 };
        let codecs = self.codec.number() & CODEC_MASK | self.answer.codec.number() << 4;
        let [t0, t1, t2, t3] = self.time_left_us.to_le_bytes();
        [self.encoding.number() | native | tail_flag(self.has_tail), codecs, 0, 0, t0, t1, t2, t3]
    }
}

/// A server's load, which it reports with each response for balancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Running calls at the server.
    pub running: u16,
    /// Typical latency in the server, in µs. It is sent in units of 16 µs, rounded down, up to
    /// 1,048,560.
    pub time_us: u32,
}

impl Load {
    /// Values above the maximum are reported as the maximum.
    pub fn new(running: usize, time: Duration) -> Load {
        Load {
            running: u16::try_from(running).unwrap_or(u16::MAX),
            time_us: u32::try_from(time.as_micros()).unwrap_or(u32::MAX),
        }
    }
}

/// An encoded [`Load`]: for servers that report it more often than it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadBytes([u8; 4]);

impl From<Load> for LoadBytes {
    #[inline]
    fn from(load: Load) -> LoadBytes {
        let [r0, r1] = load.running.to_le_bytes();
        let units = u16::try_from(load.time_us / LOAD_UNIT_US).unwrap_or(u16::MAX);
        let [t0, t1] = units.to_le_bytes();
        LoadBytes([r0, r1, t0, t1])
    }
}

/// R7: the head of a unary response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Encoding of the body.
    pub encoding: Encoding,
    /// Codec of the body; at most 15.
    pub codec: Codec,
    /// Whether there is a tail.
    pub has_tail: bool,
    /// The call's status code. If it is not `Ok`, there is no body.
    pub code: Code,
    /// The server's load.
    pub load: Load,
}

impl ResponseHead {
    /// The start of the head of most responses: only a native message.
    const PLAIN: [u8; HEAD_BYTES - 4] = [Encoding::Native.number(), 0, Code::Ok.number(), 0];

    /// Whether a response consists only of a native message.
    #[inline]
    pub fn is_plain(head: [u8; HEAD_BYTES]) -> bool {
        head.first_chunk() == Some(&ResponseHead::PLAIN)
    }

    /// The head of a response that consists only of a native message.
    #[inline]
    pub fn plain(load: LoadBytes) -> [u8; HEAD_BYTES] {
        let [[a, b, c, d], [e, f, g, h]] = [ResponseHead::PLAIN, load.0];
        [a, b, c, d, e, f, g, h]
    }

    /// Parses a head.
    ///
    /// # Errors
    /// See [`Malformed`]. Flags that are only for streams must not be set.
    #[inline]
    pub fn parse(head: [u8; HEAD_BYTES]) -> Result<ResponseHead, Malformed> {
        let [flags, codec, code, reserved, r0, r1, t0, t1] = head;
        if flags & !(ENCODING_MASK | TAIL) != 0 || codec & !CODEC_MASK != 0 || reserved != 0 {
            return Err(Malformed::Reserved);
        }
        Ok(ResponseHead {
            encoding: Encoding::from_number(flags & ENCODING_MASK)?,
            codec: Codec::from_number(codec),
            has_tail: flags & TAIL != 0,
            code: Code::from_number(u32::from(code)),
            load: Load {
                running: u16::from_le_bytes([r0, r1]),
                time_us: u32::from(u16::from_le_bytes([t0, t1])) * LOAD_UNIT_US,
            },
        })
    }

    /// The bytes of the head.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let flags = self.encoding.number() | tail_flag(self.has_tail);
        let codec = self.codec.number() & CODEC_MASK;
        let LoadBytes([r0, r1, t0, t1]) = self.load.into();
        [flags, codec, self.code.number(), 0, r0, r1, t0, t1]
    }
}

fn tail_flag(has_tail: bool) -> u8 {
    if has_tail { TAIL } else { 0 }
}

/// R5: the range of the body in `message`, which begins with its head, and the entries of its tail
/// for [`read_tail`](crate::read_tail).
///
/// # Errors
/// [`Malformed::TooShort`] if the head is incomplete, [`Malformed::Tail`] if the tail does not fit.
#[inline]
pub fn split(message: &[u8], has_tail: bool) -> Result<(Range<usize>, &[u8]), Malformed> {
    let behind_head = message.get(HEAD_BYTES..).ok_or(Malformed::TooShort)?;
    if !has_tail {
        return Ok((HEAD_BYTES..message.len(), &[]));
    }
    let (rest, length) = behind_head.split_last_chunk::<LENGTH_BYTES>().ok_or(Malformed::Tail)?;
    let tail_bytes = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Malformed::Tail)?;
    let body_bytes = rest.len().checked_sub(tail_bytes).ok_or(Malformed::Tail)?;
    Ok((HEAD_BYTES..HEAD_BYTES + body_bytes, &rest[body_bytes..]))
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
