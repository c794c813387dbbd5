//! Packets to pairs: answers to first packets, and packets of the sessions of bound pairs (RT7,
//! RT10 to RT14).

use petasos_netio::Origin;
use petasos_proto::ResponseAction;
use petasos_proto::pairs::{Answer, Arrival};
use petasos_wire::{Kind, Packet, RejectCode, WORKER_BLOCK_BYTES, WorkerBlock};

use super::protected::count_unopened;
use super::responses::complete;
use super::store;
use crate::call::CallError;
use crate::core::{Asked, CallContext, Context, Core, Sender};
use crate::handler::Payload;
use crate::sealed_links::SealId;

/// Handles a packet from a server whose index is a pair's.
pub(super) fn on_pair_packet<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    packet: Packet<'_>,
    marked: bool,
    origin: Option<Origin>,
) {
    let core = &mut cx.core;
    let Some(calls) = core.group_calls.as_deref_mut() else {
        core.stats.unknown_session += 1;
        return;
    };
    let (block, behind) = match split(packet) {
        Some(parts) => parts,
        None => {
            core.stats.malformed_block += 1;
            core.note_suspect();
            return;
        }
    };
    let Some(Sender { member: from, seal }) = calls.sender(&packet, block, origin) else {
        core.stats.wrong_origin += 1;
        core.note_suspect();
        return;
    };
    if packet.has_checksum() != seal.is_some() {
        core.stats.malformed_block += 1;
        core.note_suspect();
        return;
    }
    let mut opened = Vec::new();
    let packet = match seal {
        None => behind,
        Some(seal) => {
            opened = core::mem::take(&mut core.opened);
            match open(core, (bytes, packet), block.is_some(), seal, &mut opened) {
                Some(payload) => packet.with_payload(payload),
                None => {
                    core.opened = opened;
                    return;
                }
            }
        }
    };
    on_answer(state, cx, Arrival { from, packet, block }, seal, marked);
    if seal.is_some() {
        cx.core.opened = opened;
    }
}

/// Opens a packet to a pair. Out of line, so that what is not sealed is not slowed down by that.
#[inline(never)]
fn open<'o, S>(
    core: &mut Core<S>,
    (bytes, packet): (&[u8], Packet<'_>),
    has_block: bool,
    seal: SealId,
    opened: &'o mut Vec<u8>,
) -> Option<&'o [u8]> {
    let block_bytes = if has_block { WORKER_BLOCK_BYTES } else { 0 };
    let sealed = &mut core.group_calls_mut().sealed;
    let error = match sealed.open(seal, bytes, &packet, block_bytes, opened) {
        Ok(payload) => return Some(payload),
        Err(error) => error,
    };
    count_unopened(core, error);
    None
}

/// Handles what was opened, or was not sealed.
#[inline(always)]
fn on_answer<S>(
    state: &mut S,
    cx: &mut Context<S>,
    arrival: Arrival<'_>,
    seal: Option<SealId>,
    marked: bool,
) {
    let core = &mut cx.core;
    let packet = arrival.packet.response_without_padding();
    let (now, arrival) = (core.now, Arrival { packet, ..arrival });
    let Some(calls) = core.group_calls.as_deref_mut() else { return };
    match calls.handle(now, arrival) {
        Answer::None => core.note_suspects_of_pairs(),
        Answer::Complete { context, done } => {
            if let Some(session) = done {
                core.tell_worker(session, seal, Kind::Done, packet.request());
            }
            complete_asked(state, cx, context, packet.payload());
        }
        Answer::Ready { session, credits } => {
            core.bind_pair(&packet, session, Some(credits), seal);
        }
        Answer::Response { session } => {
            core.bind_pair(&packet, session, None, seal);
            on_bound_packet(state, cx, packet, marked);
        }
        Answer::Session => on_bound_packet(state, cx, packet, marked),
        Answer::Cancel { session, request } => {
            core.tell_worker(session, seal, Kind::Cancel, request);
        }
        Answer::Rejected { context, code, has_not_run } => {
            let error = asked_error(code, has_not_run);
            core.end_asked(context, error);
        }
    }
}

