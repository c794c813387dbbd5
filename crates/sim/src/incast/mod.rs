//! Incast: many hosts send long requests to one (eRPC, section 6.5 and Table 5).
//!
//! Each sender always has one request of 8 MB under way to the receiver, host 0, which answers with
//! 32 bytes. Optionally a thread on every other host calls random threads of its kind with 64 kB in
//! both directions: the *victims*, whose paths cross those of the incast. [`run`] returns goodput,
//! the round trip of each answer, losses, marks, fairness and the victims' latency. It is a pure
//! function of its configuration.
//!
//! Rules are checked during the run ([`Violation`]): handlers run once, requests are complete,
//! credits are kept, packets are accounted for.

mod config;
mod layout;
mod result;

use petasos_base::Time;

pub use self::config::{IncastConfig, VictimConfig};
pub use self::result::{IncastResult, VictimResult};
pub use crate::fabric::{HostConfig, Rule, SessionConfig, Traffic, Violation};

use self::layout::{RECEIVER, SENDERS, VICTIMS};
use crate::fabric::{Fabric, jain_index};
use crate::topology::Node;

/// Runs the experiment: warms up, measures, and drains if that is asked for.
///
/// # Errors
/// A rule that was broken: a defect of the protocol, not of the configuration.
///
/// # Panics
/// If the configuration is out of range: the caller's fault. See [`IncastConfig`].
pub fn run(config: &IncastConfig) -> Result<IncastResult, Violation> {
    let mut fabric = Fabric::new(&config.fabric(), &layout::plan(config));
    let begin = Time::from_nanos(config.warm_up_nanos);
    let end = begin.plus_nanos(config.measured_nanos);
    fabric.run_until(begin)?;
    let before: Vec<u64> = fabric.received_bytes(RECEIVER).collect();
    fabric.measure(true);
    fabric.run_until(end)?;
    fabric.measure(false);
    let shares = fabric.received_bytes(RECEIVER).zip(before).map(|(now, before)| now - before);
    let shares: Vec<u64> = shares.collect();
    fabric.check_accounting()?;
    let result = collect(config, &fabric, &shares);
    if config.drain {
        fabric.drain(Time::NEVER)?;
    }
    Ok(result)
}

fn collect(config: &IncastConfig, fabric: &Fabric, shares: &[u64]) -> IncastResult {
    let leaf = Node::Switch(0);
    let bottleneck = fabric.topology().link(leaf, Node::Host(0)).expect("host 0 is on leaf 0");
    let victims = config.victims.is_some().then(|| fabric.group(VICTIMS));
    let gbps = |bytes: u64| bytes as f64 * 8.0 / config.measured_nanos as f64;
    IncastResult {
        senders: config.senders,
        goodput_gbps: gbps(shares.iter().sum()),
        sender_gbps: shares.iter().map(|&bytes| gbps(bytes)).collect(),
        rtt: fabric.group(SENDERS).rtt.latency(),
        fairness: jain_index(shares.iter().map(|&bytes| bytes as f64)),
        completed: fabric.group(SENDERS).completed,
        victims: victims.map(|victims| VictimResult {
            latency: victims.latency.latency(),
            measured: victims.latency.count(),
        }),
        queue_bytes_max: fabric.port_stats(bottleneck).queue_bytes_max,
        traffic: fabric.traffic(),
    }
}
