//! Frames: how the byte stream of the socket is split into messages, and their fields (C1, D1).
//!
//! ```text
//! body_bytes: u16   kind: u8   flags: u8, 0   body
//! ```
//!
//! A header is checked as soon as its four bytes have arrived, before any byte of the body is
//! stored.

/// Bytes before every body.
pub const FRAME_HEADER_BYTES: usize = 4;
/// The most bytes of a frame's body.
pub const BODY_BYTES_MAX: usize = 4092;

/// Why bytes are not a message. Their sender is at fault; it would send the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A header announces more bytes than a body may have.
    #[error("a frame announces {0} bytes")]
    Oversize(u16),
    /// Version 1 has no flags.
    #[error("a frame has flags, which version 1 does not have")]
    Flags,
    /// A kind that version 1 does not have.
    #[error("frames of kind {0} do not exist")]
    UnknownKind(u8),
    /// The other side sends frames of this kind.
    #[error("frames of kind {0} are for the other side to send")]
    Side(u8),
    /// A hello does not begin with [`MAGIC`](crate::hello::MAGIC).
    #[error("the magic is missing")]
    Magic,
    /// A body ends before its last field.
    #[error("a frame ends early")]
    Truncated,
    /// A body goes on after its last field.
    #[error("a frame goes on after its end")]
    Trailing,
    /// The named field has a value outside of its range.
    #[error("field `{0}` is out of range")]
    Value(&'static str),
}

/// A frame whose header has been checked and whose body is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message the body is.
    pub kind: u8,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

/// Collects frames from a stream that comes in pieces. It holds one frame at most.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// The bytes of an unfinished frame, or of the one returned last if `is_complete`.
    buffer: Vec<u8>,
    is_complete: bool,
}

impl Deframer {
    /// Takes bytes from the front of `input`, up to the end of one frame, and returns that frame.
    /// Returns `None` if all of `input` was taken and the frame is not complete.
    ///
    /// # Errors
    /// [`Malformed::Oversize`] and [`Malformed::Flags`]. Where the next frame begins is unknown
    /// then, so the stream is lost.
    pub fn next_frame(&mut self, input: &mut &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
        if core::mem::take(&mut self.is_complete) {
            self.buffer.clear();
        }
        self.take(input, FRAME_HEADER_BYTES);
        let Some(header) = self.buffer.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let (body_bytes, kind) = check_header(*header)?;
        self.take(input, FRAME_HEADER_BYTES + body_bytes);
        if self.buffer.len() < FRAME_HEADER_BYTES + body_bytes {
            return Ok(None);
        }
        self.is_complete = true;
        Ok(Some(Frame { kind, body: &self.buffer[FRAME_HEADER_BYTES..] }))
    }

    /// Whether a frame has begun and not ended.
    pub fn is_within_frame(&self) -> bool {
        !self.is_complete && !self.buffer.is_empty()
    }

    /// Moves bytes from `input` until the buffer has `wanted`.
    fn take(&mut self, input: &mut &[u8], wanted: usize) {
        let missing = wanted.saturating_sub(self.buffer.len());
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.buffer.extend_from_slice(taken);
        *input = rest;
    }
}

fn check_header(header: [u8; FRAME_HEADER_BYTES]) -> Result<(usize, u8), Malformed> {
    let [low, high, kind, flags] = header;
    let body_bytes = u16::from_le_bytes([low, high]);
    if usize::from(body_bytes) > BODY_BYTES_MAX {
        return Err(Malformed::Oversize(body_bytes));
    }
    if flags != 0 {
        return Err(Malformed::Flags);
    }
    Ok((body_bytes.into(), kind))
}

/// Appends a frame to `out`, its body written by `write_body`.
///
/// # Panics
/// If the body has more than [`BODY_BYTES_MAX`] bytes, which the fields of no message take.
pub(crate) fn write_frame(out: &mut Vec<u8>, kind: u8, write_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, kind, 0]);
    write_body(out);
    let body_bytes = out.len() - start - FRAME_HEADER_BYTES;
    assert!(body_bytes <= BODY_BYTES_MAX, "no message is longer than a frame");
    out[start..start + 2].copy_from_slice(&(body_bytes as u16).to_le_bytes());
}

/// Reads fields from the front of a body. What is short is an error, never a panic.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader(body)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self, count: u8) -> Result<&'a [u8], Malformed> {
        let split = self.0.split_at_checked(count.into()).ok_or(Malformed::Truncated)?;
        self.0 = split.1;
        Ok(split.0)
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

#[cfg(test)]
mod tests;
