//! Counters of this backend.

petasos_base::counters! {
    /// Counters beyond [`petasos_netio::IoStats`].
    pub struct FabricStats {
        /// Datagrams without payload; not delivered.
        rx_empty,
        /// Times that a receive slot could not be given back to the provider at once.
        rx_unposted,
        /// Packets that the provider copied.
        tx_injected,
        /// Completions read of packets sent from memory: one per signal interval, or one for each.
        tx_completions,
    }
}
