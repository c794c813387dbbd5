//! All to all: every thread calls random other threads with short messages (eRPC, section 6.3), on
//! a configurable number of sessions.
//!
//! It shows the cost of many sessions for the receive queues. A thread's queue holds
//! [`HostConfig::receive_frames`] for all of its sessions, client and server halves together;
//! further frames are dropped and counted. eRPC reserves room for the credits of each session. Here
//! nothing is reserved, and [`Traffic::receive_queue_frames_max`] shows how much was needed.
//!
//! The same rules are checked as in [`crate::incast`].

use petasos_base::Time;
use petasos_report::Latency;
use serde::Serialize;

pub use crate::fabric::{HostConfig, Rule, SessionConfig, Traffic, Violation};

use crate::fabric::{Fabric, FabricConfig, LoadPlan, Plan, SessionPlan};
use crate::{Framing, LeafSpine};

/// An all-to-all experiment. Start from [`AllToAllConfig::erpc`].
#[derive(Clone, Copy, Debug)]
pub struct AllToAllConfig {
    /// The network, at least 2 hosts.
    pub shape: LeafSpine,
    /// The bytes that surround payloads on the wire.
    pub framing: Framing,
    /// The speed of threads, and the length of their receive queues.
    pub host: HostConfig,
    /// Credits, payload, recovery.
    pub session: SessionConfig,
    /// Threads on each host, at least 1; at least 2 threads in all.
    pub threads_per_host: u32,
    /// Client sessions that each thread has with each other thread, at least 1.
    pub sessions_per_pair: u32,
    /// Concurrent requests of a session, a power of two.
    pub slots: u32,
    /// Calls that each thread keeps open, each on a session picked at random.
    pub in_flight: u32,
    /// Length of the requests, in bytes.
    pub request_bytes: u32,
    /// Length of the responses, in bytes.
    pub response_bytes: u32,
    /// Virtual time before measuring begins.
    pub warm_up_nanos: u64,
    /// Virtual time of measuring, above 0.
    pub measured_nanos: u64,
    /// Whether to continue after measuring until every call has ended, and to check that each was
    /// handled exactly once.
    pub drain: bool,
    /// The seed of all randomness.
    pub seed: u64,
}

impl AllToAllConfig {
    /// A hundred hosts of `threads_per_host` threads, each with 60 calls of 32 bytes open, as in
    /// eRPC's section 6.3; 8 credits and 8 slots for each session; 100 µs of warm-up, and 500 µs
    /// measured.
    pub fn erpc(threads_per_host: u32) -> AllToAllConfig {
        AllToAllConfig {
            shape: LeafSpine::hundred_hosts(),
            framing: Framing::default(),
            host: HostConfig::default(),
            session: SessionConfig { credits: 8, ..SessionConfig::default() },
            threads_per_host,
            sessions_per_pair: 1,
            slots: 8,
            in_flight: 60,
            request_bytes: 32,
            response_bytes: 32,
            warm_up_nanos: 100_000,
            measured_nanos: 500_000,
            drain: false,
            seed: 1,
        }
    }

    /// Sessions of a thread, client and server halves together.
    pub fn sessions_per_thread(&self) -> u32 {
        2 * (self.threads() - 1) * self.sessions_per_pair
    }

    fn threads(&self) -> u32 {
        self.shape.hosts() * self.threads_per_host
    }

    fn plan(&self) -> Plan {
        let threads = self.threads();
        let mut plan = Plan { groups: 1, ..Plan::default() };
        // Neighbouring numbers are on different hosts, as if the threads of all hosts started
        // together.
        plan.threads = (0..threads).map(|thread| thread % self.shape.hosts()).collect();
        for client in 0..threads {
            let servers = (0..threads).filter(|&server| server != client);
            let each = servers.flat_map(|server| (0..self.sessions_per_pair).map(move |_| server));
            plan.sessions.extend(each.map(|server| SessionPlan {
                client,
                server,
                config: self.session,
                slots: self.slots,
                request_bytes: self.request_bytes,
                response_bytes: self.response_bytes,
            }));
            let load =
                LoadPlan { thread: client, group: 0, outstanding: self.in_flight, start_nanos: 0 };
            plan.loads.push(load);
        }
        plan
    }
}

/// The results, for the measured part unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AllToAllResult {
    /// Threads in all.
    pub threads: u32,
    /// Sessions of each thread, client and server halves together.
    pub sessions_per_thread: u32,
    /// Requests per second that each host's threads completed as clients, on average, in millions.
    pub mrps_per_host: f64,
    /// From a call to its completion. `None` if none completed.
    pub latency: Option<Latency>,
    /// Round trips of packets.
    pub rtt: Option<Latency>,
    /// What happened to packets, from the start of the run to the end of measuring.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// Runs the experiment: warms up, measures, and drains if that is asked for.
///
/// # Errors
/// A rule that was broken: a defect of the protocol, not of the configuration.
///
/// # Panics
/// If the configuration is out of range: the caller's fault. See [`AllToAllConfig`].
pub fn run(config: &AllToAllConfig) -> Result<AllToAllResult, Violation> {
    assert!(config.measured_nanos > 0, "measuring takes time");
    assert!(config.threads() > 1 && config.sessions_per_pair > 0, "somebody is there to be called");
    let (shape, framing, host, seed) = (config.shape, config.framing, config.host, config.seed);
    let fabric = FabricConfig { shape, framing, host, ecn: true, seed };
    let mut fabric = Fabric::new(&fabric, &config.plan());
    let begin = Time::from_nanos(config.warm_up_nanos);
    fabric.run_until(begin)?;
    fabric.measure(true);
    fabric.run_until(begin.plus_nanos(config.measured_nanos))?;
    fabric.measure(false);
    fabric.check_accounting()?;
    let calls = fabric.group(0);
    let per_host = calls.latency.count() as f64 / f64::from(config.shape.hosts());
    let result = AllToAllResult {
        threads: config.threads(),
        sessions_per_thread: config.sessions_per_thread(),
        mrps_per_host: per_host * 1e3 / config.measured_nanos as f64,
        latency: calls.latency.latency(),
        rtt: calls.rtt.latency(),
        traffic: fabric.traffic(),
    };
    if config.drain {
        fabric.drain(Time::NEVER)?;
    }
    Ok(result)
}
