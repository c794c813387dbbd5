//! Congestion control that fits the packet I/O and the session: `docs/congestion.md` has the
//! reasons for the numbers.

use petasos_netio::Ecn;
use petasos_proto::{AlgorithmConfig, CongestionConfig, SessionParams};
use petasos_wire::HEADER_BYTES;

use crate::backend::Backend;

/// What Ethernet (with preamble and gap), IPv4 and UDP add to a packet. More precision would be
/// useless: paces are computed from estimates.
const FRAMING_BYTES: usize = 38 + 20 + 8;

const _: () = assert!(
    petasos_control::PAYLOAD_BYTES_MAX as usize + HEADER_BYTES + FRAMING_BYTES <= 65_535,
    "every session's packets are within what congestion control accepts"
);

/// The congestion control of an endpoint over `io`, if `configured` says so.
pub(crate) fn choose(configured: Option<CongestionConfig>, io: &mut Backend) -> CongestionConfig {
    let chosen = configured.unwrap_or_else(|| match io {
        Backend::Udp(_) | Backend::Local(_) => CongestionConfig::swift_over_kernel(),
        // A ring has no queue except the receiver's, for which the receiver grants credits.
        Backend::Shm(_) => on_rings(None),
        // TCP does it.
        Backend::Tcp(_) => CongestionConfig::none(),
        // These packets also pass through a kernel, or wait for threads on busy processors.
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

/// The congestion control of a session over rings, whatever other transports the packet I/O has.
pub(crate) fn on_rings(configured: Option<CongestionConfig>) -> CongestionConfig {
    configured.unwrap_or_else(CongestionConfig::none)
}

/// Marks sent packets as ECN-capable, and reads the marks of received ones.
fn understand_marks(io: &mut Backend) {
    // If this fails, there are no marks, and only losses show congestion.
    match io {
        Backend::Udp(io) => drop(io.set_ecn_capable()),
        Backend::Local(io) => drop(io.set_ecn_capable()),
        Backend::Xdp(io) => io.set_ecn(Ecn::Capable0),
        #[cfg(feature = "dpdk")]
        Backend::Dpdk(io) => io.set_ecn(Ecn::Capable0),
        // libfabric shows no marks.
        #[cfg(feature = "fabric")]
        Backend::Fabric(_) => {}
        Backend::Shm(_) | Backend::Tcp(_) | Backend::Memory(_) | Backend::Nothing(_) => {}
    }
}

/// `chosen`, adapted to the packet length that the session has negotiated.
pub(crate) fn fit(chosen: &CongestionConfig, params: &SessionParams) -> CongestionConfig {
    let packet_bytes = params.payload_bytes + (HEADER_BYTES + FRAMING_BYTES) as u32;
    CongestionConfig { packet_bytes, ..*chosen }
}
