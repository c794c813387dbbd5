//! Decoding unary requests, and encoding responses.

use core::time::Duration;

use petasos_call::{
    Answer, Code, Codec, Encoding, Metadata, RequestHead, ResponseHead, Status, read_tail, split,
};
use petasos_endpoint::{Context, RequestHandle};
use petasos_message::{Message, Msg, ROOM_BYTES, recycle};
use petasos_rpc::codec::{decode, framed_native, unencodable};
use petasos_rpc::compression::CameCompressed;
use petasos_rpc::extensions::Extensions;
use petasos_rpc::origin::Origin;
use petasos_rpc::request::{
    CallParts, More, Request, RequestParts as _, Response, ResponseParts as _, TAIL_BYTES_LIMIT,
    tail_of, with_trace,
};

use petasos_runtime::buffers::{LONG_BYTES_MIN, respond_image, respond_in};
use petasos_runtime::dispatcher::{Dispatcher, DispatcherParts};

/// The answer format of most calls.
pub(super) const PLAIN: Answer = Answer { native: true, codec: Codec::IDENTITY };

/// Decodes the uncompressed request in `bytes`, which begins with its head.
#[inline]
pub(super) fn read_request<Q: Message>(
    bytes: &[u8],
    head: &RequestHead,
    origin: Origin,
) -> Result<Request<Q>, Status> {
    let (body, tail) = split(bytes, head.has_tail)?;
    let parts = call_parts(head, tail, origin)?;
    let message = decode(head.encoding, &bytes[body])?;
    Ok(Request::with(message, parts))
}

/// The parts of a request besides its message.
#[inline]
pub(super) fn call_parts(
    head: &RequestHead,
    tail: &[u8],
    origin: Origin,
) -> Result<CallParts, Status> {
    let (metadata, mut extensions) = match head.has_tail {
        true => {
            let parts = read_tail(tail, TAIL_BYTES_LIMIT)?;
            (parts.initial, with_trace(parts.trace))
        }
        false => (Metadata::new(), Extensions::new()),
    };
    if head.codec != Codec::IDENTITY {
        extensions.insert(CameCompressed);
    }
    let left = Duration::from_micros(head.time_left_us.into());
    let timeout = (!left.is_zero()).then_some(left);
    Ok(CallParts { metadata, timeout, extensions, origin })
}

/// R5, R7: answers with a message and its metadata.
#[inline(always)]
pub(super) fn respond<P: Message>(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    handle: RequestHandle,
    response: Response<P>,
    answer: Answer,
) {
    let (message, more) = response.into_parts();
    if !(answer == PLAIN && more.is_none()) {
        return respond_otherwise(parts, cx, handle, message, more, answer);
    }
    let buf = match framed_native(message, parts.plain_head()) {
        Ok(buf) => buf,
        Err(error) => return parts.refuse(cx, handle, &unencodable(error)),
    };
    if buf.len() >= LONG_BYTES_MIN {
        return respond_in(cx, handle, buf);
    }
    cx.respond_with(handle, &buf);
    recycle(buf);
}

/// [`respond`] for unusual formats, and for responses with more than a message.
#[inline(never)]
fn respond_otherwise<P: Message>(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    handle: RequestHandle,
    message: Msg<P>,
    more: Option<Box<More>>,
    answer: Answer,
) {
    let More { metadata, trailers, compressed } = more.map(|more| *more).unwrap_or_default();
    let (encoding, image) = match answer.native {
        true => (Encoding::Native, Msg::into_native(message)),
        false => (Encoding::Protobuf, Msg::to_protobuf(&message, ROOM_BYTES)),
    };
    let image = match image {
        Ok(image) => image,
        Err(error) => return parts.refuse(cx, handle, &unencodable(error)),
    };
    let tail = tail_of(&metadata, &trailers);
    let head = ResponseHead {
        encoding,
        codec: Codec::IDENTITY,
        has_tail: !tail.is_empty(),
        code: Code::Ok,
        load: parts.load(),
    };
    let codec = if compressed == Some(false) { Codec::IDENTITY } else { answer.codec };
    respond_image(cx, handle, (image, &tail), head, codec);
}
