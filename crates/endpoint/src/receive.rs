//! From received frames to handlers and continuations.

use petasos_netio::{Ecn, Frame, Frames};
use petasos_proto::{RequestAction, ResponseAction};
use petasos_wire::{CHECKSUM_BYTES, Malformed, Packet, RejectCode};

use crate::call::{CallContext, CallError, Completion};
use crate::context::Context;
use crate::core::{Core, Running, ready};
use crate::handler::{Payload, Request, RequestHandle};
use crate::sessions::SessionId;

/// Handles the rest of `frames`. If a handler panics, calling it again goes on after its frame.
pub(crate) fn handle_frames<S>(
    state: &mut S,
    core: &mut Core<S>,
    frames: &mut Frames<'_>,
    clock: Option<&petasos_base::Clock>,
) {
    for frame in frames {
        if let Some(clock) = clock {
            core.now = clock.now();
        }
        handle_frame(state, core, frame);
    }
}

#[inline(always)]
fn handle_frame<S>(state: &mut S, core: &mut Core<S>, frame: Frame<'_>) {
    if core.faults.as_mut().is_some_and(|faults| faults.drops()) {
        core.stats.injected_losses += 1;
        return;
    }
    let packet = match Packet::parse(frame.bytes) {
        Ok(packet) => packet,
        Err(malformed) => return count_malformed(core, malformed),
    };
    let packet = if packet.has_checksum() {
        match verified(frame.bytes, packet) {
            Ok(packet) => packet,
            Err(malformed) => return count_malformed(core, malformed),
        }
    } else {
        packet
    };
    if packet.from_server() {
        on_server_packet(state, core, packet.response_without_padding());
    } else {
        let packet = packet.request_without_padding();
        on_client_packet(state, core, packet, frame.ecn == Ecn::CongestionExperienced);
    }
}

/// Checks the CRC32C at the end of `bytes` and cuts it off the packet's payload (W12).
fn verified<'a>(bytes: &'a [u8], packet: Packet<'a>) -> Result<Packet<'a>, Malformed> {
    let (Some((covered, trailer)), Some((payload, _))) = (
        bytes.split_last_chunk::<CHECKSUM_BYTES>(),
        packet.payload().split_last_chunk::<CHECKSUM_BYTES>(),
    ) else {
        return Err(Malformed::Short);
    };
    let matches = crc32c::crc32c(covered) == u32::from_le_bytes(*trailer);
    if matches { Ok(packet.with_payload(payload)) } else { Err(Malformed::Checksum) }
}

#[cold]
fn count_malformed<S>(core: &mut Core<S>, malformed: Malformed) {
    match malformed {
        Malformed::Short => core.stats.malformed_short += 1,
        Malformed::Version(_) => core.stats.malformed_version += 1,
        Malformed::Kind(_) => core.stats.malformed_kind += 1,
        Malformed::Checksum => core.stats.malformed_checksum += 1,
        _ => core.stats.malformed_other += 1,
    }
}

/// A packet for a server session of ours.
#[inline(always)]
fn on_client_packet<S>(state: &mut S, core: &mut Core<S>, packet: Packet<'_>, marked: bool) {
    let index = packet.session();
    let Some(entry) = core.servers.get_mut(index) else {
        core.stats.unknown_session += 1;
        return;
    };
    match entry.session.handle_packet(&packet, marked) {
        RequestAction::Deliver => {
            let (generation, request) = (entry.generation, packet.request());
            let handle = RequestHandle { session: index, generation, request };
            if core.config.optimisations.zero_copy_requests {
                run_handler(state, core, handle, packet.method(), Payload::Frame(packet.payload()));
            } else {
                run_on_copy(state, core, handle, packet);
            }
        }
        RequestAction::None => core.touch_server(index),
        action => on_request_action(state, core, index, packet, action),
    }
}

/// What concerns requests of several packets and everything rare.
fn on_request_action<S>(
    state: &mut S,
    core: &mut Core<S>,
    index: u32,
    packet: Packet<'_>,
    action: RequestAction,
) {
    match action {
        RequestAction::Store { slot, offset, last } => {
            core.touch_server(index);
            store_request(core, index, slot, offset, packet.payload());
            if last {
                let entry = core.servers.get_mut(index).expect("the session was just found");
                let buf = entry.session.buffer_mut(slot).take();
                let buf = buf.expect("a request being received has a buffer");
                let (generation, request) = (entry.generation, packet.request());
                let handle = RequestHandle { session: index, generation, request };
                run_handler(state, core, handle, packet.method(), Payload::Buffer(buf));
            }
        }
        RequestAction::Begin { slot, bytes, offset } => {
            core.touch_server(index);
            let Some(buf) = core.take_buffer(bytes as usize) else {
                return reject(core, index, packet.request(), RejectCode::Overloaded);
            };
            let entry = core.servers.get_mut(index).expect("the session was just found");
            if let Some(old) = entry.session.buffer_mut(slot).replace(buf) {
                core.pool.give(old);
            }
            store_request(core, index, slot, offset, packet.payload());
        }
        RequestAction::Repeat { slot } => core.send_response(index, slot, 0, 1),
        RequestAction::Pull { slot, start, end } => core.send_response(index, slot, start, end),
        RequestAction::Reject(transmit) => {
            let entry = core.servers.get(index).expect("the session was just found");
            core.tx.push_bare(entry.route, transmit.header, &[]);
        }
        RequestAction::Released { slot } => {
            let entry = core.servers.get_mut(index).expect("the session was just found");
            if let Some(buf) = entry.session.buffer_mut(slot).take() {
                core.pool.give(buf);
            }
        }
        RequestAction::None | RequestAction::Deliver => {}
    }
}

