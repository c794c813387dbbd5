//! From received frames to handlers and continuations.

mod protected;

use petasos_base::Clock;
use petasos_netio::{Ecn, Frame, Frames, Origin};
use petasos_proto::{RequestAction, ResponseAction};
use petasos_wire::{Malformed, Packet, RawPacket, RejectCode};

use crate::call::{CallError, Completion};
use crate::core::{
    CallContext, Context, Core, Half, Prefetcher, SHORT_REQUEST_BYTES_MAX, counted_bytes,
};
use crate::handler::{Payload, Request, RequestHandle, RequestKey};
use crate::secure::sealer;
use crate::sessions::{ClientState, SessionId, ready};
use protected::handle_protected;

/// What is special about a batch of frames.
pub(crate) struct HandleWith<'a> {
    /// To be read for each frame, instead of once for all.
    pub(crate) clock: Option<&'a Clock>,
    /// Whether the network has marked some of the frames.
    pub(crate) marked: bool,
}

/// Handles the rest of `frames`. If a handler panics, calling it again goes on after its frame.
pub(crate) fn handle_frames<S>(
    state: &mut S,
    cx: &mut Context<S>,
    frames: &mut Frames<'_>,
    with: &HandleWith<'_>,
) {
    let plain = cx.core.faults.is_none() && cx.core.switches.zero_copy_requests;
    if with.clock.is_some() || with.marked || !plain {
        return handle_frames_singly(state, cx, frames, with.clock);
    }
    match (cx.core.looks_ahead(), frames.has_origins()) {
        (true, _) => handle_frames_ahead(state, cx, frames),
        (false, true) => handle_frames_of_origins(state, cx, frames),
        (false, false) => {
            for Frame { bytes, .. } in frames {
                handle_frame::<S, true, false>(state, cx, bytes, None);
            }
        }
    }
}

/// With frames whose origin the packet I/O tells.
#[inline(never)]
fn handle_frames_of_origins<S>(state: &mut S, cx: &mut Context<S>, frames: &mut Frames<'_>) {
    while let Some(Frame { bytes, .. }) = frames.next() {
        handle_frame::<S, true, true>(state, cx, bytes, frames.origin());
    }
}

/// With so many sessions that each packet meets one that is in no cache.
#[inline(never)]
fn handle_frames_ahead<S>(state: &mut S, cx: &mut Context<S>, frames: &mut Frames<'_>) {
    let mut prefetcher = Prefetcher::new(&cx.core, frames);
    while let Some(Frame { bytes, .. }) = frames.next() {
        prefetcher.step(&cx.core);
        handle_frame::<S, true, true>(state, cx, bytes, frames.origin());
    }
}

/// With marked frames, with injected faults, or without the optimisations of one clock reading for
/// all frames and of requests where they lie.
#[cold]
fn handle_frames_singly<S>(
    state: &mut S,
    cx: &mut Context<S>,
    frames: &mut Frames<'_>,
    clock: Option<&Clock>,
) {
    while let Some(Frame { bytes, ecn }) = frames.next() {
        let (core, origin) = (&mut cx.core, frames.origin());
        if let Some(clock) = clock {
            core.now = clock.now();
        }
        if core.faults.as_mut().is_some_and(|faults| faults.drops()) {
            core.stats.injected_losses += 1;
        } else if is_marked(ecn) {
            handle_any(state, cx, bytes, true, origin);
        } else if core.switches.zero_copy_requests {
            handle_frame::<S, true, true>(state, cx, bytes, origin);
        } else {
            handle_frame::<S, false, true>(state, cx, bytes, origin);
        }
    }
}

