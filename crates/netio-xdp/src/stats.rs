//! Counters of this backend.

use petasos_netio_frame::Flaw;

petasos_base::counters! {
    /// Counters beyond [`petasos_netio::IoStats`]. Faulty frames are also counted there, in
    /// `rx_errors`.
    pub struct XdpStats {
        /// Frames that ended before their headers did.
        rx_short,
        /// Frames that are not UDP directly after IPv4 or IPv6: VLAN tags, options, extensions.
        rx_protocol,
        /// Fragments of datagrams.
        rx_fragments,
        /// Frames whose lengths contradict each other.
        rx_lengths,
        /// Frames with a wrong or missing checksum.
        rx_checksums,
        /// Frames for another address or port.
        rx_foreign,
        /// Datagrams without payload. They are not faulty, but not delivered.
        rx_empty,
        /// Datagrams for this endpoint that the kernel received and dropped: they were fragments,
        /// had options, or arrived on another queue.
        rx_diverted,
        /// Frames that the kernel dropped because no receive frame was free.
        rx_no_frame,
        /// Frames that the kernel dropped because the receive ring was full.
        rx_ring_full,
        /// Packets dropped because the interface was down.
        tx_down,
        /// Frames that the driver accepted and dropped: no carrier, or no room.
        tx_dropped,
        /// Neighbours whose Ethernet address has changed.
        neighbour_changes,
    }
}

impl XdpStats {
    #[cold]
    pub(crate) fn note(&mut self, flaw: Flaw) {
        let counter = match flaw {
            Flaw::Short => &mut self.rx_short,
            Flaw::Protocol => &mut self.rx_protocol,
            Flaw::Fragment => &mut self.rx_fragments,
            Flaw::Length => &mut self.rx_lengths,
            Flaw::Checksum => &mut self.rx_checksums,
            Flaw::Foreign => &mut self.rx_foreign,
        };
        *counter += 1;
    }

    /// Faulty frames.
    pub(crate) fn flawed(&self) -> u64 {
        self.rx_short
            + self.rx_protocol
            + self.rx_fragments
            + self.rx_lengths
            + self.rx_checksums
            + self.rx_foreign
    }
}
