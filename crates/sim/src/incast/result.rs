//! What came of an incast.

use petasos_report::Latency;
use serde::Serialize;

/// An incast's figures. Rates and times are of the measured part; counters are of the whole run
/// up to its end, warm-up included, all traffic together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncastResult {
    /// Senders.
    pub senders: u32,
    /// Request bytes that reached the receiver's handlers' buffers, each once, in Gbit/s.
    pub goodput_gbps: f64,
    /// Round trips as the senders see them, from the hand-over of a packet to the network card
    /// until its answer is processed; one for each answer. `None` if there was none.
    pub rtt: Option<Latency>,
    /// Jain's index over what each sender got through: 1 is equal, 1/n is one for all.
    pub fairness: f64,
    /// Requests completed, warm-up included.
    pub completed: u64,
    /// The traffic beside the incast, if there was any.
    pub victims: Option<VictimResult>,
    /// Most frame bytes ever queued for the receiver's link.
    pub queue_bytes_max: u64,
    /// Packets dropped for want of buffer, in switches and network cards.
    pub drops_switch: u64,
    /// Packets dropped because a thread's receive queue was full.
    pub drops_receive_queue: u64,
    /// Packets lost on links by the configured faults.
    pub drops_loss: u64,
    /// Packets marked by switches.
    pub marks: u64,
    /// Packets sent by hosts.
    pub packets: u64,
    /// Packets repeated by clients.
    pub retransmissions: u64,
    /// Of those, how many proved unnecessary.
    pub retransmissions_spurious: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Packets times links, the simulator's work.
    pub packet_hops: u64,
    /// Events of the simulation, turns of threads included.
    pub events: u64,
}

/// The victims' figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VictimResult {
    /// From a call to its completion. `None` if none completed while measuring.
    pub latency: Option<Latency>,
    /// Calls completed while measuring.
    pub measured: u64,
}
