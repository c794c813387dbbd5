//! The result of an incast.

use petasos_report::Latency;
use serde::Serialize;

use crate::fabric::Traffic;

/// An incast's figures, of the measured part unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncastResult {
    /// Senders.
    pub senders: u32,
    /// Request bytes that reached the receiver's handlers' buffers, each once, in Gbit/s.
    pub goodput_gbps: f64,
    /// The same for each sender, in the order in which they take their congestion control.
    pub sender_gbps: Vec<f64>,
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
    /// What happened to packets, from the start of the run to the end of measuring.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The victims' figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VictimResult {
    /// From a call to its completion. `None` if none completed while measuring.
    pub latency: Option<Latency>,
    /// Calls completed while measuring.
    pub measured: u64,
}
