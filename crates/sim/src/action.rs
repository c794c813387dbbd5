//! Actions of a script on the world, at once or at a set time.

use petasos_base::Time;

use crate::topology::Topology;
use crate::{FaultProfile, LinkId, Node};

/// A change of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Takes a host's processor away until a given time: the host does not run, its inbox fills up,
    /// and it runs as soon as the pause is over. A later pause replaces this one. No effect on a
    /// dead host.
    Pause {
        /// Which host.
        host: u32,
        /// Until when.
        until: Time,
    },
    /// Kills a host: it never runs again, and packets that arrive for it are dropped. Packets that
    /// it has sent still arrive.
    Crash {
        /// Which host.
        host: u32,
    },
    /// Kills a host unless it is dead, and makes a new one in its place that knows nothing of the
    /// old one. Packets in flight to the host's number reach the new one.
    Restart {
        /// Which host.
        host: u32,
    },
    /// From now on a host's clock is so many millionths fast, or slow if negative. The world has
    /// [`crate::WorldConfig::own_clocks`]. It goes on through crashes.
    Drift {
        /// Which host.
        host: u32,
        /// At most 900,000 either way.
        ppm: i32,
    },
    /// Sets a host's clock of day forwards, or backwards if negative; what it counts is not
    /// affected.
    JumpDay {
        /// Which host.
        host: u32,
        /// By how much.
        by_nanos: i64,
    },
    /// Replaces the fault profile of links.
    Faults {
        /// Which links.
        links: Links,
        /// Their profile from now on.
        profile: FaultProfile,
    },
    /// Cuts links: packets put on them are lost. Packets in flight arrive, and routes do not
    /// change.
    Cut(Links),
    /// Repairs links.
    Mend(Links),
    /// Splits the hosts into groups, given for each host: packets sent from one group to another
    /// are lost. Packets in flight arrive. A later partition replaces this one.
    Partition(Vec<u32>),
    /// Ends the partition.
    Heal,
    /// Ends every fault of the network (clocks stay as they are): all links are clean and repaired,
    /// and there is no partition. From now on, all living hosts must make progress.
    Calm,
}

/// A set of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All of them.
    All,
    /// One direction of one cable.
    One(LinkId),
    /// Every link that starts or ends at this host.
    OfHost(u32),
}

impl Links {
    /// Whether link `index` of `topology` is among them.
    pub(crate) fn contains(self, topology: &Topology, index: usize) -> bool {
        match self {
            Links::All => true,
            Links::One(link) => link.0 as usize == index,
            Links::OfHost(host) => {
                let (from, to, _) = topology.links[index];
                from == Node::Host(host) || to == Node::Host(host)
            }
        }
    }
}
