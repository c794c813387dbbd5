//! A unary method whose requests are events.

use core::time::Duration;

use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_call::{
    Code, Codec, Failure, HEAD_BYTES, Malformed, RequestHead, ResponseHead, Status, split,
};
use petasos_endpoint::{Context, Payload, PeerKey, RejectCode, Request, RequestHandle};
use petasos_message::buffer;
use petasos_rpc::origin::Origin;
use petasos_rpc::recode::{unpacked, unpacked_short};
use petasos_rpc::request::tail_of;

use crate::buffers::{free, kept, respond_image};
use crate::dispatcher::{Dispatcher, DispatcherParts, LocalMethod, has_room};
use crate::local::Local;
use crate::relayed::{Arrived, Event, Reply, RequestName, Waiting};
use crate::remote::Outcome;
use crate::task::Task;
use crate::unpacking;

/// A unary method that is answered by [`Runtime::reply`](crate::Runtime::reply).
pub struct Relayed {
    /// The method's index in the loop.
    kind: u32,
    /// Tells its requests from those of other methods.
    token: u64,
}

impl Relayed {
    /// The method with this index in the loop.
    pub fn new(kind: u32, token: u64) -> Relayed {
        Relayed { kind, token }
    }

    /// Starts to wait for the answer of a request.
    fn wait(
        &self,
        parts: &mut DispatcherParts,
        cx: &Context<Dispatcher>,
        handle: RequestHandle,
        head: &RequestHead,
        deadline: Time,
    ) -> RequestName {
        let (key, since) = (handle.key(), cx.now());
        let waiting = Waiting { handle, since, answer: head.answer };
        let name = parts.local.relay.borrow_mut().take_place(self.kind, waiting);
        let RequestName { kind, slot, generation } = name;
        parts.wait(since, key, Task { kind, slot }, generation, deadline);
        name
    }

    /// Decompresses a request of `client`; on another thread if that is slow.
    #[cold]
    fn unpack(
        &self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        handle: RequestHandle,
        payload: Payload<'_>,
        (head, origin, deadline): (RequestHead, Origin, Time),
    ) {
        let session = handle.key().session();
        let limit = cx.served_params(session).map_or(0, |it| it.request_bytes_max as usize);
        let client = cx.served_peer_key(session);
        let bytes = kept(cx, payload).unwrap_or_else(|payload| {
            let bytes = MsgBuf::from_slice(&payload);
            free(cx, payload);
            bytes
        });
        let short = plain(&bytes, &head, |body| unpacked_short(head.codec, body, limit));
        match short.transpose() {
            Some(Ok(bytes)) => {
                let name = self.wait(parts, cx, handle, &head, deadline);
                let token = self.token;
                let arrived = Arrived { name, token, bytes, head, origin, session, deadline };
                parts.local.relay.borrow_mut().events.push_back(Event::Arrived(arrived));
            }
            Some(Err(status)) => refuse(parts, cx, handle, &status),
            None => match unpack_elsewhere(client, bytes, head, limit) {
                Err(unpacking::Busy) => cx.reject(handle, RejectCode::Overloaded),
                Ok(unpacking) => {
                    let name = self.wait(parts, cx, handle, &head, deadline);
                    let (local, token) = (parts.local, self.token);
                    local.spawn(Box::pin(async move {
                        let outcome = unpacking.await;
                        let made =
                            |bytes| Arrived { name, token, bytes, head, origin, session, deadline };
                        local.unpacked(name, outcome.map(made));
                    }));
                }
            },
        }
    }

    /// Answers the request in a place, if its reply is there.
    fn answer(&self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        let (Waiting { handle, since, answer }, reply) = {
            let mut relay = parts.local.relay.borrow_mut();
            let place = relay.places.get_mut(slot as usize);
            let Some(reply) = place.and_then(|place| place.reply.take()) else { return };
            let waiting = relay.release(slot).expect("only a request that waits has a reply");
            (waiting, reply)
        };
        parts.answered(handle.key(), since, cx.now());
        let Reply { result, metadata, trailers } = reply;
        let (encoding, image) = match result {
            Ok(response) => response,
            Err(status) => return parts.refuse(cx, handle, &status),
        };
        let tail = tail_of(&metadata, &trailers);
        let head = ResponseHead {
            encoding,
            codec: Codec::IDENTITY,
            has_tail: !tail.is_empty(),
            code: Code::Ok,
            load: parts.load(),
        };
        respond_image(cx, handle, (image, &tail), head, answer.codec);
    }

    /// The request in a place has no answer: gives its handle.
    fn leave(
        &self,
        parts: &mut DispatcherParts,
        cx: &Context<Dispatcher>,
        slot: u32,
    ) -> Option<RequestHandle> {
        let waiting = {
            let mut relay = parts.local.relay.borrow_mut();
            let generation = relay.places.get(slot as usize)?.generation;
            let waiting = relay.release(slot)?;
            let name = RequestName { kind: self.kind, slot, generation };
            relay.events.push_back(Event::Left(name));
            waiting
        };
        parts.answered(waiting.handle.key(), waiting.since, cx.now());
        Some(waiting.handle)
    }
}

