//! Passes valid packets to the local half of their session.

use petasos_wire::{Malformed, Packet};

use super::requests::on_client_packet;
use super::responses::on_server_packet;
use crate::core::{Context, Core};

/// Handles a valid packet.
pub(super) fn handle_packet<S>(
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
pub(super) fn count_malformed<S>(core: &mut Core<S>, malformed: Malformed) {
    match malformed {
        Malformed::Short => core.stats.malformed_short += 1,
        Malformed::Version(_) => core.stats.malformed_version += 1,
        Malformed::Kind(_) => core.stats.malformed_kind += 1,
        Malformed::Checksum => core.stats.malformed_checksum += 1,
        _ => core.stats.malformed_other += 1,
    }
}
