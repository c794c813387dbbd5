//! How the backend behaves.

/// How a `FabricIo` behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// The provider to use; `None` for libfabric's first choice for the address: hardware before
    /// software.
    pub provider: Option<String>,
    /// The domain (a NIC's name) to use; `None` for the one that has the address.
    pub domain: Option<String>,
    /// Packets that can wait in memory to be received; less if the provider takes less.
    pub rx_slots: u32,
    /// Packets that can be on their way out of memory; less if the provider takes less.
    pub tx_slots: u32,
    /// Packets to this length are copied by the provider (into the work request, on verbs:
    /// "inlined") instead of fetched by it; never more than the provider's limit. 0 for none.
    pub inject_bytes_max: usize,
    /// Of so many packets sent from memory, one reports that they left ("selective signalling"),
    /// where the provider can. At least 1; it is bounded by a quarter of `tx_slots`.
    pub signal_interval: u32,
    /// Have a descriptor to sleep on, where the provider can. `udp` pays one system call per packet
    /// received for it, spinning or not.
    pub wakeups: bool,
    /// Largest datagram payload, in bytes, whatever the provider allows.
    pub datagram_bytes_max: usize,
    /// Peers that the backend knows at once.
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
