//! From received frames to handlers and continuations.
//!
//! Most frames take one of two fast paths here (`handle_frame`). The others go to `packet` as whole
//! packets, through `protected` if they must be verified first. `requests` and `responses` carry
//! out what the session's half decides. Indices of pairs are in no table of sessions, so packets of
//! groups miss the fast paths, and go to `pairs` at clients and to `taken` at workers.

mod packet;
mod pairs;
mod prepare;
mod protected;
mod requests;
mod responses;
mod taken;

use petasos_base::Clock;
use petasos_netio::{Ecn, Frame, Frames, Origin};
use petasos_proto::pairs::PAIR_BIT;
use petasos_wire::{Kind, Malformed, Packet, RawPacket};

use crate::core::{Context, Core, Prefetcher};
use crate::handler::{Payload, RequestHandle};
use crate::sessions::{ClientState, SessionId};
use packet::{count_malformed, handle_packet};
use pairs::on_pair_packet;
pub(crate) use prepare::prepare_frames;
use protected::handle_protected;
pub(crate) use requests::{answer_panic, refuse};
use requests::{run_handler, run_on_copy};
use responses::complete_short;
pub(crate) use responses::run_finished;
pub(crate) use taken::take_first;
use taken::{on_first_packet, on_taken_packet};

/// The options for handling a batch of frames.
pub(crate) struct HandleWith<'a> {
    /// A clock to be read for each frame, instead of once for all.
    pub(crate) clock: Option<&'a Clock>,
    /// Whether the network has marked some of the frames.
    pub(crate) marked: bool,
}

/// Handles the rest of `frames`. If a handler panics, call this again to continue after its frame.
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

/// Handles frames whose origin the packet I/O reports.
#[inline(never)]
fn handle_frames_of_origins<S>(state: &mut S, cx: &mut Context<S>, frames: &mut Frames<'_>) {
    while let Some(Frame { bytes, .. }) = frames.next() {
        handle_frame::<S, true, true>(state, cx, bytes, frames.origin());
    }
}

/// Handles frames with prefetching, for so many sessions that each packet's session is in no cache.
#[inline(never)]
fn handle_frames_ahead<S>(state: &mut S, cx: &mut Context<S>, frames: &mut Frames<'_>) {
    let mut prefetcher = Prefetcher::new(&cx.core, frames);
    while let Some(Frame { bytes, .. }) = frames.next() {
        prefetcher.step(&cx.core);
        handle_frame::<S, true, true>(state, cx, bytes, frames.origin());
    }
}

/// Handles marked frames, frames with injected faults, and frames without the optimisations of one
/// clock reading per batch and of zero-copy requests.
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

/// Handles an unmarked frame of `bytes`. Nearly every packet is the only one of its message and
/// takes one of the two fast paths. Its origin matters only if the packet I/O reports it (`TOLD`).
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
        let handle = RequestHandle { session: entry.id, request: packet.request() };
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

/// Handles every packet that takes no fast path, and every invalid one.
#[cold]
fn handle_any<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    marked: bool,
    origin: Option<Origin>,
) {
    if RawPacket::read(bytes).is_some_and(|raw| raw.session() & PAIR_BIT as usize != 0) {
        return handle_group_frame(state, cx, bytes, marked, origin);
    }
    let core = &mut cx.core;
    let packet = match Packet::parse(bytes) {
        Ok(packet) => packet,
        Err(malformed) => return count_malformed(core, malformed),
    };
    if origin.is_some_and(|origin| core.is_misled(&packet, origin)) {
        core.stats.wrong_origin += 1;
        core.note_suspect();
        return;
    }
    match packet.has_checksum() {
        true => handle_protected(state, cx, bytes, packet, marked),
        false => handle_packet(state, cx, packet, marked),
    }
}

/// Handles a packet of a pair, at its client or its worker, or from a router. None of these takes a
/// fast path: their indices are in no table of sessions.
#[inline(never)]
fn handle_group_frame<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    marked: bool,
    origin: Option<Origin>,
) {
    let packet = match Packet::parse(bytes) {
        Ok(packet) => packet,
        Err(malformed) => return count_malformed(&mut cx.core, malformed),
    };
    match packet.kind() {
        kind if kind.from_server() => on_pair_packet(state, cx, bytes, packet, marked, origin),
        Kind::Routed => on_first_packet(state, cx, bytes, packet, origin),
        _ => on_taken_packet(state, cx, bytes, packet, origin),
    }
}

impl<S> Core<S> {
    /// Whether `packet` names a session whose packets come from another origin (W32). A session
    /// that is being set up accepts no packets in any case.
    fn is_misled(&self, packet: &Packet<'_>, origin: Origin) -> bool {
        let at = packet.session();
        let of = match packet.from_server() {
            true => self.clients.get(at).map(|entry| entry.origin),
            false => self.servers.get(at).map(|entry| entry.origin),
        };
        of.is_some_and(|of| of != origin && of != Origin::UNTOLD)
    }
}

/// Copies a packet's part of a message to its place.
#[inline]
fn store(buf: &mut [u8], offset: u32, payload: &[u8]) {
    let start = offset as usize;
    buf[start..start + payload.len()].copy_from_slice(payload);
}
