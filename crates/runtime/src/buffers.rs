//! Buffers of received and sent messages.

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN};
use petasos_call::{Codec, ResponseHead};
use petasos_endpoint::{Context, Payload, RequestHandle};
use petasos_message::{Image, recycle};
use petasos_rpc::codec::framed;
use petasos_rpc::recode::compressed_response;

/// Responses of at least this many bytes are sent without copying them.
pub const LONG_BYTES_MIN: usize = SPARE_BYTES_MIN / 2;

/// Keeps the buffer of a received message, if the message is so long that it should be read in
/// place. Otherwise returns the payload.
#[inline]
pub fn kept<'a, S>(cx: &mut Context<S>, payload: Payload<'a>) -> Result<MsgBuf, Payload<'a>> {
    let mut kept = kept_with_attached(cx, payload);
    if let Ok(buf) = &mut kept {
        buf.flatten();
    }
    kept
}

/// The same, but a message that is attached to its buffer stays where it is.
#[inline]
pub fn kept_with_attached<'a, S>(
    cx: &mut Context<S>,
    payload: Payload<'a>,
) -> Result<MsgBuf, Payload<'a>> {
    match payload {
        Payload::Buffer(buf) if buf.capacity() >= SPARE_BYTES_MIN || buf.has_tail() => {
            cx.part_with(&buf);
            Ok(buf)
        }
        payload => Err(payload),
    }
}

/// Answers with a message in its own buffer; long pieces of it are sent without a copy.
#[inline(never)]
pub fn respond_in<S>(cx: &mut Context<S>, handle: RequestHandle, buf: MsgBuf) {
    if let Some(buf) = cx.respond_in(handle, buf) {
        recycle(buf);
    }
}

/// Answers with an encoded message and a tail that may be empty, compressed by `codec`.
pub fn respond_image<S>(
    cx: &mut Context<S>,
    handle: RequestHandle,
    (image, tail): (Image, &[u8]),
    head: ResponseHead,
    codec: Codec,
) {
    let mut buf = framed(image, head.to_bytes(), tail);
    match codec {
        Codec::IDENTITY if buf.len() >= LONG_BYTES_MIN => return respond_in(cx, handle, buf),
        Codec::IDENTITY => cx.respond_with(handle, &buf),
        codec => {
            buf.flatten();
            cx.respond_with(handle, &compressed_response(head, codec, &buf));
        }
    }
    recycle(buf);
}

/// Returns the buffer of a received message.
#[inline]
pub fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}
