//! Packets of responses, and the continuations of calls that are over.

use petasos_proto::ResponseAction;
use petasos_wire::Packet;

use super::store;
use crate::call::{CallError, Completion};
use crate::core::{CallContext, Context, Core, Half, SHORT_REQUEST_BYTES_MAX, counted_bytes};
use crate::handler::Payload;
use crate::sessions::{SessionId, ready};

/// Handles a packet for a client session.
pub(super) fn on_server_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    packet: Packet<'_>,
    marked: bool,
) {
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

/// Handles responses of several packets and all rare cases.
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
pub(super) fn complete_short<S>(
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
    // `forget` saves the check whether there is a buffer to drop.
    core::mem::forget(response);
    let completion = Completion { tag, session, request, result: Ok(Payload::Frame(payload)) };
    continuation(state, cx, completion);
}

pub(super) fn complete<S>(
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