/// Handles a frame of `bytes` that the network has not marked. Nearly every packet is the only one
/// of its message and takes one of the two short cuts. Its origin matters only if it is `TOLD`.
#[inline(always)]
fn handle_frame<S, const ZERO_COPY: bool, const TOLD: bool>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    origin: Option<Origin>,
) {
    let fits = |of: Origin| !TOLD || origin.is_none_or(|origin| origin == of);
    let core = &mut cx.core;
    let Some(raw) = RawPacket::read(bytes) else {
        return count_malformed(core, Malformed::Short);
    };
    let (at, now) = (raw.session(), core.now);
    if raw.from_server() {
        if let Some(entry) = core.clients.at_mut(at)
            && fits(entry.origin)
            && let ClientState::Ready { session, .. } = &mut entry.state
            && let Some((context, payload)) = session.take_short(&raw, now)
        {
            let id = SessionId { index: at as u32, generation: entry.generation };
            if session.wants_turn() {
                core.touch_client(id.index);
            }
            return complete_short(state, cx, id, context, payload);
        }
    } else if let Some(entry) = core.servers.at_mut(at)
        && fits(entry.origin)
        && let Some(packet) = entry.session.take_short(&raw, false)
    {
        let (generation, request) = (entry.generation, packet.request());
        let handle = RequestHandle { session: at as u32, generation, request };
        let (method, payload) = (packet.method(), packet.payload());
        return match ZERO_COPY {
            true => run_handler(state, cx, handle, method, Payload::Frame(payload)),
            false => run_on_copy(state, cx, handle, method, payload),
        };
    }
    handle_any(state, cx, bytes, false, origin);
}

#[inline(always)]
pub(crate) fn is_marked(ecn: Ecn) -> bool {
    ecn == Ecn::CongestionExperienced
}

/// Every packet that is not of the commonest kind, and every wrong one.
#[cold]
fn handle_any<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    marked: bool,
    origin: Option<Origin>,
) {
    let core = &mut cx.core;
    let packet = match Packet::parse(bytes) {
        Ok(packet) => packet,
        Err(malformed) => return count_malformed(core, malformed),
    };
    if origin.is_some_and(|origin| core.is_misled(&packet, origin)) {
        core.stats.wrong_origin += 1;
        return;
    }
    match packet.has_checksum() {
        true => handle_protected(state, cx, bytes, packet, marked),
        false => handle_packet(state, cx, packet, marked),
    }
}

impl<S> Core<S> {
    /// Whether `packet` names a session whose packets come from elsewhere (W32). One that is being
    /// set up takes none in any case.
    fn is_misled(&self, packet: &Packet<'_>, origin: Origin) -> bool {
        let at = packet.session();
        let of = match packet.from_server() {
            true => self.clients.get(at).map(|entry| entry.origin),
            false => self.servers.get(at).map(|entry| entry.origin),
        };
        of.is_some_and(|of| of != origin && of != Origin::UNTOLD)
    }
}

/// A whole packet.
pub(crate) fn handle_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    packet: Packet<'_>,
    marked: bool,
) {
    if packet.from_server() {
        on_server_packet(state, cx, packet.response_without_padding(), marked);
    } else {
        let packet = packet.request_without_padding();
        on_client_packet(state, cx, packet, marked);
    }
}

#[cold]
pub(crate) fn count_malformed<S>(core: &mut Core<S>, malformed: Malformed) {
    match malformed {
        Malformed::Short => core.stats.malformed_short += 1,
        Malformed::Version(_) => core.stats.malformed_version += 1,
        Malformed::Kind(_) => core.stats.malformed_kind += 1,
        Malformed::Checksum => core.stats.malformed_checksum += 1,
        _ => core.stats.malformed_other += 1,
    }
}

