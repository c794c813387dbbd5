//! Configuration of congestion control. `docs/congestion.md` has the equations for these
//! parameters.

use super::range::{CongestionConfigError, check};
use super::{DctcpConfig, SwiftConfig, TimelyConfig};

/// Congestion control of every session of an endpoint.
///
/// The default is Swift for the paths of eRPC's evaluation: 25 Gbit/s links, 6 µs round trip, two
/// tiers of switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CongestionConfig {
    /// Which algorithm, with its parameters.
    pub algorithm: AlgorithmConfig,
    /// Rate of the host's link in bytes per second (1 to 1e12). A session never sends faster.
    pub link_bytes_per_s: u64,
    /// Bytes of a full packet on the wire, including the headers of all layers (64 to 65,535).
    /// Windows are in packets, paces in bytes.
    pub packet_bytes: u32,
    /// How much of its pace a paced session may send in one train, in nanoseconds (at most 1 ms);
    /// always at least one packet. This is also the longest queue that trains sent at the same time
    /// can cause.
    pub burst_ns: u64,
    /// Skip the update if a session is not congested and the sample shows no congestion (eRPC,
    /// section 5.2.2). If false, every sample is processed.
    pub rate_bypass: bool,
    /// Do not pace sessions that are not congested (eRPC, section 5.2.2). If false, every packet is
    /// paced, at least at the link's rate.
    pub pacing_bypass: bool,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AlgorithmConfig {
    /// None: only the receiver's credits limit a session.
    None,
    /// A rate that follows the gradient of the round trip.
    Timely(TimelyConfig),
    /// A window that follows the distance of the round trip to a target.
    Swift(SwiftConfig),
    /// A window that follows the fraction of packets that switches have marked.
    Dctcp(DctcpConfig),
}

impl Default for CongestionConfig {
    fn default() -> CongestionConfig {
        CongestionConfig {
            algorithm: AlgorithmConfig::Swift(SwiftConfig::default()),
            link_bytes_per_s: 25_000_000_000 / 8,
            packet_bytes: 1_514,
            burst_ns: 4_000,
            rate_bypass: true,
            pacing_bypass: true,
        }
    }
}

impl CongestionConfig {
    /// No congestion control.
    pub fn none() -> CongestionConfig {
        CongestionConfig { algorithm: AlgorithmConfig::None, ..CongestionConfig::default() }
    }

    /// Timely as eRPC runs it.
    pub fn timely() -> CongestionConfig {
        let algorithm = AlgorithmConfig::Timely(TimelyConfig::default());
        CongestionConfig { algorithm, ..CongestionConfig::default() }
    }

    /// Swift: the default.
    pub fn swift() -> CongestionConfig {
        CongestionConfig::default()
    }

    /// Swift for hosts whose packets pass through a kernel. There a loaded host takes 200 µs of a
    /// round trip, sleeping threads have to be woken, and long trains save the most work. The link
    /// is faster than the host.
    pub fn swift_over_kernel() -> CongestionConfig {
        let target = SwiftConfig {
            base_target_ns: 1_000_000,
            flow_range_ns: 1_000_000,
            ..SwiftConfig::default()
        };
        CongestionConfig {
            algorithm: AlgorithmConfig::Swift(target),
            link_bytes_per_s: 100_000_000_000 / 8,
            burst_ns: 50_000,
            ..CongestionConfig::default()
        }
    }

    /// DCTCP-style reaction to ECN marks. Useless where switches do not mark.
    pub fn dctcp() -> CongestionConfig {
        let algorithm = AlgorithmConfig::Dctcp(DctcpConfig::default());
        CongestionConfig { algorithm, ..CongestionConfig::default() }
    }

    /// Checks every parameter and the relations between them.
    ///
    /// # Errors
    /// Names the first parameter that is out of range. The configuration is at fault.
    pub fn validate(&self) -> Result<(), CongestionConfigError> {
        check("link_bytes_per_s", (1..=1_000_000_000_000).contains(&self.link_bytes_per_s))?;
        check("packet_bytes", (64..=65_535).contains(&self.packet_bytes))?;
        check("burst_ns", self.burst_ns <= 1_000_000)?;
        match &self.algorithm {
            AlgorithmConfig::None => Ok(()),
            AlgorithmConfig::Timely(timely) => timely.validate(self.link_bytes_per_s),
            AlgorithmConfig::Swift(swift) => swift.validate(),
            AlgorithmConfig::Dctcp(dctcp) => dctcp.validate(),
        }
    }
}
