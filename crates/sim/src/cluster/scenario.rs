//! The parameters of a run.

use petasos_base::{Rng, Time};
use petasos_endpoint::{CongestionConfig, EndpointConfig, Switches};
use petasos_netio::memory::RingConfig;

use super::plan::Workload;
use crate::{
    Action, BufferConfig, FaultProfile, LeafSpine, LinkConfig, SwitchConfig, Topology, WorldConfig,
};

/// The network's shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// This many hosts on one switch.
    Star(u32),
    /// This many hosts, each with a cable to every other.
    Mesh(u32),
    /// Two tiers of switches.
    LeafSpine(Box<LeafSpine>),
    /// This many hosts on one switch whose buffer holds this many bytes.
    Shallow(u32, u64),
}

/// Which hosts have sessions to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everyone to everyone.
    All,
    /// Everyone to host 0.
    ToFirst,
    /// Each host to this many others, spread over the network.
    Some(u32),
}

/// What happens to the cluster at a set time.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A change of the network, or a pause. Use the steps below for crashes.
    World(Action),
    /// A host dies. The others are not told.
    Crash(u32),
    /// A dead host restarts; the others learn of its death and open new sessions.
    Revive(u32),
    /// The control connections between two hosts break; both live. No effect without control.
    Break(u32, u32),
    /// The same, and no others replace them until the given time.
    CutControl(u32, u32, Time),
}

/// A cluster, its workload, and its faults.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario's name.
    pub name: &'static str,
    /// The network.
    pub shape: Shape,
    /// Cables of stars and meshes.
    pub link: LinkConfig,
    /// Which sessions there are.
    pub who: Who,
    /// Sessions from each host to each of its servers: at least two if calls are nested.
    pub sessions: u32,
    /// Whether the control protocol sets up sessions and detects dead peers.
    pub control: bool,
    /// Whether packets are sealed, as over TLS. The harness provides the keys, without a handshake.
    pub sealed: bool,
    /// Shared memory between hosts, so that sessions within a machine go over rings.
    pub rings: Option<RingConfig>,
    /// Every endpoint's settings. Unless these name a congestion control, each run picks one.
    pub endpoint: EndpointConfig,
    /// Which optimisations of the endpoints are off.
    pub switches: Switches,
    /// The calls that the hosts make.
    pub workload: Workload,
    /// The faults of all links until [`Scenario::calm_at`].
    pub faults: FaultProfile,
    /// Other events, by time, before [`Scenario::calm_at`].
    pub script: Vec<(Time, Step)>,
    /// When all faults end.
    pub calm_at: Time,
    /// How late a call's timeout may be noticed.
    pub lateness_nanos_max: u64,
    /// How many packets may be sent for each packet that a network without faults needs.
    pub amplification_max: f64,
}

impl Scenario {
    /// Whether damage may pass the checksums without being detected by a seal, so that bytes cannot
    /// be checked.
    pub fn is_trusting(&self) -> bool {
        self.faults.corrupt > 0.0 && self.faults.undetected > 0.0 && !self.sealed
    }

    pub(super) fn topology(&self) -> Topology {
        match &self.shape {
            Shape::Star(hosts) => Topology::star(*hosts, self.link, SwitchConfig::default()),
            Shape::Mesh(hosts) => Topology::mesh(*hosts, self.link),
            Shape::LeafSpine(shape) => Topology::leaf_spine(shape),
            Shape::Shallow(hosts, bytes) => {
                let buffer = BufferConfig::plain(*bytes);
                let switch = SwitchConfig { buffer, ..SwitchConfig::default() };
                Topology::star(*hosts, self.link, switch)
            }
        }
    }

    /// The settings of every endpoint in the run of `seed`.
    pub(super) fn endpoint(&self, seed: u64) -> EndpointConfig {
        let congestion = self.endpoint.congestion.unwrap_or_else(|| congestion_of(seed));
        EndpointConfig { congestion: Some(congestion), ..self.endpoint.clone() }
    }

    pub(super) fn world(&self, seed: u64) -> WorldConfig {
        WorldConfig { seed, rings: self.rings, ..WorldConfig::default() }
    }

    /// Pairs of client and server.
    pub(super) fn pairs(&self, hosts: u32) -> Vec<(u32, u32)> {
        let servers = |client: u32| -> Vec<u32> {
            match self.who {
                Who::All => (0..hosts).filter(|server| *server != client).collect(),
                Who::ToFirst => (client != 0).then_some(0).into_iter().collect(),
                Who::Some(count) => {
                    let step = (hosts / (count + 1)).max(1);
                    (1..=count).map(|i| (client + i * step) % hosts).collect()
                }
            }
        };
        let pairs = (0..hosts)
            .flat_map(|client| servers(client).into_iter().map(move |server| (client, server)));
        pairs.filter(|(client, server)| client != server).collect()
    }
}

/// The congestion control of a run: any algorithm, any train length, and each bypass on or off.
fn congestion_of(seed: u64) -> CongestionConfig {
    let mut rng = Rng::new(seed);
    let algorithms = [
        CongestionConfig::none,
        CongestionConfig::timely,
        CongestionConfig::swift,
        CongestionConfig::swift_over_kernel,
        CongestionConfig::dctcp,
    ];
    let algorithm = algorithms[rng.below(algorithms.len() as u64) as usize];
    CongestionConfig {
        burst_ns: [0, 4_000, 50_000][rng.below(3) as usize],
        rate_bypass: rng.chance(0.7),
        pacing_bypass: rng.chance(0.7),
        ..algorithm()
    }
}
