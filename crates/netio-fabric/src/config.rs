//! Configuration of the backend.

use petasos_netio::Switch;

/// The most bytes of a message with several packets (mRPC, section 5, feature 2).
pub const FUSED_BYTES_MAX: usize = 16 << 10;

/// How a `FabricIo` behaves.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// The provider to use. `None` takes libfabric's first choice for the address, which prefers
    /// hardware to software.
    pub provider: Option<String>,
    /// The domain (a NIC's name) to use. `None` takes the one that has the address.
    pub domain: Option<String>,
    /// How many received messages can wait in memory; fewer if the provider supports fewer.
    pub rx_slots: u32,
    /// How many messages can be in transmission from memory; fewer if the provider supports fewer.
    pub tx_slots: u32,
    /// The provider copies messages of up to this length, instead of reading them later from where
    /// they are. With verbs, it copies them into the work request ("inlining"). Never more than the
    /// provider's limit; 0 to never copy.
    pub inject_bytes_max: usize,
    /// Of this many messages sent from memory, only one reports its completion ("selective
    /// signalling"), if the provider supports that. At least 1; at most a quarter of `tx_slots`.
    pub signal_interval: u32,
    /// Have a descriptor to sleep on, if the provider supports that. It costs `udp` one system call
    /// per received message, even while spinning.
    pub wakeups: bool,
    /// The largest packet, in bytes, whatever the provider allows. By default, four of them fit a
    /// message with several packets, and leave room for small ones beside them.
    pub datagram_bytes_max: usize,
    /// The most bytes of a message with several packets: at most [`FUSED_BYTES_MAX`], and what the
    /// provider allows.
    pub fused_bytes_max: usize,
    /// Whether packets of one batch to one peer share messages, or each has its own.
    pub fusing: Switch,
    /// The most peers that the backend knows at once.
    pub routes_max: usize,
}

impl Default for FabricConfig {
    fn default() -> FabricConfig {
        FabricConfig {
            provider: None,
            domain: None,
            rx_slots: 1024,
            tx_slots: 256,
            inject_bytes_max: usize::MAX,
            signal_interval: 16,
            wakeups: true,
            datagram_bytes_max: 4024,
            fused_bytes_max: FUSED_BYTES_MAX,
            fusing: Switch::default(),
            routes_max: 1 << 16,
        }
    }
}
