//! Congestion control that fits the packet I/O and the session: `docs/congestion.md` has the
//! reasons for the numbers.

use petasos_proto::{AlgorithmConfig, CongestionConfig, SessionParams};
use petasos_wire::HEADER_BYTES;

use crate::backend::Backend;

/// What Ethernet (with its preamble and gap), IPv4 and UDP add to a packet. More exact is not worth
/// while: paces are made of estimates.
const FRAMING_BYTES: usize = 38 + 20 + 8;

/// What an endpoint over `io` does if it has been told `configured`.
pub(crate) fn choose(configured: Option<CongestionConfig>, io: &mut Backend) -> CongestionConfig {
    let chosen = configured.unwrap_or_else(|| match io {
        Backend::Udp(_) | Backend::Local(_) => CongestionConfig::swift_over_kernel(),
        // Between two rings there is no queue but the receiver's, for which it grants credits.
        Backend::Shm(_) => CongestionConfig::none(),
        _ => CongestionConfig::swift(),
    });
    if matches!(chosen.algorithm, AlgorithmConfig::Dctcp(_)) {
        understand_marks(io);
    }
    chosen
}

/// Sends packets as such that may be marked, and reads the marks of those received.
fn understand_marks(io: &mut Backend) {
    if let Backend::Udp(io) = io {
        // Where it cannot be had there are no marks, and losses have to tell of congestion.
        let _ = io.set_ecn_capable();
    }
}

/// `chosen`, for packets of the length that the session has agreed on.
pub(crate) fn fit(chosen: &CongestionConfig, params: &SessionParams) -> CongestionConfig {
    let packet_bytes = params.payload_bytes + (HEADER_BYTES + FRAMING_BYTES) as u32;
    CongestionConfig { packet_bytes, ..*chosen }
}
