//! Buffers of what was received, and of what is sent.

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN};
use petasos_endpoint::{Context, Payload, RequestHandle};

/// The buffer of what was received, for good, if it is so long that it should be read there; what
/// was received, otherwise.
#[inline]
pub fn kept<'a, S>(cx: &mut Context<S>, payload: Payload<'a>) -> Result<MsgBuf, Payload<'a>> {
    match payload {
        Payload::Buffer(buf) if buf.capacity() >= SPARE_BYTES_MIN => {
            cx.part_with(&buf);
            Ok(buf)
        }
        payload => Err(payload),
    }
}

/// Answers with a message in a buffer of its own, and long pieces of it from where they are.
#[inline(never)]
pub fn respond_in<S>(cx: &mut Context<S>, handle: RequestHandle, buf: MsgBuf) {
    if let Some(buf) = cx.respond_in(handle, buf) {
        petasos_message::recycle(buf);
    }
}

/// Gives the buffer of what was received back.
#[inline]
pub fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}
