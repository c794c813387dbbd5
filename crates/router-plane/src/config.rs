//! What can be set.

use petasos_router::{Config, ConfigError, Keys};
use petasos_wire::{CLIENTS_MAX, FIRST_BYTES, Group, PAYLOAD_BYTES_MIN, SEAL_BYTES};

/// The most bytes of requests that wait (RT39).
const WAITING_BYTES_MAX: usize = 32 << 20;
/// Places of a worker on the ring of keys: shares differ by an eighth.
const KEY_PLACES: u16 = 64;

/// What a plane does.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// The decisions. What waits is bounded by [`PlaneConfig::payload_bytes`] as well: all of it
    /// takes 32 MiB at most.
    pub core: Config,
    /// The payload size of the group (RT32): 1024 bytes or more.
    pub payload_bytes: u32,
    /// The most clients (RT39), 1 to 2^19.
    pub clients_max: u32,
    /// Whether packets are sealed (RT27, RT28). Epochs then have secrets, see
    /// [`Plane::begin_epoch`](crate::Plane::begin_epoch).
    pub is_sealed: bool,
}

impl Default for PlaneConfig {
    /// JSQ, keys on a ring, payloads that fit Ethernet, and 4096 clients, in plaintext.
    fn default() -> PlaneConfig {
        let waiting_max = 16_384;
        let keys = Keys { places: KEY_PLACES, ..Config::default().keys };
        let core = Config { waiting_max, keys, ..Config::default() };
        PlaneConfig { core, payload_bytes: 1400, clients_max: 4096, is_sealed: false }
    }
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaneConfigError {
    /// The core's part is wrong.
    #[error(transparent)]
    Core(#[from] ConfigError),
    /// The payload size is too small, or a packet would be longer than a datagram can be.
    #[error("a payload has 1024 to 65,000 bytes")]
    Payload,
    /// There can be no clients, or more than numbers.
    #[error("there are 1 to 524,288 clients")]
    Clients,
}

impl PlaneConfig {
    /// Checks it, but for the core's part.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn check(&self) -> Result<(), PlaneConfigError> {
        if !(PAYLOAD_BYTES_MIN..=65_000).contains(&self.payload_bytes) {
            return Err(PlaneConfigError::Payload);
        }
        // Numbers of some that are gone are held back.
        if !(1..=CLIENTS_MAX / 2).contains(&self.clients_max) {
            return Err(PlaneConfigError::Clients);
        }
        Ok(())
    }

    pub(crate) fn group(&self) -> Group {
        Group { payload_bytes: self.payload_bytes, is_sealed: self.is_sealed }
    }

    /// The longest first packet.
    pub(crate) fn frame_bytes(&self) -> usize {
        let seal_bytes = if self.is_sealed { SEAL_BYTES } else { 0 };
        FIRST_BYTES + self.payload_bytes as usize + seal_bytes
    }

    /// How many requests may wait.
    pub(crate) fn waiting_max(&self) -> usize {
        waiting_within(self.core.waiting_max, self.frame_bytes())
    }
}

/// As many requests as may wait, and as there is memory for.
pub(crate) fn waiting_within(waiting_max: usize, frame_bytes: usize) -> usize {
    waiting_max.min(WAITING_BYTES_MAX / frame_bytes).max(2)
}
