//! The algorithms against their equations, against a closed loop, and against nonsense.

mod dctcp;
mod facade;
mod incast;
mod model;
mod swift;
mod timely;

use petasos_base::Time;

use crate::{Congestion, Feedback};

/// One packet's return after `rtt_ns`, with `in_flight` packets left behind.
/// Of a session that uses its window.
fn feedback(rtt_ns: u64) -> Feedback {
    Feedback { rtt_ns, packets: 1, marked: 0, in_flight: 64, served: false }
}

/// Gives `congestion` a sample at `now_ns`.
fn sample(congestion: &mut Congestion, now_ns: u64, rtt_ns: u64) {
    congestion.on_sample(Time::from_nanos(now_ns), &feedback(rtt_ns));
}

/// The window, and the pace in bytes per second if there is one.
fn state(congestion: &Congestion) -> (u32, Option<f64>) {
    let pace = congestion.pace().map(|pace| pace.bytes_per_s());
    (congestion.window_packets(u32::MAX), pace)
}
