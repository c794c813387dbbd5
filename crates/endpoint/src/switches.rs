//! What measurements turn off in an endpoint, and faults that they inject. No program needs it.

use petasos_base::Rng;

/// The common-case optimisations (eRPC, table 3), all on at first, and injected faults, none at
/// first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switches {
    /// Read the clock once per turn instead of once per packet.
    pub batched_clock: bool,
    /// Let a short response reuse the buffer of the slot's previous one.
    pub preallocated_responses: bool,
    /// Show a single-packet request to its handler where it was received.
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
