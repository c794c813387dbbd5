//! Configuration of the backend.

/// How a `FabricIo` behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// The provider to use. `None` takes libfabric's first choice for the address, which prefers
    /// hardware to software.
    pub provider: Option<String>,
    /// The domain (a NIC's name) to use. `None` takes the one that has the address.
    pub domain: Option<String>,
    /// How many received packets can wait in memory; fewer if the provider supports fewer.
    pub rx_slots: u32,
    /// How many packets can be in transmission from memory; fewer if the provider supports fewer.
    pub tx_slots: u32,
    /// The provider copies packets of up to this length, instead of reading them from memory later.
    /// With verbs, it copies them into the work request ("inlining"). Never more than the
    /// provider's limit; 0 to never copy.
    pub inject_bytes_max: usize,
    /// Of this many packets sent from memory, only one reports its completion ("selective
    /// signalling"), if the provider supports that. At least 1; at most a quarter of `tx_slots`.
    pub signal_interval: u32,
    /// Have a descriptor to sleep on, if the provider supports that. It costs `udp` one system call
    /// per received packet, even while spinning.
    pub wakeups: bool,
    /// The largest datagram payload, in bytes, whatever the provider allows.
    pub datagram_bytes_max: usize,
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
            datagram_bytes_max: 8972,
            routes_max: 1 << 16,
        }
    }
}
