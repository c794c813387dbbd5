//! Bodies in other forms than the usual one: protobuf for servers that do not accept the native
//! encoding, and compressed bodies (R4, R8).
//!
//! A unary request is encoded before its session is known: natively, since most servers accept
//! that. What its server accepts is known when the request is sent, and then it is converted if
//! necessary.

use core::fmt;

use petasos_buf::{MsgBuf, memory};
use petasos_call::compress::decompressed_bytes_max;
use petasos_call::{
    Answer, BoundMethod, Codec, CodecSet, Encoding, HEAD_BYTES, Malformed, RequestHead,
    ResponseHead, Status, split,
};
use petasos_message::{MESSAGE_BYTES_MAX, Message, to_protobuf, view_native};

use crate::codec::{undecodable, unencodable};

/// The codecs that this end supports.
pub const SPOKEN: CodecSet = petasos_call::compress::SPOKEN;

/// How a unary request is converted.
#[derive(Clone, Copy)]
pub struct Recode {
    /// Converts a native image, which begins at a multiple of 8, to protobuf.
    to_protobuf: fn(&[u8]) -> Result<MsgBuf, Status>,
    form: Form,
    /// The codec that the caller would like for request and response.
    codec: Codec,
}

/// What a request is, before it is converted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Of a type that is known here.
    Typed,
    /// An image of a type that is not known here.
    Image,
    /// Protobuf; and it asks for such a response.
    Protobuf,
}

impl Recode {
    /// The conversion of requests of this type.
    #[inline]
    pub fn of<Q: Message>(codec: Codec) -> Recode {
        Recode { to_protobuf: native_to_protobuf::<Q>, form: Form::Typed, codec }
    }

    /// That of requests that are protobuf already, and ask for such a response: none.
    pub const fn none() -> Recode {
        Recode::untyped(Form::Protobuf)
    }

    /// That of requests that are images, and of which only the caller knows the type: they
    /// [go back](Recode::is_left_to_caller) to it.
    pub const fn by_caller() -> Recode {
        Recode::untyped(Form::Image)
    }

    const fn untyped(form: Form) -> Recode {
        let to_protobuf = |_: &[u8]| Err(Status::internal("the request's type is not known"));
        Recode { to_protobuf, form, codec: Codec::IDENTITY }
    }

    /// Whether the caller has to convert the request, if that is needed.
    #[inline]
    pub fn is_left_to_caller(&self) -> bool {
        self.form == Form::Image
    }

    /// Whether the caller asks for compression.
    #[inline]
    pub fn is_wished(&self) -> bool {
        self.codec != Codec::IDENTITY
    }

    /// Whether a request to this method has to be converted.
    #[inline]
    pub fn is_needed(&self, method: &BoundMethod) -> bool {
        let is_protobuf = self.form == Form::Protobuf;
        let is_accepted = is_protobuf || method.native_request && method.native_response;
        !is_accepted || self.is_wished()
    }

    /// The request, with head and tail, in a form that the server accepts. It may have been
    /// converted for another server before.
    ///
    /// # Errors
    /// The converted request is too large.
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
            // A decompressed body may be at any address.
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

/// A response ready to be sent: compressed, if the caller accepts that and it saves enough.
#[cold]
pub fn compressed_response(mut head: ResponseHead, codec: Codec, message: &[u8]) -> MsgBuf {
    let (body, _) = split(message, head.has_tail).expect("it was just made");
    let (body, after) = message.split_at(body.end);
    let body = &body[HEAD_BYTES..];
    head.codec = codec.for_body(body.len(), SPOKEN);
    assemble(head.to_bytes(), head.codec, body, after)
}

/// The body of a compressed message, if decompressing it is quick: see
/// [`decompress_short`](petasos_call::compress::decompress_short).
///
/// # Errors
/// The body cannot be decompressed: the sender's fault.
#[cold]
pub fn unpacked_short(codec: Codec, body: &[u8], limit: usize) -> Result<Option<Vec<u8>>, Status> {
    codec.check(SPOKEN)?;
    Ok(petasos_call::compress::decompress_short(codec, body, limit)?)
}

/// The body of a compressed message; at most `limit` bytes. What it may take counts for the process
/// meanwhile.
///
/// # Errors The body cannot be decompressed, or is too long: the sender's fault.
/// `RESOURCE_EXHAUSTED` also if the process has no memory for it.
#[cold]
pub fn unpacked(codec: Codec, body: &[u8], limit: usize) -> Result<Vec<u8>, Status> {
    codec.check(SPOKEN)?;
    let _reserved = memory::reserve(decompressed_bytes_max(codec, body.len(), limit))
        .ok_or_else(|| Status::resource_exhausted("there is no memory for the message"))?;
    Ok(petasos_call::compress::decompress(codec, body, limit)?)
}

/// A compressed response with its body decompressed to at most `limit` bytes. Its head still names
/// the codec, so that the caller can ask for it.
///
/// # Errors
/// The body cannot be decompressed, or is too long: the sender's fault.
#[cold]
pub fn unpacked_response(response: &[u8], limit: usize) -> Result<MsgBuf, Status> {
    let unpack = |codec, body: &[u8]| unpacked(codec, body, limit).map(Some);
    unpacked_response_by(response, unpack).map(|unpacked| unpacked.expect("it is never left"))
}

/// Like [`unpacked_response`], if decompressing is quick.
///
/// # Errors
/// The body cannot be decompressed, or is too long: the sender's fault.
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

/// Joins a head, a body in `codec`, and the bytes after it.
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