/// A packet for a server session of ours.
fn on_client_packet<S>(state: &mut S, cx: &mut Context<S>, packet: Packet<'_>, marked: bool) {
    let core = &mut cx.core;
    let index = packet.session();
    let Some(entry) = core.servers.get_mut(index) else {
        core.stats.unknown_session += 1;
        return;
    };
    let slot = entry.session.slot_of(packet.request());
    let latest = entry.session.request_in(slot);
    let was_running = entry.session.is_running(latest);
    let was_receiving = entry.session.is_receiving(slot);
    let action = entry.session.handle_packet(&packet, marked);
    if entry.assembling > 0 || matches!(action, RequestAction::Begin { .. }) {
        core.on_assembly(index, action, was_receiving.then_some(slot));
    }
    let Some(entry) = core.servers.get_mut(index) else { return };
    if was_running && !entry.session.is_running(latest) {
        let key = RequestKey { session: index, generation: entry.generation, request: latest };
        return on_abandoning_packet(state, cx, packet, action, key);
    }
    on_action(state, cx, index, packet, action);
}

/// A packet that ends, or replaces, the request that `key` names, which was running.
fn on_abandoning_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    packet: Packet<'_>,
    action: RequestAction,
    key: RequestKey,
) {
    if let Some(hook) = cx.core.hooks.on_abandoned {
        hook(state, cx, key);
    }
    on_action(state, cx, key.session, packet, action);
}

fn on_action<S>(
    state: &mut S,
    cx: &mut Context<S>,
    index: u32,
    packet: Packet<'_>,
    action: RequestAction,
) {
    let core = &mut cx.core;
    let Some(entry) = core.servers.get_mut(index) else { return };
    match action {
        RequestAction::Deliver => {
            let (generation, request) = (entry.generation, packet.request());
            let handle = RequestHandle { session: index, generation, request };
            let (method, payload) = (packet.method(), packet.payload());
            if core.switches.zero_copy_requests {
                run_handler(state, cx, handle, method, Payload::Frame(payload));
            } else {
                run_on_copy(state, cx, handle, method, payload);
            }
        }
        RequestAction::None => core.touch_server(index),
        action => on_request_action(state, cx, index, packet, action),
    }
}

/// What concerns requests of several packets and everything rare.
fn on_request_action<S>(
    state: &mut S,
    cx: &mut Context<S>,
    index: u32,
    packet: Packet<'_>,
    action: RequestAction,
) {
    let core = &mut cx.core;
    match action {
        RequestAction::Store { slot, offset, last } => {
            core.touch_server(index);
            core.share_with(Half::Server(index));
            store_request(core, index, slot, offset, packet.payload());
            if last {
                let entry = core.servers.get_mut(index).expect("the session was just found");
                let buf = entry.session.kept_mut(slot).take();
                let buf = buf.expect("a request being received has a buffer");
                let (generation, request) = (entry.generation, packet.request());
                let handle = RequestHandle { session: index, generation, request };
                run_handler(state, cx, handle, packet.method(), Payload::Buffer(buf));
            }
        }
        RequestAction::Begin { slot, bytes, offset } => {
            core.touch_server(index);
            core.share_with(Half::Server(index));
            if !core.admits_assembly(index) {
                core.stats.assemblies_refused += 1;
                core.reject(index, packet.request(), RejectCode::Overloaded);
                return core.count_assemblies(index);
            }
            let Some(buf) = core.take_buffer(bytes as usize) else {
                return core.reject(index, packet.request(), RejectCode::Overloaded);
            };
            let entry = core.servers.get_mut(index).expect("the session was just found");
            if let Some(old) = entry.session.kept_mut(slot).put(buf) {
                core.pool.give(old);
            }
            store_request(core, index, slot, offset, packet.payload());
        }
        RequestAction::Repeat { slot } => {
            core.note_repeated(index, slot);
            core.send_response(index, slot, 0, 1);
        }
        RequestAction::Pull { slot, start, end } => core.send_pulled(index, slot, start, end),
        RequestAction::Reject(transmit) => {
            let entry = core.servers.get_mut(index).expect("the session was just found");
            core.tx.push_bare(entry.route, transmit.header, &[], sealer(&mut entry.secure));
        }
        RequestAction::Released { slot } => {
            let entry = core.servers.get_mut(index).expect("the session was just found");
            if let Some(buf) = entry.session.kept_mut(slot).take() {
                core.pool.give(buf);
            }
        }
        RequestAction::None | RequestAction::Deliver => {}
    }
}

