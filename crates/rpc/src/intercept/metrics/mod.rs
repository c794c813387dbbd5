//! Counts of calls and messages, and how long calls take, by method.
//!
//! Names follow grpc-ecosystem's, with `rpc` for `grpc`: `rpc_server_started_total`,
//! `rpc_server_handled_total` (by code), `rpc_server_msg_received_total`,
//! `rpc_server_msg_sent_total`, `rpc_server_handling_seconds` (a histogram), and the same for
//! `rpc_client_…`; with [`Metrics::with_bytes`] also `rpc_server_msg_received_bytes_total` and
//! `rpc_server_msg_sent_bytes_total`.
//!
//! A method's counters are made when its first call arrives, and every call finds them without a
//! lock; all counters are atomics. There are as many as there are methods, so callers cannot make
//! them grow. The table keeps the services that it counts, also those that became known at run
//! time.

mod table;
mod text;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use petasos_call::{Code, Status};

use super::{AnyMessage, CallInfo, Direction, Interceptor, Outcome, Side, Step};
use table::{Counters, Table};

/// Upper bounds of the latency histograms' buckets. A last bucket counts what takes longer.
pub const LATENCY_BOUNDS: [Duration; 20] = {
    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }
    [
        us(5),
        us(10),
        us(25),
        us(50),
        us(100),
        us(250),
        us(500),
        us(1_000),
        us(2_500),
        us(5_000),
        us(10_000),
        us(25_000),
        us(50_000),
        us(100_000),
        us(250_000),
        us(500_000),
        us(1_000_000),
        us(2_500_000),
        us(5_000_000),
        us(10_000_000),
    ]
};

/// How many buckets a latency histogram has.
pub const BUCKETS: usize = LATENCY_BOUNDS.len() + 1;

/// An interceptor that counts. Clones share their counters, so the program keeps one to read them.
#[derive(Clone, Default)]
pub struct Metrics {
    table: Arc<Table>,
    counts_bytes: bool,
}

/// The counts of a method at one side.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MethodMetrics {
    /// Whether this process made or answered the calls.
    pub side: Side,
    /// The service's full name.
    pub service: String,
    /// The method's name in it.
    pub method: String,
    /// Calls that have begun.
    pub started: u64,
    /// Calls that are over, indexed by their code's number.
    pub handled: [u64; Code::ALL.len()],
    /// Messages that were received.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Bytes of received messages in protobuf's encoding, uncompressed; zero without
    /// [`Metrics::with_bytes`].
    pub received_bytes: u64,
    /// Bytes of sent messages, counted in the same way.
    pub sent_bytes: u64,
    /// Calls that are over, by duration. Each bucket counts calls that took longer than the
    /// previous one of [`LATENCY_BOUNDS`] and not longer than its own; the last bucket counts all
    /// longer ones.
    pub latency: [u64; BUCKETS],
    /// The sum of these durations.
    pub latency_sum: Duration,
}

impl MethodMetrics {
    /// By which it is sorted.
    fn place(&self) -> (bool, &str, &str) {
        (self.side == Side::Client, &self.service, &self.method)
    }

    /// Calls that ended with this code.
    pub fn handled_with(&self, code: Code) -> u64 {
        self.handled[usize::from(code.number())]
    }
}

impl Metrics {
    /// Counts everything except bytes.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Counts the bytes of messages too. For that, each message is encoded once more.
    #[must_use]
    pub fn with_bytes(self) -> Metrics {
        Metrics { counts_bytes: true, ..self }
    }

    /// The counts so far of each method that was called, by side and service. Counters are read one
    /// after the other while calls continue.
    pub fn snapshot(&self) -> Vec<MethodMetrics> {
        let mut all: Vec<MethodMetrics> = self.table.methods().collect();
        all.sort_by(|a, b| a.place().cmp(&b.place()));
        all
    }

    /// The counts in Prometheus' text format, version 0.0.4.
    pub fn to_prometheus(&self) -> String {
        text::text(&self.snapshot(), self.counts_bytes)
    }

    fn counters(&self, call: &CallInfo) -> &Counters {
        self.table.of(call)
    }
}

impl Interceptor for Metrics {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        self.counters(call).started();
        Step::Continue
    }

    fn message(
        &self,
        call: &CallInfo,
        direction: Direction,
        message: AnyMessage<'_>,
    ) -> Result<(), Status> {
        let bytes = if self.counts_bytes { message.protobuf_bytes() as u64 } else { 0 };
        let is_sent = (direction == Direction::Request) == (call.side() == Side::Client);
        self.counters(call).message(is_sent, bytes);
        Ok(())
    }

    fn ended(&self, call: &CallInfo, outcome: &Outcome<'_>) {
        self.counters(call).ended(outcome.code(), call.elapsed());
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("counts_bytes", &self.counts_bytes).finish_non_exhaustive()
    }
}
