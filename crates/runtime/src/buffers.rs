//! Buffers of received and sent messages.

use petasos_buf::{MsgBuf, SPARE_BYTES_MIN};
use petasos_endpoint::{Context, Payload, RequestHandle};

/// Keeps the buffer of a received message, if the message is so long that it should be read in
/// place. Otherwise returns the payload.
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

/// Answers with a message in its own buffer; long pieces of it are sent without a copy.
#[inline(never)]
pub fn respond_in<S>(cx: &mut Context<S>, handle: RequestHandle, buf: MsgBuf) {
    if let Some(buf) = cx.respond_in(handle, buf) {
        petasos_message::recycle(buf);
    }
}

/// Returns the buffer of a received message.
#[inline]
pub fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}
