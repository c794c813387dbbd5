//! What both ends agree on for the session of a pair.

use petasos_proto::{AlgorithmConfig, CongestionConfig, Recovery, SessionParams, SwiftConfig};
use petasos_wire::Group;

/// What all groups here have agreed on.
pub(crate) const GROUP: Group = Group { payload_bytes: 1024, is_sealed: false };
/// Requests and responses are no longer than this.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 64 * 1024;

/// The parameters of a pair's session, at one of its ends.
pub(crate) fn params(peer_session: u32, peer_tag: u32, local_tag: u32) -> SessionParams {
    SessionParams {
        peer_session,
        peer_tag,
        local_tag,
        slots: 1,
        credits: 8,
        credits_max: 64,
        room_packets: 1024,
        payload_bytes: GROUP.payload_bytes,
        request_bytes_max: MESSAGE_BYTES_MAX,
        response_bytes_max: MESSAGE_BYTES_MAX,
        recovery: Recovery::Selective,
        checksum: false,
    }
}

/// Round trips here are mostly those of turns, which are no queues.
pub(crate) fn congestion() -> CongestionConfig {
    let swift = SwiftConfig { base_target_ns: 1_000_000, ..SwiftConfig::default() };
    CongestionConfig { algorithm: AlgorithmConfig::Swift(swift), ..CongestionConfig::default() }
}

/// The bytes of packet `index` of a message.
pub(crate) fn part(message: &[u8], index: u32) -> &[u8] {
    let payload = GROUP.payload_bytes as usize;
    let start = (index as usize * payload).min(message.len());
    &message[start..message.len().min(start + payload)]
}

/// Puts a part of a message in its place.
pub(crate) fn store(message: &mut [u8], offset: u32, bytes: &[u8]) {
    message[offset as usize..][..bytes.len()].copy_from_slice(bytes);
}