/// Splits off the worker block. A tag stays at the end.
#[inline(always)]
fn split(packet: Packet<'_>) -> Option<(Option<WorkerBlock>, Packet<'_>)> {
    if !WorkerBlock::is_in(&packet) {
        return Some((None, packet));
    }
    let (block, packet) = WorkerBlock::split(packet).ok()?;
    Some((Some(block), packet))
}

/// Why a call fails whose pair was rejected before it was bound (RT14).
fn asked_error(code: Option<RejectCode>, has_not_run: bool) -> CallError {
    let error = CallError::from_reject(code);
    match error.retry_is_safe() || !has_not_run {
        true => error,
        // A claim was rejected for a reason that this version does not know.
        false => CallError::NotSent,
    }
}

/// The whole response has come in one packet, before the pair was bound.
fn complete_asked<S>(state: &mut S, cx: &mut Context<S>, asked: Asked<S>, payload: &[u8]) {
    let limit = asked.options.response_bytes_max.min(cx.core.config.session.message_bytes_max);
    if payload.len() > limit as usize {
        return cx.core.end_asked(asked, CallError::ResponseTooLarge);
    }
    let context = asked.context.expect("the pair was not bound");
    complete(state, cx, asked.of, context, Payload::Frame(payload));
}

/// Handles a packet for the session of a bound pair.
fn on_bound_packet<S>(state: &mut S, cx: &mut Context<S>, packet: Packet<'_>, marked: bool) {
    let core = &mut cx.core;
    let (index, now) = (packet.session(), core.now);
    let calls = core.group_calls.as_deref_mut();
    let Some(bound) = calls.and_then(|calls| calls.bound_mut(index)) else { return };
    bound.heard_at = now;
    let of = bound.of;
    match bound.session.handle_packet(&packet, marked, now) {
        ResponseAction::Complete { slot } => {
            let context = bound.session.complete(slot);
            core.finish_bound(index);
            complete(state, cx, of, context, Payload::Frame(packet.payload()));
        }
        // No reset is believed (RT12).
        ResponseAction::None | ResponseAction::SessionReset => core.touch_bound(index),
        ResponseAction::Begin { slot, bytes } => begin_response(core, index, slot, bytes, packet),
        ResponseAction::Store { slot, offset, last } => {
            core.touch_bound(index);
            core.share_with_link(index);
            store_response(core, index, slot, offset, packet.payload());
            if last {
                finish_response(state, cx, index, slot);
            }
        }
        ResponseAction::Overlong(context, cancel) => {
            core.push_to_worker(index, cancel);
            core.finish_bound_call(index, of, context, CallError::ResponseTooLarge);
            core.end_bound(index);
        }
        ResponseAction::Rejected(context, code) => {
            let error = core.bound_error(index, code);
            core.finish_bound_call(index, of, context, error);
            core.finish_bound(index);
        }
    }
}

fn context_in<S>(core: &mut Core<S>, index: u32, slot: u32) -> &mut CallContext<S> {
    let bound = core.group_calls_mut().bound_mut(index).expect("it was just found");
    bound.session.context_mut(slot)
}

fn begin_response<S>(core: &mut Core<S>, index: u32, slot: u32, bytes: u32, packet: Packet<'_>) {
    core.touch_bound(index);
    let Some(mut buf) = core.begin_bound_response(index, bytes) else {
        return core.cancel_bound(index, CallError::OutOfMemory);
    };
    core.share_with_link(index);
    store(&mut buf, 0, packet.payload());
    let response = core.response_boxes.put(buf);
    context_in(core, index, slot).response = Some(response);
}

fn store_response<S>(core: &mut Core<S>, index: u32, slot: u32, offset: u32, payload: &[u8]) {
    let context = context_in(core, index, slot);
    let buf = context.response.as_mut().and_then(|response| (**response).as_mut());
    store(buf.expect("a pulled response has a buffer"), offset, payload);
}

fn finish_response<S>(state: &mut S, cx: &mut Context<S>, index: u32, slot: u32) {
    let core = &mut cx.core;
    let bound = core.group_calls_mut().bound_mut(index).expect("it was just found");
    let of = bound.of;
    let (mut context, _) = bound.session.finish(slot);
    let response = context.response.take().expect("a pulled response has a buffer");
    let response = core.response_boxes.take(response);
    core.forget_bound_response(index, &response);
    core.finish_bound(index);
    complete(state, cx, of, context, Payload::Buffer(response));
}
