//! The outcome of one turn of one role.

use petasos_report::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The result of one role in one turn. It can be sent to another process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Turn {
    /// The seconds by which the counts below are to be divided.
    pub elapsed_s: f64,
    /// Processor time of the role's thread, in seconds.
    pub cpu_s: f64,
    /// Datagrams completed: round trips of a client; datagrams echoed, sent or received by other
    /// roles.
    pub datagrams: u64,
    /// Payload bytes of these datagrams, counted once.
    pub bytes: u64,
    /// Datagrams given up as lost, or not sent because the system would not take them.
    pub lost: u64,
    /// Round trips of a ping-pong; empty otherwise.
    pub latency: Histogram,
}

impl Turn {
    /// Datagrams per second; 0 if no time passed.
    pub fn ops_per_s(&self) -> f64 {
        self.per_s(self.datagrams as f64)
    }

    /// Payload in gigabits per second; 0 if no time passed.
    pub fn gbit_per_s(&self) -> f64 {
        self.per_s(self.bytes as f64 * 8.0 / 1e9)
    }

    fn per_s(&self, amount: f64) -> f64 {
        if self.elapsed_s > 0.0 { amount / self.elapsed_s } else { 0.0 }
    }
}

/// Processor time that the calling thread has used so far, in seconds.
pub(crate) fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
