//! Frames: how the byte stream is split into messages (C1, C2).
//!
//! ```text
//! body_bytes: u16   kind: u8   flags: u8   body
//! ```
//! [`Deframer`] holds at most one frame. It checks a header as soon as its four bytes have arrived,
//! so that a hostile length is refused before any byte of the body is stored.

use crate::Malformed;

/// Bytes before every body.
pub const FRAME_HEADER_BYTES: usize = 4;
/// Bytes of a frame, header included.
pub const FRAME_BYTES_MAX: usize = 4096;
/// Bytes of a frame's body.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - FRAME_HEADER_BYTES;

/// Set if a receiver that does not know the kind may skip the frame (C2).
pub(crate) const FLAG_SKIPPABLE: u8 = 1;

const _: () = assert!(BODY_BYTES_MAX <= u16::MAX as usize, "the length field holds any length");

/// A frame whose header has been checked and whose body is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Which message the body is.
    pub kind: u8,
    /// Whether a receiver that does not know the kind may skip it.
    pub skippable: bool,
    /// At most [`BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

/// Collects frames from a stream that arrives in arbitrary pieces.
#[derive(Clone, Debug, Default)]
pub struct Deframer {
    /// The bytes of an unfinished frame, or of the one returned last if `complete`.
    buffer: Vec<u8>,
    complete: bool,
}

impl Deframer {
    /// A deframer at the start of a stream.
    pub fn new() -> Deframer {
        Deframer::default()
    }

    /// Takes bytes from the front of `input`, up to the end of one frame, and returns that frame.
    /// Returns `None` if all of `input` was taken and the frame is still incomplete.
    ///
    /// # Errors
    /// The peer's fault: [`Malformed::Oversize`] or [`Malformed::ReservedFlag`] (C1, C2). The next
    /// frame cannot be found, so the stream is lost.
    pub fn next_frame(&mut self, input: &mut &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
        if self.complete {
            self.buffer.clear();
            self.complete = false;
        }
        self.take(input, FRAME_HEADER_BYTES);
        let Some(header) = self.buffer.first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let (body_bytes, kind, skippable) = checked_header(*header)?;
        let frame_bytes = FRAME_HEADER_BYTES + body_bytes;
        self.take(input, frame_bytes);
        if self.buffer.len() < frame_bytes {
            return Ok(None);
        }
        self.complete = true;
        Ok(Some(Frame { kind, skippable, body: &self.buffer[FRAME_HEADER_BYTES..] }))
    }

    /// The bytes of the incomplete frame, its header first.
    pub(crate) fn unfinished(&self) -> &[u8] {
        if self.complete { &[] } else { &self.buffer }
    }

    /// Moves bytes from `input` until the buffer holds `wanted`.
    fn take(&mut self, input: &mut &[u8], wanted: usize) {
        let missing = wanted.saturating_sub(self.buffer.len());
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.buffer.extend_from_slice(taken);
        *input = rest;
    }
}

fn checked_header(header: [u8; FRAME_HEADER_BYTES]) -> Result<(usize, u8, bool), Malformed> {
    let [low, high, kind, flags] = header;
    let body_bytes = u16::from_le_bytes([low, high]);
    if usize::from(body_bytes) > BODY_BYTES_MAX {
        return Err(Malformed::Oversize(body_bytes));
    }
    if flags & !FLAG_SKIPPABLE != 0 {
        return Err(Malformed::ReservedFlag);
    }
    Ok((body_bytes.into(), kind, flags & FLAG_SKIPPABLE != 0))
}

/// Appends a frame of `kind` to `out`, its body written by `write_body`.
///
/// # Panics
/// If the body exceeds [`BODY_BYTES_MAX`]. The limits of fields keep all messages far below that,
/// except for the lists that a router tells: who sends one checks its length.
pub(crate) fn write_frame(
    out: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    write_body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, kind, flags]);
    write_body(out);
    let body_bytes = out.len() - start - FRAME_HEADER_BYTES;
    assert!(body_bytes <= BODY_BYTES_MAX, "no message exceeds a frame");
    out[start..start + 2].copy_from_slice(&(body_bytes as u16).to_le_bytes());
}
