//! The result of an incast.

use petasos_report::Latency;
use serde::Serialize;

use crate::fabric::Traffic;

/// The results of an incast, for the measured part unless they say otherwise.
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
    /// Jain's index of the senders' goodput: 1 if all are equal, 1/n if one has everything.
    pub fairness: f64,
    /// Requests completed, warm-up included.
    pub completed: u64,
    /// The traffic next to the incast, if there was any.
    pub victims: Option<VictimResult>,
    /// Most frame bytes ever queued for the receiver's link.
    pub queue_bytes_max: u64,
    /// What happened to packets, from the start of the run to the end of measuring.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The results of the victims.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VictimResult {
    /// From a call to its completion. `None` if none completed while measuring.
    pub latency: Option<Latency>,
    /// Calls completed while measuring.
    pub measured: u64,
}
