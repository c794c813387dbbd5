//! The rules that hold once all activity has ended: nothing is kept, and nothing is lost.

use super::{Life, Violation};

/// A host without any open calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostAtRest {
    pub(crate) life: Life,
    /// Requests whose handlers have not answered, as the endpoint counts them.
    pub(crate) running: usize,
    /// Calls that have not ended, as the endpoint counts them.
    pub(crate) calls: usize,
    /// Bytes that the pool has lent.
    pub(crate) lent_bytes: usize,
    /// The most bytes that the pool may ever have lent.
    pub(crate) lent_bytes_max: usize,
    /// Handlers and continuations that panicked, or internal invariants that broke.
    pub(crate) panics: u64,
    /// Requests that were passed to handlers that never answer.
    pub(crate) silent: usize,
    /// Bytes that the last responses of all slots of server sessions can hold.
    pub(crate) retained_bytes_max: usize,
    /// Whether all sessions have been closed.
    pub(crate) closed: bool,
}

impl HostAtRest {
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let lent_max = if self.closed { 0 } else { self.retained_bytes_max };
        let running_max = if self.closed { 0 } else { self.silent };
        let rules = [
            ("no panics", self.panics == 0),
            ("no call is left", self.calls == 0),
            ("no handler is left", self.running <= running_max),
            ("buffers come back", self.lent_bytes <= lent_max),
            ("the pool keeps its limit", self.lent_bytes <= self.lent_bytes_max),
        ];
        match rules.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((rule, _)) => {
                Err(Violation::new(rule, format_args!("host {}: {self:?}", self.life.host)))
            }
        }
    }
}

/// The network once no packet is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkAtRest {
    /// Packets that were sent or copied, and neither arrived nor were dropped.
    pub(crate) unaccounted: u64,
    /// Packets in flight.
    pub(crate) in_flight: u64,
    /// Packets that hosts sent.
    pub(crate) sent: u64,
    /// Packets that the calls need on a network without faults.
    pub(crate) needed: u64,
    /// How many times the needed packets may be sent.
    pub(crate) amplification_max: f64,
}

/// Packets beyond the amplification limit that small runs may send, to probe for slow handlers.
const SPARE_PACKETS: f64 = 2000.0;

impl NetworkAtRest {
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let sent_max = self.needed as f64 * self.amplification_max + SPARE_PACKETS;
        let rules = [
            ("packets are accounted for", self.unaccounted == self.in_flight),
            ("the network falls silent", self.in_flight == 0),
            ("no storms of retransmissions", self.sent as f64 <= sent_max),
        ];
        match rules.into_iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((rule, _)) => Err(Violation::new(rule, format_args!("{self:?}"))),
        }
    }
}
