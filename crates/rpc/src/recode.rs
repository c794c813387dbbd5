//! Bodies in other forms than their usual one: protobuf for servers that cannot take the native
//! encoding, and compressed ones (R4, R8).
//!
//! A unary request is encoded before its session is known, natively, since that is what most
//! servers take. What its server takes is known when it is sent, and it changes its form then.

use core::fmt;

use petasos_buf::MsgBuf;
use petasos_call::{
    Answer, BoundMethod, Codec, CodecSet, Encoding, HEAD_BYTES, Malformed, RequestHead,
    ResponseHead, Status, split,
};
use petasos_message::{MESSAGE_BYTES_MAX, Message, to_protobuf, view_native};

use crate::codec::{undecodable, unencodable};

/// What is spoken here.
pub const SPOKEN: CodecSet = petasos_call::compress::SPOKEN;

/// How a unary request changes its form.
#[derive(Clone, Copy)]
pub struct Recode {
    /// From a native image, which begins at a multiple of 8, to protobuf.
    to_protobuf: fn(&[u8]) -> Result<MsgBuf, Status>,
    /// What the caller would like to compress with, both ways.
    codec: Codec,
}

impl Recode {
    /// For requests of this type.
    #[inline]
    pub fn of<Q: Message>(codec: Codec) -> Recode {
        Recode { to_protobuf: native_to_protobuf::<Q>, codec }
    }

    /// Whether the caller wishes for another form than the usual one.
    #[inline]
    pub fn is_wished(&self) -> bool {
        self.codec != Codec::IDENTITY
    }

    /// Whether a request to this method has to change.
    #[inline]
    pub fn is_needed(&self, method: &BoundMethod) -> bool {
        !(method.native_request && method.native_response) || self.is_wished()
    }

    /// The request, with head and tail, as the server takes it. It may have been recoded for
    /// another server before.
    ///
    /// # Errors
    /// If it becomes too large.
    #[cold]
    pub fn request(self, request: &[u8], method: &BoundMethod) -> Result<MsgBuf, Status> {
        let head = request.first_chunk().ok_or(Malformed::TooShort)?;
        let mut head = RequestHead::parse(*head)?;
        let (body, _) = split(request, head.has_tail)?;
        let after = &request[body.end..];
        let unpacked = match head.codec {
            Codec::IDENTITY => None,
            codec => Some(petasos_call::compress::decompress(
                codec,
                &request[body.clone()],
                MESSAGE_BYTES_MAX,
            )?),
        };
        let mut body = unpacked.as_deref().unwrap_or(&request[body]);
        let protobuf;
        if head.encoding == Encoding::Native && !method.native_request {
            // What was compressed may lie anywhere.
            let aligned = MsgBuf::from_slice(body);
            protobuf = (self.to_protobuf)(&aligned)?;
            body = &protobuf;
            head.encoding = Encoding::Protobuf;
        }
        head.codec = self.codec.for_body(body.len(), method.codecs);
        head.answer = Answer { native: method.native_response, codec: self.codec };
        Ok(assemble(head.to_bytes(), head.codec, body, after))
    }
}

impl fmt::Debug for Recode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recode").field("codec", &self.codec).finish_non_exhaustive()
    }
}

fn native_to_protobuf<Q: Message>(image: &[u8]) -> Result<MsgBuf, Status> {
    let message = view_native::<Q>(image).map_err(undecodable)?;
    Ok(to_protobuf(message, 0).map_err(unencodable)?.into_buf())
}

/// A response as it is sent: compressed, if the caller takes that and it is worth it.
#[cold]
pub fn compressed_response(mut head: ResponseHead, codec: Codec, message: &[u8]) -> MsgBuf {
    let (body, _) = split(message, head.has_tail).expect("it was just made");
    let (body, after) = message.split_at(body.end);
    let body = &body[HEAD_BYTES..];
    head.codec = codec.for_body(body.len(), SPOKEN);
    assemble(head.to_bytes(), head.codec, body, after)
}

/// The body of a message that came compressed, if that takes a moment: see
/// [`decompress_short`](petasos_call::compress::decompress_short).
///
/// # Errors
/// The sender's fault.
#[cold]
pub fn unpacked_short(codec: Codec, body: &[u8], limit: usize) -> Result<Option<Vec<u8>>, Status> {
    codec.check(SPOKEN)?;
    Ok(petasos_call::compress::decompress_short(codec, body, limit)?)
}

/// The body of a message that came compressed; at most `limit` bytes.
///
/// # Errors
/// The sender's fault.
#[cold]
pub fn unpacked(codec: Codec, body: &[u8], limit: usize) -> Result<Vec<u8>, Status> {
    codec.check(SPOKEN)?;
    Ok(petasos_call::compress::decompress(codec, body, limit)?)
}

/// A response that came compressed, with a body of at most `limit` bytes that is not. Its head goes
/// on naming the codec, for who asks.
///
/// # Errors
/// The sender's fault.
#[cold]
pub fn unpacked_response(response: &[u8], limit: usize) -> Result<MsgBuf, Status> {
    let unpack = |codec, body: &[u8]| unpacked(codec, body, limit).map(Some);
    unpacked_response_by(response, unpack).map(|unpacked| unpacked.expect("it is never left"))
}

/// [`unpacked_response`], if that takes a moment.
///
/// # Errors
/// The sender's fault.
#[cold]
pub fn unpacked_short_response(response: &[u8], limit: usize) -> Result<Option<MsgBuf>, Status> {
    unpacked_response_by(response, |codec, body| unpacked_short(codec, body, limit))
}

fn unpacked_response_by(
    response: &[u8],
    unpack: impl FnOnce(Codec, &[u8]) -> Result<Option<Vec<u8>>, Status>,
) -> Result<Option<MsgBuf>, Status> {
    let head = response.first_chunk().ok_or(Malformed::TooShort)?;
    let head = ResponseHead::parse(*head)?;
    let (body, _) = split(response, head.has_tail)?;
    let after = &response[body.end..];
    let body = unpack(head.codec, &response[body])?;
    Ok(body.map(|body| assemble(head.to_bytes(), Codec::IDENTITY, &body, after)))
}

/// Head, body in `codec`, and what is behind it.
fn assemble(head: [u8; HEAD_BYTES], codec: Codec, body: &[u8], after: &[u8]) -> MsgBuf {
    let packed;
    let body = match codec {
        Codec::IDENTITY => body,
        codec => {
            packed = petasos_call::compress::compress(codec, body, Vec::new());
            &packed
        }
    };
    MsgBuf::from_slice(&[&head, body, after].concat())
}
