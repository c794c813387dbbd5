//! The values that the ends of a session agree on: lengths, slots and credits.

use std::net::SocketAddr;

use petasos_control::{AcceptParams, ConnectParams, DataAddress, ServerLimits};
use petasos_netio::PacketIo;
use petasos_proto::{Recovery, SessionParams};
use petasos_seal::End;
use petasos_wire::{CHECKSUM_BYTES, FIRST_BYTES, HEADER_BYTES, PAYLOAD_BYTES_MIN, SEAL_BYTES};

use crate::backend::PathLimits;
use crate::endpoint::Endpoint;

impl<S> Endpoint<S> {
    /// The address at which this endpoint receives packets, to be sent to its peers.
    pub(super) fn data_address(&self) -> DataAddress {
        let local = self.io().local_address();
        let ip = local.ip();
        // Without an IP address, that of the control connection is meant.
        let ip = (!ip.is_unspecified()).then_some(ip);
        DataAddress { port: local.port(), ip, carrier: self.io().carrier() }
    }

    /// The largest payload of a group's packets that this endpoint can use on its path to a router
    /// (RT32): beside it, a first packet has header and routing block, and 16 bytes if it is
    /// sealed.
    pub(crate) fn group_payload_max(&mut self, router: SocketAddr) -> u16 {
        let path = self.io_mut().path_limits_to(router).map(|path| path.datagram_bytes_max);
        // A path that is not known has no route either; then the attachment fails.
        let path = path.unwrap_or(usize::MAX);
        let datagram_bytes_max = path.min(self.cx.core.config.session.datagram_bytes_max as usize);
        let sealed = if self.cx.core.outside.is_secured() { SEAL_BYTES } else { 0 };
        let beside = FIRST_BYTES + sealed;
        let payload = datagram_bytes_max.saturating_sub(beside);
        payload.clamp(PAYLOAD_BYTES_MIN as usize, petasos_control::PAYLOAD_BYTES_MAX as usize)
            as u16
    }

    /// The limits of this endpoint for a session on one path, with `trailer_bytes` after the
    /// payload.
    pub(super) fn limits_on(&self, path: PathLimits, trailer_bytes: usize) -> ServerLimits {
        let config = &self.cx.core.config.session;
        let datagram_bytes_max = path.datagram_bytes_max.min(config.datagram_bytes_max as usize);
        let payload_bytes_max = datagram_bytes_max.saturating_sub(HEADER_BYTES + trailer_bytes);
        ServerLimits {
            slots_max: config.slots as u8,
            credits_max: config.credits.min(fitting(path.room_bytes, datagram_bytes_max)) as u16,
            payload_bytes_max: payload_bytes_max.min(petasos_control::PAYLOAD_BYTES_MAX as usize)
                as u16,
            request_bytes_max: config.message_bytes_max,
            response_bytes_max: config.message_bytes_max,
        }
    }
}

/// The number of bytes after the payload of each packet.
pub(super) fn trailer_bytes(sealed: bool, checksum: bool) -> usize {
    match (sealed, checksum) {
        (true, _) => SEAL_BYTES,
        (false, true) => CHECKSUM_BYTES,
        (false, false) => 0,
    }
}

/// The fewest credits of a session that is alone, however small the receive buffer: with fewer it
/// could not even fill a train.
const CREDITS_MIN: u32 = 8;

/// How many packets of `datagram_bytes` may be in flight to this endpoint: half of what fits the
/// receive buffer of `room_bytes`, since the system's overhead counts as well.
pub(crate) fn fitting(room_bytes: usize, datagram_bytes: usize) -> u32 {
    let fitting = room_bytes / 2 / datagram_bytes.max(1);
    fitting.clamp(CREDITS_MIN as usize, petasos_wire::CREDITS_MAX as usize) as u32
}

/// How many packets like those of a granted session there is room for, for all sessions. Rings are
/// different: each pair of processes has its own, and packets that do not fit wait.
pub(super) fn room_packets(path: PathLimits, granted: &AcceptParams) -> u32 {
    match granted.local {
        Some(_) => petasos_wire::CREDITS_MAX,
        None => fitting(path.room_bytes, HEADER_BYTES + usize::from(granted.payload_bytes)),
    }
}

/// The slots that a session gets if it is granted (C9).
pub(super) fn granted_slots(wanted: u8, slots_max: u32) -> u32 {
    u32::from(wanted).min(slots_max).checked_ilog2().map_or(0, |log| 1 << log)
}

/// The credits of the set-up (W26): one for each slot, and those that a train needs.
pub(crate) fn first_credits(slots: u8) -> u16 {
    u16::from(slots).max(CREDITS_MIN as u16)
}

/// How many packets a session may have in flight.
pub(super) struct Window {
    /// The limit that both ends agree on.
    pub(super) credits_max: u32,
    /// How many packets this end's receive queue holds, for all sessions.
    pub(super) room_packets: u32,
}

/// The parameters of a granted session for both state machines.
pub(super) fn session_params(
    granted: &AcceptParams,
    offer: &ConnectParams,
    window: Window,
    end: End,
    sealed: bool,
) -> SessionParams {
    let (server_end, client_end) = ((granted.session, granted.tag), (offer.session, offer.tag));
    let (peer, local) = match end {
        End::Client => (server_end, client_end),
        End::Server => (client_end, server_end),
    };
    SessionParams {
        peer_session: peer.0,
        peer_tag: peer.1,
        local_tag: local.1,
        slots: u32::from(granted.slots),
        credits: u32::from(granted.credits),
        credits_max: window.credits_max,
        room_packets: window.room_packets,
        payload_bytes: u32::from(granted.payload_bytes),
        request_bytes_max: granted.request_bytes_max,
        response_bytes_max: granted.response_bytes_max,
        recovery: match offer.recovery {
            petasos_control::Recovery::Selective => Recovery::Selective,
            petasos_control::Recovery::GoBackN => Recovery::GoBackN,
        },
        checksum: offer.checksum || sealed,
    }
}
