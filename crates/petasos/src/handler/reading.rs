//! Decoding unary requests. Slow decompression runs on another thread, so that the loop's thread
//! can serve other calls meanwhile.

use petasos_buf::MsgBuf;
use petasos_call::{Code, Codec, RequestHead, Status, split};
use petasos_endpoint::{Context, Payload, PeerKey, RequestHandle, ServerSessionId};
use petasos_message::Message;
use petasos_rpc::codec::decode;
use petasos_rpc::origin::Origin;
use petasos_rpc::recode::{unpacked, unpacked_short};
use petasos_rpc::request::{Request, RequestParts as _};
use petasos_runtime::buffers::{free, kept, kept_with_attached};
use petasos_runtime::dispatcher::{Dispatcher, DispatcherParts};
use petasos_runtime::unpacking::{self, Busy, Unpacking};

use super::{exchange, long};

/// A request that another thread decompresses.
pub(super) type Unread<Q> = Unpacking<Result<Request<Q>, Status>>;

/// The result of starting to decode a request.
pub(super) enum Read<Q> {
    Request(Request<Q>),
    /// Decompression is slow, and was started on another thread.
    Elsewhere(Unread<Q>),
    /// Decompression would be slow, and too many requests wait for theirs.
    Nowhere,
}

/// Decodes a request of a session.
///
/// # Errors
/// R13: the request is malformed.
pub(super) fn read<Q: Message>(
    cx: &mut Context<Dispatcher>,
    payload: Payload<'_>,
    head: RequestHead,
    origin: Origin,
    session: ServerSessionId,
) -> Result<Read<Q>, Status> {
    if head.codec != Codec::IDENTITY {
        let params = cx.served_params(session);
        let limit = params.map_or(0, |params| params.request_bytes_max as usize);
        let client = cx.served_peer_key(session);
        return unpack(cx, payload, head, origin, (limit, client));
    }
    let request = match kept_with_attached(cx, payload) {
        Ok(buf) => long::read_request(buf, &head, origin),
        Err(payload) => {
            let request = exchange::read_request(&payload, &head, origin);
            free(cx, payload);
            request
        }
    };
    request.map(Read::Request)
}

/// Decompresses and decodes a request of `client`, up to `limit` bytes.
#[cold]
fn unpack<Q: Message>(
    cx: &mut Context<Dispatcher>,
    payload: Payload<'_>,
    head: RequestHead,
    origin: Origin,
    (limit, client): (usize, PeerKey),
) -> Result<Read<Q>, Status> {
    let by = |body: &[u8]| unpacked_short(head.codec, body, limit);
    if let Some(read) = read_by(&payload, &head, origin.clone(), by).transpose() {
        free(cx, payload);
        return read.map(Read::Request);
    }
    let bytes = kept(cx, payload).unwrap_or_else(|payload| {
        let bytes = MsgBuf::from_slice(&payload);
        free(cx, payload);
        bytes
    });
    let started = unpacking::start(client, move || {
        let by = |body: &[u8]| unpacked(head.codec, body, limit).map(Some);
        read_by(&bytes, &head, origin, by).map(|request| request.expect("it was decompressed"))
    });
    Ok(match started {
        Ok(request) => Read::Elsewhere(request),
        Err(Busy) => Read::Nowhere,
    })
}

/// Decodes the request in `bytes`, which begins with its head. `unpack` decompresses the body.
fn read_by<Q: Message>(
    bytes: &[u8],
    head: &RequestHead,
    origin: Origin,
    unpack: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, Status>,
) -> Result<Option<Request<Q>>, Status> {
    let (body, tail) = split(bytes, head.has_tail)?;
    let parts = exchange::call_parts(head, tail, origin)?;
    let Some(plain) = unpack(&bytes[body])? else { return Ok(None) };
    let message = decode(head.encoding, &plain)?;
    Ok(Some(Request::with(message, parts)))
}

/// Answers a request that cannot be decoded.
#[cold]
pub(super) fn refuse(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    handle: RequestHandle,
    status: &Status,
) {
    parts.note_malformed(u64::from(status.code() == Code::Internal));
    parts.refuse(cx, handle, status);
}
