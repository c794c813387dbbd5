//! Unary messages in the framing of typed calls (R5 to R7, R9).

use std::ops::Range;

use petasos_buf::MsgBuf;
use petasos_call::{
    Answer, Code, Codec, Encoding, HEAD_BYTES, Load, Malformed, RequestHead, ResponseHead, Status,
    TailWriter,
};

const LENGTH_BYTES: usize = 4;

/// Where the parts of a framed message are.
pub(crate) struct Parts {
    pub(crate) body: Range<usize>,
    pub(crate) tail: Range<usize>,
}

/// Finds the parts of a message, which may have pieces attached.
pub(crate) fn parts(message: &MsgBuf, has_tail: bool) -> Result<Parts, Malformed> {
    let bytes = message.len();
    if bytes < HEAD_BYTES {
        return Err(Malformed::TooShort);
    }
    if !has_tail {
        return Ok(Parts { body: HEAD_BYTES..bytes, tail: 0..0 });
    }
    let end = bytes.checked_sub(LENGTH_BYTES).filter(|end| *end >= HEAD_BYTES);
    let end = end.ok_or(Malformed::Tail)?;
    let mut length = [0; LENGTH_BYTES];
    message.copy_range(end, &mut length);
    let tail_bytes = u32::from_le_bytes(length) as usize;
    let start = end.checked_sub(tail_bytes).filter(|start| *start >= HEAD_BYTES);
    let start = start.ok_or(Malformed::Tail)?;
    Ok(Parts { body: HEAD_BYTES..start, tail: start..end })
}

/// The head of a message.
pub(crate) fn head_of(message: &MsgBuf) -> Result<[u8; HEAD_BYTES], Malformed> {
    // A head always lies in the buffer's own data.
    message.as_slice().first_chunk().copied().ok_or(Malformed::TooShort)
}

/// Bytes of a framed message with a body and a tail of so many bytes.
pub(crate) fn frame_bytes(body: usize, tail: usize) -> usize {
    HEAD_BYTES + body + if tail == 0 { 0 } else { tail + LENGTH_BYTES }
}

/// Writes the length behind a tail, in a message of [`frame_bytes`].
pub(crate) fn end_frame(frame: &mut [u8], tail: usize) {
    if tail > 0 {
        let at = frame.len() - LENGTH_BYTES;
        frame[at..].copy_from_slice(&(tail as u32).to_le_bytes());
    }
}

/// The head of a request from the service.
pub(crate) fn request_head(
    encoding: Encoding,
    has_tail: bool,
    time_left_us: u64,
) -> [u8; HEAD_BYTES] {
    let time_left_us = u32::try_from(time_left_us).unwrap_or(u32::MAX);
    let (answer, codec) = (answer_to(encoding), Codec::IDENTITY);
    RequestHead { encoding, codec, answer, has_tail, time_left_us }.to_bytes()
}

/// How requests in an encoding may be answered.
pub(crate) fn answer_to(encoding: Encoding) -> Answer {
    Answer { native: encoding == Encoding::Native, codec: Codec::IDENTITY }
}

/// The head of a response from the service, whose message, if it has one, is in an encoding.
pub(crate) fn response_head(encoding: Encoding, has_tail: bool, code: Code) -> [u8; HEAD_BYTES] {
    let encoding = if code == Code::Ok { encoding } else { Encoding::None };
    let (codec, load) = (Codec::IDENTITY, Load::default());
    ResponseHead { encoding, codec, has_tail, code, load }.to_bytes()
}

/// The tail that says a status.
pub(crate) fn tail_of(status: &Status) -> Vec<u8> {
    let mut tail = Vec::new();
    TailWriter::new(&mut tail).status(status);
    tail
}

/// A response that is a status.
pub(crate) fn status_frame(status: &Status) -> Vec<u8> {
    let tail = tail_of(status);
    frame(response_head(Encoding::None, !tail.is_empty(), status.code()), &[], &tail)
}

/// A message of these parts.
pub(crate) fn frame(head: [u8; HEAD_BYTES], body: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(frame_bytes(body.len(), tail.len()));
    frame.extend_from_slice(&head);
    frame.extend_from_slice(body);
    frame.extend_from_slice(tail);
    if !tail.is_empty() {
        frame.extend_from_slice(&(tail.len() as u32).to_le_bytes());
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_or_the_message_is_refused() {
        let frame = status_frame(&Status::unavailable("later"));
        let message = MsgBuf::from_slice(&frame);
        let found = parts(&message, true).expect("it is well-formed");
        assert!(found.body.is_empty());
        assert_eq!(frame.len(), frame_bytes(0, found.tail.len()));
        let (start, _) = petasos_call::split(&frame, true).expect("it is well-formed");
        assert_eq!(start, found.body);
        for bytes in [&[0; 7][..], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[0; 11]] {
            assert!(parts(&MsgBuf::from_slice(bytes), true).is_err(), "{bytes:?}");
        }
        let whole = parts(&MsgBuf::from_slice(&[0; 20]), false).expect("no tail");
        assert_eq!((whole.body, whole.tail), (8..20, 0..0));
    }
}
