//! Packets that have to be verified first: by their checksum (W12) or their tag (W27).

use petasos_base::Time;
use petasos_seal::OpenError;
use petasos_wire::{CHECKSUM_BYTES, Malformed, Packet, Verified};

use crate::call::{CallContext, CallId, CallSettings};
use crate::context::Context;
use crate::core::Core;
use crate::handler::{Payload, RequestHandle};
use crate::receive::{complete_short, count_malformed, handle_packet, run_handler};
use crate::secure::sealer;
use crate::sessions::{ClientState, SessionId};

/// What the buffer for opened packets is made for: the longest datagram.
const OPENED_BYTES: usize = 1 << 16;

/// A packet that ends with a checksum or a tag: its session says which.
pub(crate) fn handle_protected<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    packet: Packet<'_>,
    marked: bool,
) {
    let core = &mut cx.core;
    let mut opened = core::mem::take(&mut core.opened);
    if let Some(seal) = core.seal_of(&packet) {
        if opened.len() < bytes.len() {
            opened.resize(OPENED_BYTES.max(bytes.len()), 0);
        }
        match seal.opener.open(bytes, &packet, &mut opened) {
            Ok(payload) => handle_opened(state, cx, packet.with_payload(payload), marked),
            Err(error) => count_unopened(core, error),
        }
        cx.core.opened = opened;
        return;
    }
    match verified(bytes, packet) {
        Ok(packet) => handle_packet(state, cx, packet, marked),
        Err(malformed) => count_malformed(core, malformed),
    }
}

/// An opened packet: most are their message's only one and take a short cut, as in plaintext.
fn handle_opened<S>(state: &mut S, cx: &mut Context<S>, packet: Packet<'_>, marked: bool) {
    let core = &mut cx.core;
    let (index, now) = (packet.session(), core.now);
    if packet.from_server() {
        if !marked
            && let Some(entry) = core.clients.get_mut(index)
            && let ClientState::Ready { session, .. } = &mut entry.state
            && let Some((context, payload)) = session.take_short(&Verified(packet), now)
        {
            let id = SessionId { index, generation: entry.generation };
            if session.wants_turn() {
                core.touch_client(index);
            }
            return complete_short(state, cx, id, context, payload);
        }
    } else if core.config.optimisations.zero_copy_requests
        && let Some(entry) = core.servers.get_mut(index)
        && let Some(packet) = entry.session.take_short(&Verified(packet), marked)
    {
        let (generation, request) = (entry.generation, packet.request());
        let handle = RequestHandle { session: index, generation, request };
        let (method, payload) = (packet.method(), Payload::Frame(packet.payload()));
        return run_handler(state, cx, handle, method, payload);
    }
    handle_packet(state, cx, packet, marked);
}

impl<S> Core<S> {
    /// Starts a short call on a sealed session in one step.
    ///
    /// # Errors
    /// Gives the context back if it is no such call.
    #[inline(never)]
    pub(crate) fn start_sealed(
        &mut self,
        session: SessionId,
        method: u16,
        context: CallContext<S>,
        settings: Option<&CallSettings>,
    ) -> Result<CallId, CallContext<S>> {
        let (now, bytes) = (self.now, context.request.len());
        let entry = self.clients.get_mut(session.index);
        let Some(entry) = entry.filter(|entry| entry.generation == session.generation) else {
            return Err(context);
        };
        let (Some(sealer), ClientState::Ready { session: client, route }) =
            (sealer(&mut entry.secure), &mut entry.state)
        else {
            return Err(context);
        };
        let options = CallSettings::of_call(settings, method, bytes, now);
        let sent = client.send_protected(options, context, now)?;
        let number = sent.call;
        self.tx.push_part(*route, sent.header, &sent.context.request, WHOLE, Some(sealer));
        if entry.needs_timer(now) || options.timeout_at != Time::NEVER {
            self.arm_call(session, options.timeout_at);
        }
        Ok(CallId { session, number })
    }

    /// Answers a request of a sealed session with a copy of `bytes`, few enough for the slot to
    /// keep them without a buffer. False if it is no such request.
    pub(crate) fn respond_sealed(&mut self, handle: &RequestHandle, bytes: &[u8]) -> bool {
        let preallocated = self.config.optimisations.preallocated_responses;
        let Some(entry) = self.servers.get_mut(handle.session) else { return false };
        let Some(sealer) = sealer(&mut entry.secure) else { return false };
        if entry.generation != handle.generation || !preallocated {
            return false;
        }
        let answered = entry.session.respond_protected(handle.request, bytes.len() as u32);
        let Some((header, kept)) = answered else { return false };
        kept.short_mut(bytes.len()).copy_from_slice(bytes);
        self.tx.push_part(entry.route, header, bytes, WHOLE, Some(sealer));
        true
    }
}

/// The part of a message that is all of it.
const WHOLE: (u32, usize) = (0, usize::MAX);

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
fn count_unopened<S>(core: &mut Core<S>, error: OpenError) {
    match error {
        OpenError::Replayed => core.stats.seals_replayed += 1,
        _ => core.stats.seals_broken += 1,
    }
}
