//! Packets of requests, and the handlers of complete requests.

use petasos_proto::RequestAction;
use petasos_wire::{Packet, RejectCode};

use super::store;
use crate::core::{Context, Core, Half};
use crate::handler::{Payload, Request, RequestHandle, RequestKey};
use crate::secure::sealer;

/// Handles a packet for a server session.
pub(super) fn on_client_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    packet: Packet<'_>,
    marked: bool,
) {
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
        let key = entry.id.key(latest);
        return on_abandoning_packet(state, cx, packet, action, key);
    }
    on_action(state, cx, index, packet, action);
}

/// Handles a packet that ends or replaces a running request, which `key` names.
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
    on_action(state, cx, key.session.index(), packet, action);
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
            let handle = RequestHandle { session: entry.id, request: packet.request() };
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

/// Handles requests of several packets and all rare cases.
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
                let handle = RequestHandle { session: entry.id, request: packet.request() };
                run_handler(state, cx, handle, packet.method(), Payload::Buffer(buf));
            }
        }
        RequestAction::Begin { slot, bytes, offset } => {
            begin_request(core, index, packet, (slot, bytes, offset));
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

/// Handles the first packet to arrive of a request: allocates memory for the whole request.
fn begin_request<S>(
    core: &mut Core<S>,
    index: u32,
    packet: Packet<'_>,
    (slot, bytes, offset): (u32, u32, u32),
) {
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

fn store_request<S>(core: &mut Core<S>, index: u32, slot: u32, offset: u32, payload: &[u8]) {
    let entry = core.servers.get_mut(index).expect("the session was just found");
    let buf = entry.session.kept_mut(slot).buffer_mut();
    store(buf.expect("a request being received has a buffer"), offset, payload);
}

#[inline(always)]
pub(super) fn run_handler<S>(
    state: &mut S,
    cx: &mut Context<S>,
    handle: RequestHandle,
    method: u16,
    payload: Payload<'_>,
) {
    let handler = cx.core.handlers.get(usize::from(method)).copied().unwrap_or(refuse);
    handler(state, cx, Request { handle, method, payload });
}

/// Answers the request in `frame`, whose handler has panicked. Does nothing if the panic was a
/// continuation's; those run only for packets from servers.
#[cold]
pub(crate) fn answer_panic<S>(core: &mut Core<S>, frame: &[u8]) {
    core.reject_running();
    if let Ok(packet) = Packet::parse(frame)
        && !packet.from_server()
    {
        core.reject(packet.session(), packet.request(), RejectCode::HandlerFailed);
    }
}

/// Runs the handler on a copy of the request in its own buffer: the work that zero-copy requests
/// save.
#[cold]
pub(super) fn run_on_copy<S>(
    state: &mut S,
    cx: &mut Context<S>,
    handle: RequestHandle,
    method: u16,
    payload: &[u8],
) {
    let Some(mut buf) = cx.core.take_buffer(payload.len()) else {
        return cx.core.reject(handle.session.index(), handle.request, RejectCode::Overloaded);
    };
    buf.copy_from(payload);
    run_handler(state, cx, handle, method, Payload::Buffer(buf));
}

/// The handler of methods without a registered handler.
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
    cx.reject(handle, code);
}