impl Local {
    /// A request has been decompressed.
    #[cold]
    fn unpacked(&self, name: RequestName, outcome: Result<Arrived, Status>) {
        match outcome {
            Ok(arrived) => {
                let mut relay = self.relay.borrow_mut();
                if relay.place(name).is_some() {
                    relay.events.push_back(Event::Arrived(arrived));
                }
            }
            Err(status) => {
                let (metadata, trailers) = Default::default();
                self.reply_relayed(name, Reply { result: Err(status), metadata, trailers });
            }
        }
    }
}

impl LocalMethod for Relayed {
    fn start(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        request: &mut Request<'_>,
    ) {
        let payload = core::mem::replace(&mut request.payload, Payload::Frame(&[]));
        let handle = request.handle.take();
        let head = payload.first_chunk().ok_or(Malformed::TooShort);
        let head = match head.and_then(|head| RequestHead::parse(*head)) {
            Ok(head) => head,
            Err(malformed) => {
                parts.refuse_malformed(cx, handle, malformed);
                return free(cx, payload);
            }
        };
        if let Some(code) = parts.refusal(cx, has_room(&payload)) {
            cx.reject(handle, code);
            return free(cx, payload);
        }
        let session = handle.key().session();
        let origin = parts.origin(cx, session);
        let left = Duration::from_micros(head.time_left_us.into());
        let deadline = if left.is_zero() { Time::NEVER } else { cx.now() + left };
        if head.codec != Codec::IDENTITY {
            return self.unpack(parts, cx, handle, payload, (head, origin, deadline));
        }
        let bytes = kept(cx, payload).unwrap_or_else(|payload| {
            let mut bytes = buffer(payload.len());
            petasos_buf::copy_short(bytes.as_mut_slice(), &payload);
            free(cx, payload);
            bytes
        });
        let name = self.wait(parts, cx, handle, &head, deadline);
        let token = self.token;
        let arrived = Arrived { name, token, bytes, head, origin, session, deadline };
        parts.local.relay.borrow_mut().events.push_back(Event::Arrived(arrived));
    }

    fn poll(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        self.answer(parts, cx, slot);
    }

    fn untimed(self: Box<Self>) -> Result<Box<dyn LocalMethod>, Box<dyn LocalMethod>> {
        Err(self)
    }

    fn is_waiting(&self, _: u32) -> bool {
        // Nobody watches these requests.
        false
    }

    fn abandon(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        // The handle is no longer valid, so no answer is possible.
        let _void = self.leave(parts, cx, slot);
    }

    fn cut_off(&mut self, parts: &mut DispatcherParts, cx: &mut Context<Dispatcher>, slot: u32) {
        if let Some(handle) = self.leave(parts, cx, slot) {
            parts.refuse(cx, handle, &Failure::Draining.status());
        }
    }

    fn expire(
        &mut self,
        parts: &mut DispatcherParts,
        cx: &mut Context<Dispatcher>,
        slot: u32,
        generation: u32,
    ) {
        let name = RequestName { kind: self.kind, slot, generation };
        if parts.local.relay.borrow_mut().place(name).is_none() {
            return;
        }
        if let Some(handle) = self.leave(parts, cx, slot) {
            let late = Status::deadline_exceeded("the handler was not done in time");
            parts.refuse(cx, handle, &late);
        }
    }
}

/// Answers a request that cannot be decompressed.
#[cold]
fn refuse(
    parts: &mut DispatcherParts,
    cx: &mut Context<Dispatcher>,
    handle: RequestHandle,
    status: &Status,
) {
    parts.note_malformed(u64::from(status.code() == Code::Internal));
    parts.refuse(cx, handle, status);
}

/// A compressed request with its body as `unpack` gives it.
fn plain(
    bytes: &[u8],
    head: &RequestHead,
    unpack: impl FnOnce(&[u8]) -> Result<Option<Vec<u8>>, Status>,
) -> Result<Option<MsgBuf>, Status> {
    let (body, _) = split(bytes, head.has_tail)?;
    let after = &bytes[body.end..];
    let unpacked = unpack(&bytes[body])?;
    Ok(unpacked.map(|body| MsgBuf::from_slice(&[&bytes[..HEAD_BYTES], &body, after].concat())))
}

#[cold]
fn unpack_elsewhere(
    client: PeerKey,
    bytes: MsgBuf,
    head: RequestHead,
    limit: usize,
) -> Result<unpacking::Unpacking<Outcome>, unpacking::Busy> {
    unpacking::start(client, move || {
        let unpack = |body: &[u8]| unpacked(head.codec, body, limit).map(Some);
        plain(&bytes, &head, unpack).map(|request| request.expect("it was decompressed"))
    })
}
