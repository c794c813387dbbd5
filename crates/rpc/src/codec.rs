//! Decoding and encoding of message bodies, for both ends.

use core::ops::Range;

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN, copy_short};
use petasos_call::{
    Code, Codec, Encoding, HEAD_BYTES, Malformed, Metadata, ResponseHead, Status, read_tail, split,
};
use petasos_message::{
    DecodeError, DecodeLimits, EncodeError, Image, Input, Message, Msg, ROOM_BYTES, into_bytes,
    recycle,
};

use crate::request::{More, Response, ResponseParts as _, TAIL_BYTES_LIMIT};

/// The message in `body`, copied.
///
/// # Errors
/// The message cannot be decoded (R13): the sender's fault.
#[inline]
pub fn decode<T: Message>(encoding: Encoding, body: &[u8]) -> Result<Msg<T>, Status> {
    match encoding {
        Encoding::Native => Msg::copy_native(body).map_err(undecodable),
        _ => decode_other(encoding, body),
    }
}

/// The message at `body` in a buffer. A native message is read in place, and keeps the buffer.
///
/// # Errors
/// The message cannot be decoded (R13): the sender's fault.
#[inline]
pub fn decode_in<T: Message>(
    encoding: Encoding,
    bytes: MsgBuf,
    body: Range<usize>,
) -> Result<Msg<T>, Status> {
    if encoding == Encoding::Native {
        return Msg::from_native(bytes, body).map_err(undecodable);
    }
    if bytes.capacity() >= SPARE_BYTES_MIN && encoding == Encoding::Protobuf {
        // Long fields keep the buffer alive.
        return decode_protobuf(into_bytes(bytes).slice(body));
    }
    let message = decode_other(encoding, &bytes[body]);
    recycle(bytes);
    message
}

#[inline(never)]
fn decode_other<T: Message>(encoding: Encoding, body: &[u8]) -> Result<Msg<T>, Status> {
    if encoding == Encoding::None {
        return Err(Status::internal("a message without an encoding"));
    }
    let limits = DecodeLimits::for_input(body.len());
    Msg::from_protobuf(Input::Borrowed(body), &limits).map_err(undecodable)
}

/// A message after its head, and before a tail that may be empty (R5). Long pieces of the message
/// are not copied: they become the buffer's tail.
#[inline(always)]
pub fn framed(image: Image, head: [u8; HEAD_BYTES], tail: &[u8]) -> MsgBuf {
    headed(image.into_message(tail), head)
}

/// A native message after its head, in the same form (R5).
///
/// # Errors
/// The message is too large or nested too deeply.
#[inline(always)]
pub fn framed_native<T: Message>(
    message: Msg<T>,
    head: [u8; HEAD_BYTES],
) -> Result<MsgBuf, EncodeError> {
    Ok(headed(Msg::into_native_buf(message)?, head))
}

/// Writes a head into the room before a message.
#[inline(always)]
fn headed(mut buf: MsgBuf, head: [u8; HEAD_BYTES]) -> MsgBuf {
    buf.skip(ROOM_BYTES - HEAD_BYTES);
    copy_short(&mut buf.as_mut_slice()[..HEAD_BYTES], &head);
    buf
}

/// Decodes a message from bytes, which its long fields keep alive.
///
/// # Errors
/// The message cannot be decoded: the sender's fault.
pub fn decode_protobuf<T: Message>(body: bytes::Bytes) -> Result<Msg<T>, Status> {
    let limits = DecodeLimits::for_input(body.len());
    Msg::from_protobuf(Input::Owned(body), &limits).map_err(undecodable)
}

/// The status of a call whose message cannot be decoded.
#[cold]
pub fn undecodable(error: DecodeError) -> Status {
    match error {
        DecodeError::TooLarge => Status::resource_exhausted(error.to_string()),
        error => Status::internal(error.to_string()),
    }
}

/// The status of a call whose message cannot be encoded.
#[cold]
pub fn unencodable(error: EncodeError) -> Status {
    Status::resource_exhausted(error.to_string())
}

/// Decodes a response (R5, R7). A message may be attached to its head, if there is nothing else.
#[inline(always)]
pub fn read_response<P: Message>(bytes: MsgBuf) -> Result<Response<P>, Status> {
    if let Some(head) = bytes.first_chunk()
        && ResponseHead::is_plain(*head)
    {
        let body = HEAD_BYTES..bytes.len();
        return match Msg::from_native(bytes, body) {
            Ok(message) => Ok(Response::new(message)),
            Err(error) => Err(undecodable(error)),
        };
    }
    read_other_response(bytes)
}

/// Decodes a response that has more than a message.
#[cold]
#[inline(never)]
fn read_other_response<P: Message>(bytes: MsgBuf) -> Result<Response<P>, Status> {
    let head = bytes.first_chunk().ok_or(Malformed::TooShort)?;
    let head = ResponseHead::parse(*head)?;
    let (body, tail) = split(&bytes, head.has_tail)?;
    let parts = read_tail(tail, TAIL_BYTES_LIMIT)?;
    if head.code != Code::Ok {
        return Err(parts.into_status(head.code).0);
    }
    // The loop has already decompressed it.
    let compressed = Some(head.codec != Codec::IDENTITY);
    let message = decode_in(head.encoding, bytes, body)?;
    let (metadata, trailers) = (parts.initial, parts.trailing);
    Ok(Response::received(message, More { metadata, trailers, compressed }))
}

/// An encoded message, with room for heads before it: at least as many bytes as were asked for.
pub struct Encoded {
    /// The message, after the room.
    pub buf: MsgBuf,
    /// Where the message begins in `buf`.
    pub start: usize,
    /// How it is encoded.
    pub encoding: Encoding,
}

impl Encoded {
    /// Encodes a message, natively if the peer accepts that.
    pub fn new<T: Message>(
        message: Msg<T>,
        native: bool,
        room_bytes: usize,
    ) -> Result<Encoded, Status> {
        let (encoding, start, image) = match native {
            true => (Encoding::Native, petasos_message::ROOM_BYTES, Msg::into_native(message)),
            false => (Encoding::Protobuf, room_bytes, Msg::to_protobuf(&message, room_bytes)),
        };
        let buf = image.map_err(unencodable)?.into_message(&[]);
        Ok(Encoded { buf, start, encoding })
    }
}

/// Encodes the only request of a call: natively or not, after this many bytes of room.
pub type First = Box<dyn FnOnce(bool, usize) -> Result<Encoded, Status> + Send>;

/// What arrives on a stream, in order.
pub enum Incoming<T> {
    /// At a client: the initial metadata. At most once, before all messages.
    Head(Metadata),
    /// A message.
    Message(Msg<T>),
    /// The end. At a client the call has succeeded, with these trailing metadata.
    End(Metadata),
}
