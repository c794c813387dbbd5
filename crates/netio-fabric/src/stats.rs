//! Counters of this backend.

petasos_base::counters! {
    /// Counters beyond [`petasos_netio::IoStats`].
    pub struct FabricStats {
        /// Messages with packets.
        rx_messages,
        /// Messages without a byte; not delivered.
        rx_empty,
        /// Messages that break their format; not delivered.
        rx_malformed,
        /// Times that a receive slot could not be given back to the provider at once.
        rx_unposted,
        /// Messages sent.
        tx_messages,
        /// Packets sent in a message with others.
        tx_fused,
        /// Messages that the provider copied.
        tx_injected,
        /// Completions read of messages sent from memory: one per signal interval, or one for each.
        tx_completions,
    }
}