fn store_request<S>(core: &mut Core<S>, index: u32, slot: u32, offset: u32, payload: &[u8]) {
    let entry = core.servers.get_mut(index).expect("the session was just found");
    let buf = entry.session.kept_mut(slot).buffer_mut();
    store(buf.expect("a request being received has a buffer"), offset, payload);
}

#[inline]
fn store(buf: &mut [u8], offset: u32, payload: &[u8]) {
    let start = offset as usize;
    buf[start..start + payload.len()].copy_from_slice(payload);
}

#[inline(always)]
pub(crate) fn run_handler<S>(
    state: &mut S,
    cx: &mut Context<S>,
    handle: RequestHandle,
    method: u16,
    payload: Payload<'_>,
) {
    let handler = cx.core.handlers.get(usize::from(method)).copied().unwrap_or(refuse);
    handler(state, cx, Request { handle, method, payload });
}

/// Answers the request in `frame`, whose handler has panicked. Nothing if the panic was not a
/// handler's: a continuation runs for packets from servers only.
#[cold]
pub(crate) fn answer_panic<S>(core: &mut Core<S>, frame: &[u8]) {
    if let Ok(packet) = Packet::parse(frame)
        && !packet.from_server()
    {
        core.reject(packet.session(), packet.request(), RejectCode::HandlerFailed);
    }
}

/// What zero-copy requests save: the handler gets the request in a buffer of its own.
#[cold]
fn run_on_copy<S>(
    state: &mut S,
    cx: &mut Context<S>,
    handle: RequestHandle,
    method: u16,
    payload: &[u8],
) {
    let Some(mut buf) = cx.core.take_buffer(payload.len()) else {
        return cx.core.reject(handle.session, handle.request, RejectCode::Overloaded);
    };
    buf.copy_from(payload);
    run_handler(state, cx, handle, method, Payload::Buffer(buf));
}

/// The handler of methods that have none.
pub(crate) fn refuse<S>(_: &mut S, cx: &mut Context<S>, request: Request<'_>) {
    let (core, handle) = (&mut cx.core, request.handle);
    if let Payload::Buffer(buf) = request.payload {
        core.pool.give(buf);
    }
    let code = if core.draining {
        RejectCode::Draining
    } else {
        core.stats.unknown_methods += 1;
        RejectCode::UnknownMethod
    };
    core.reject(handle.session, handle.request, code);
}

/// A packet for a client session of ours.
fn on_server_packet<S>(state: &mut S, cx: &mut Context<S>, packet: Packet<'_>, marked: bool) {
    let core = &mut cx.core;
    let (index, now) = (packet.session(), core.now);
    let Some(entry) = core.clients.get_mut(index) else {
        core.stats.unknown_session += 1;
        return;
    };
    let id = SessionId { index, generation: entry.generation };
    let Some(session) = ready(entry) else {
        core.stats.unknown_session += 1;
        return;
    };
    let action = session.handle_packet(&packet, marked, now);
    match action {
        ResponseAction::Complete { slot } => {
            let context = session.complete(slot);
            if session.wants_turn() {
                core.touch_client(index);
            }
            complete(state, cx, id, context, Payload::Frame(packet.payload()));
        }
        ResponseAction::None => core.touch_client(index),
        action => on_response_action(state, cx, id, packet, action),
    }
}

