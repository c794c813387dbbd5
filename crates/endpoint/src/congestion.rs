//! Congestion control that fits the packet I/O and the session: `docs/congestion.md` has the
//! reasons for the numbers.

use petasos_netio::Ecn;
use petasos_proto::{AlgorithmConfig, CongestionConfig, SessionParams};
use petasos_wire::HEADER_BYTES;

use crate::backend::Backend;

/// What Ethernet (with its preamble and gap), IPv4 and UDP add to a packet. More exact is not worth
/// while: paces are made of estimates.
const FRAMING_BYTES: usize = 38 + 20 + 8;

const _: () = assert!(
    petasos_control::PAYLOAD_BYTES_MAX as usize + HEADER_BYTES + FRAMING_BYTES <= 65_535,
    "every session's packets are within what congestion control accepts"
);

/// What an endpoint over `io` does if it has been told `configured`.
pub(crate) fn choose(configured: Option<CongestionConfig>, io: &mut Backend) -> CongestionConfig {
    let chosen = configured.unwrap_or_else(|| match io {
        Backend::Udp(_) | Backend::Local(_) => CongestionConfig::swift_over_kernel(),
        // Between two rings there is no queue but the receiver's, for which it grants credits.
        Backend::Shm(_) => on_rings(None),
        // Their packets pass through a kernel, too, or wait for threads on busy processors.
        #[cfg(feature = "dpdk")]
        Backend::Dpdk(io) if io.is_virtual() => CongestionConfig::swift_over_kernel(),
        #[cfg(feature = "fabric")]
        Backend::Fabric(io) if io.is_software() => CongestionConfig::swift_over_kernel(),
        _ => CongestionConfig::swift(),
    });
    chosen.validate().expect("the configuration is valid");
    if matches!(chosen.algorithm, AlgorithmConfig::Dctcp(_)) {
        understand_marks(io);
    }
    chosen
}

/// The same for a session by rings, whatever else the packet I/O has.
pub(crate) fn on_rings(configured: Option<CongestionConfig>) -> CongestionConfig {
    configured.unwrap_or_else(CongestionConfig::none)
}

/// Sends packets as such that may be marked, and reads the marks of those received.
fn understand_marks(io: &mut Backend) {
    // Where it cannot be had there are no marks, and losses have to tell of congestion.
    match io {
        Backend::Udp(io) => drop(io.set_ecn_capable()),
        Backend::Local(io) => drop(io.set_ecn_capable()),
        Backend::Xdp(io) => io.set_ecn(Ecn::Capable0),
        #[cfg(feature = "dpdk")]
        Backend::Dpdk(io) => io.set_ecn(Ecn::Capable0),
        // libfabric shows no marks.
        #[cfg(feature = "fabric")]
        Backend::Fabric(_) => {}
        Backend::Shm(_) | Backend::Memory(_) => {}
    }
}

/// `chosen`, for packets of the length that the session has agreed on.
pub(crate) fn fit(chosen: &CongestionConfig, params: &SessionParams) -> CongestionConfig {
    let packet_bytes = params.payload_bytes + (HEADER_BYTES + FRAMING_BYTES) as u32;
    CongestionConfig { packet_bytes, ..*chosen }
}
