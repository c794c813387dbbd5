//! Long requests, which are decoded in the buffer where they were assembled, or where they lie if
//! they are attached to one.

use petasos_buf::MsgBuf;
use petasos_call::{Encoding, RequestHead, Status, split};
use petasos_message::{Message, recycle};
use petasos_rpc::codec::decode_in;
use petasos_rpc::origin::Origin;
use petasos_rpc::request::{Request, RequestParts as _};

use super::exchange;

/// Decodes an uncompressed request that has a buffer of its own.
///
/// # Errors
/// R13: the sender's fault.
#[inline(never)]
pub(super) fn read_request<Q: Message>(
    buf: MsgBuf,
    head: &RequestHead,
    origin: Origin,
) -> Result<Request<Q>, Status> {
    if head.encoding == Encoding::None {
        let request = exchange::read_request(&buf, head, origin);
        recycle(buf);
        return request;
    }
    let (body, tail) = match buf.has_tail() {
        // What is attached is the message, and there is nothing beside it.
        true => (buf.as_slice().len()..buf.len(), &[][..]),
        false => split(&buf, head.has_tail)?,
    };
    let parts = exchange::call_parts(head, tail, origin)?;
    let message = decode_in(head.encoding, buf, body)?;
    Ok(Request::with(message, parts))
}