/// What concerns responses of several packets and everything rare.
fn on_response_action<S>(
    state: &mut S,
    cx: &mut Context<S>,
    id: SessionId,
    packet: Packet<'_>,
    action: ResponseAction<CallContext<S>>,
) {
    let core = &mut cx.core;
    core.touch_client(id.index);
    match action {
        ResponseAction::Begin { slot, bytes } => begin_response(core, id, slot, bytes, packet),
        ResponseAction::Store { slot, offset, last } => {
            core.share_with(Half::Client(id.index));
            let context = session_of(core, id).context_mut(slot);
            let buf = context.response.as_mut().and_then(|response| (**response).as_mut());
            let buf = buf.expect("a pulled response has a buffer");
            store(buf, offset, packet.payload());
            if last {
                finish_response(state, cx, id, slot);
            }
        }
        ResponseAction::Overlong(context, cancel) => {
            core.push_to_peer(id, cancel);
            core.finish_later(id, context, CallError::ResponseTooLarge);
        }
        ResponseAction::Rejected(context, code) => {
            core.finish_later(id, context, CallError::from_reject(code));
        }
        ResponseAction::SessionReset => core.fail_client(id, CallError::SessionClosed),
        ResponseAction::None | ResponseAction::Complete { .. } => {}
    }
}

fn session_of<S>(
    core: &mut Core<S>,
    id: SessionId,
) -> &mut petasos_proto::ClientSession<CallContext<S>> {
    let entry = core.clients.get_mut(id.index).expect("the session was just found");
    ready(entry).expect("the session was just found ready")
}

fn begin_response<S>(core: &mut Core<S>, id: SessionId, slot: u32, bytes: u32, packet: Packet<'_>) {
    let Some(mut buf) = core.take_for_response(id.index, bytes) else {
        let session = session_of(core, id);
        let number = session.call_in(slot);
        let ended = session.cancel(number).expect("the call has just begun its response");
        if let Some(cancel) = ended.cancel {
            core.push_to_peer(id, cancel);
        }
        return core.finish_later(id, ended.context, CallError::OutOfMemory);
    };
    core.share_with(Half::Client(id.index));
    store(&mut buf, 0, packet.payload());
    let response = core.response_boxes.put(buf);
    session_of(core, id).context_mut(slot).response = Some(response);
}

fn finish_response<S>(state: &mut S, cx: &mut Context<S>, id: SessionId, slot: u32) {
    let core = &mut cx.core;
    let (mut context, done) = session_of(core, id).finish(slot);
    core.push_to_peer(id, done);
    let response = context.response.take().expect("a pulled response has a buffer");
    let response = core.response_boxes.take(response);
    core.forget_response(id.index, &response);
    complete(state, cx, id, context, Payload::Buffer(response));
}

/// Runs the continuation of a short call.
#[inline(always)]
pub(crate) fn complete_short<S>(
    state: &mut S,
    cx: &mut Context<S>,
    session: SessionId,
    context: CallContext<S>,
    payload: &[u8],
) {
    let bytes = context.request.len();
    if bytes > SHORT_REQUEST_BYTES_MAX {
        cx.core.request_bytes -= bytes;
    }
    let CallContext { request, continuation, tag, response } = context;
    debug_assert!(response.is_none(), "a short response has no buffer");
    // Spares the check for the buffer that is not there.
    core::mem::forget(response);
    let completion = Completion { tag, session, request, result: Ok(Payload::Frame(payload)) };
    continuation(state, cx, completion);
}

fn complete<S>(
    state: &mut S,
    cx: &mut Context<S>,
    session: SessionId,
    context: CallContext<S>,
    payload: Payload<'_>,
) {
    cx.core.request_bytes -= counted_bytes(context.request.len());
    let CallContext { request, continuation, tag, .. } = context;
    let completion = Completion { tag, session, request, result: Ok(payload) };
    continuation(state, cx, completion);
}

/// Runs the continuations of calls that ended without a response.
pub(crate) fn run_finished<S>(state: &mut S, cx: &mut Context<S>) {
    while let Some(finished) = cx.core.finished.pop() {
        let CallContext { request, continuation, tag, .. } = finished.context;
        let (session, result) = (finished.session, Err(finished.error));
        let completion = Completion { tag, session, request, result };
        continuation(state, cx, completion);
    }
}
