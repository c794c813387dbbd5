//! Faults injected on purpose.

use petasos_base::Rng;

use crate::config::FaultConfig;

/// Decides the fate of each received packet.
#[derive(Debug)]
pub(crate) struct Faults {
    config: FaultConfig,
    rng: Rng,
}

impl Faults {
    pub(crate) fn new(config: FaultConfig, seed: u64) -> Faults {
        Faults { config, rng: Rng::new(seed) }
    }

    /// Whether the next packet is to be dropped.
    pub(crate) fn drops(&mut self) -> bool {
        self.rng.chance(self.config.loss)
    }
}
