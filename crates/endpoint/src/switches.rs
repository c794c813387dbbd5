//! Switches that turn optimisations off, and faults that can be injected, for measurements only.

use petasos_base::Rng;

/// The common-case optimisations (eRPC, table 3), all on by default, and injected faults, none by
/// default.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Switches {
    /// Read the clock once per turn instead of once per packet.
    pub batched_clock: bool,
    /// Let a short response reuse the buffer of the slot's previous one.
    pub preallocated_responses: bool,
    /// Pass a single-packet request to its handler in the memory that it was received into.
    pub zero_copy_requests: bool,
    /// Probability with which each received packet is dropped, after GRO has been split.
    pub loss: f64,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            batched_clock: true,
            preallocated_responses: true,
            zero_copy_requests: true,
            loss: 0.0,
        }
    }
}

/// Drops received packets on purpose.
#[derive(Debug)]
pub(crate) struct Faults {
    loss: f64,
    rng: Rng,
}

impl Faults {
    /// None if nothing is to be dropped.
    pub(crate) fn new(switches: &Switches, seed: u64) -> Option<Faults> {
        (switches.loss > 0.0).then(|| Faults { loss: switches.loss, rng: Rng::new(seed) })
    }

    /// Whether the next packet is to be dropped.
    pub(crate) fn drops(&mut self) -> bool {
        self.rng.chance(self.loss)
    }
}