fn store_request<S>(core: &mut Core<S>, index: u32, slot: u32, offset: u32, payload: &[u8]) {
    let entry = core.servers.get_mut(index).expect("the session was just found");
    let buf = entry.session.buffer_mut(slot).as_mut();
    store(buf.expect("a request being received has a buffer"), offset, payload);
}

#[inline]
fn store(buf: &mut [u8], offset: u32, payload: &[u8]) {
    let start = offset as usize;
    buf[start..start + payload.len()].copy_from_slice(payload);
}

#[inline(always)]
fn run_handler<S>(
    state: &mut S,
    core: &mut Core<S>,
    handle: RequestHandle,
    method: u16,
    payload: Payload<'_>,
) {
    let handler = core.handlers.get(usize::from(method)).copied().flatten();
    let Some(handler) = handler.filter(|_| !core.draining) else {
        return refuse(core, handle, payload);
    };
    core.running = Some(Running { session: handle.session, request: handle.request });
    handler(state, &mut Context { core }, Request { handle, method, payload });
    core.running = None;
}

/// What zero-copy requests save: the handler gets the request in a buffer of its own.
#[cold]
fn run_on_copy<S>(state: &mut S, core: &mut Core<S>, handle: RequestHandle, packet: Packet<'_>) {
    let Some(mut buf) = core.take_buffer(packet.payload().len()) else {
        return reject(core, handle.session, handle.request, RejectCode::Overloaded);
    };
    buf.copy_from(packet.payload());
    run_handler(state, core, handle, packet.method(), Payload::Buffer(buf));
}

#[cold]
fn refuse<S>(core: &mut Core<S>, handle: RequestHandle, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        core.pool.give(buf);
    }
    let code = if core.draining {
        RejectCode::Draining
    } else {
        core.stats.unknown_methods += 1;
        RejectCode::UnknownMethod
    };
    reject(core, handle.session, handle.request, code);
}

#[cold]
pub(crate) fn reject<S>(core: &mut Core<S>, index: u32, request: u64, code: RejectCode) {
    let Some(entry) = core.servers.get_mut(index) else { return };
    if let Some(transmit) = entry.session.reject(request, code) {
        core.tx.push_bare(entry.route, transmit.header, &[]);
    }
}

/// A packet for a client session of ours.
#[inline(always)]
fn on_server_packet<S>(state: &mut S, core: &mut Core<S>, packet: Packet<'_>) {
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
    let action = session.handle_packet(&packet, now);
    match action {
        ResponseAction::Complete { slot } => {
            let context = session.complete(slot);
            if session.wants_turn() {
                core.touch_client(index);
            }
            complete(state, core, id, context, Payload::Frame(packet.payload()));
        }
        ResponseAction::None => core.touch_client(index),
        action => on_response_action(state, core, id, packet, action),
    }
}

/// What concerns responses of several packets and everything rare.
fn on_response_action<S>(
    state: &mut S,
    core: &mut Core<S>,
    id: SessionId,
    packet: Packet<'_>,
    action: ResponseAction<CallContext<S>>,
) {
    core.touch_client(id.index);
    match action {
        ResponseAction::Begin { slot, bytes } => begin_response(core, id, slot, bytes, packet),
        ResponseAction::Store { slot, offset, last } => {
            let context = session_of(core, id).context_mut(slot);
            let buf = context.response.as_mut().expect("a pulled response has a buffer");
            store(buf, offset, packet.payload());
            if last {
                finish_response(state, core, id, slot);
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
    let Some(mut buf) = core.take_buffer(bytes as usize) else {
        let session = session_of(core, id);
        let number = session.call_in(slot);
        let ended = session.cancel(number).expect("the call has just begun its response");
        if let Some(cancel) = ended.cancel {
            core.push_to_peer(id, cancel);
        }
        return core.finish_later(id, ended.context, CallError::OutOfMemory);
    };
    store(&mut buf, 0, packet.payload());
    session_of(core, id).context_mut(slot).response = Some(Box::new(buf));
}

fn finish_response<S>(state: &mut S, core: &mut Core<S>, id: SessionId, slot: u32) {
    let (mut context, done) = session_of(core, id).finish(slot);
    core.push_to_peer(id, done);
    let response = context.response.take().expect("a pulled response has a buffer");
    complete(state, core, id, context, Payload::Buffer(*response));
}

#[inline(always)]
fn complete<S>(
    state: &mut S,
    core: &mut Core<S>,
    session: SessionId,
    context: CallContext<S>,
    payload: Payload<'_>,
) {
    core.request_bytes -= context.request.len();
    let CallContext { request, continuation, tag, .. } = context;
    let completion = Completion { tag, session, request, result: Ok(payload) };
    continuation(state, &mut Context { core }, completion);
}

/// Runs the continuations of calls that ended without a response.
pub(crate) fn run_finished<S>(state: &mut S, core: &mut Core<S>) {
    while let Some(finished) = core.finished.pop() {
        let CallContext { request, continuation, tag, .. } = finished.context;
        let (session, result) = (finished.session, Err(finished.error));
        let completion = Completion { tag, session, request, result };
        continuation(state, &mut Context { core }, completion);
    }
}
