//! Packets that must be verified first: by their checksum (W12) or their tag (W27).

use petasos_seal::{OpenError, Seal};
use petasos_wire::{CHECKSUM_BYTES, Malformed, Packet, Verified};

use super::packet::{count_malformed, handle_packet};
use super::requests::run_handler;
use super::responses::complete_short;
use crate::core::{Context, Core};
use crate::handler::{Payload, RequestHandle};
use crate::sealed_links::make_room;
use crate::sessions::{ClientState, SessionId};

/// Handles a packet that ends with a checksum or a tag, depending on its session.
pub(super) fn handle_protected<S>(
    state: &mut S,
    cx: &mut Context<S>,
    bytes: &[u8],
    packet: Packet<'_>,
    marked: bool,
) {
    let core = &mut cx.core;
    let mut opened = core::mem::take(&mut core.opened);
    if let Some(seal) = core.seal_of(&packet) {
        make_room(&mut opened, bytes.len());
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

impl<S> Core<S> {
    /// The keys of the session that `packet` names, if it is sealed and the packet has its session
    /// tag. A packet with another session tag is not worth opening.
    fn seal_of(&mut self, packet: &Packet<'_>) -> Option<&mut Seal> {
        let secure = match packet.from_server() {
            true => {
                let entry = self.clients.get_mut(packet.session())?;
                entry.secure.as_mut().filter(|_| entry.tag == packet.tag())
            }
            false => {
                let entry = self.servers.get_mut(packet.session())?;
                entry.secure.as_mut().filter(|_| entry.tag == packet.tag())
            }
        };
        secure?.seal.as_mut()
    }
}

/// Handles an opened packet. Most are the only one of their message and take a fast path, as in
/// plaintext.
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
    } else if core.switches.zero_copy_requests
        && let Some(entry) = core.servers.get_mut(index)
        && let Some(packet) = entry.session.take_short(&Verified(packet), marked)
    {
        let handle = RequestHandle { session: entry.id, request: packet.request() };
        let (method, payload) = (packet.method(), Payload::Frame(packet.payload()));
        return run_handler(state, cx, handle, method, payload);
    }
    handle_packet(state, cx, packet, marked);
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
pub(super) fn count_unopened<S>(core: &mut Core<S>, error: OpenError) {
    match error {
        OpenError::Replayed => core.stats.seals_replayed += 1,
        _ => core.stats.seals_broken += 1,
    }
    core.note_suspect();
}
