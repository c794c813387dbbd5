//! Counters of this backend.

use petasos_netio_frame::Flaw;

petasos_base::counters! {
    /// Counters beyond [`petasos_netio::IoStats`]. Flaws are also counted in `rx_errors` there.
    pub struct DpdkStats {
        /// Frames that ended before their headers did.
        rx_short,
        /// Frames that are neither UDP directly after IPv4 or IPv6 nor neighbour messages. No flaw,
        /// because links carry other protocols as well (LLDP, multicast reports, the kernel's TCP).
        rx_protocol,
        /// Fragments of datagrams.
        rx_fragments,
        /// Frames whose lengths contradict each other.
        rx_lengths,
        /// Frames with a wrong or missing checksum.
        rx_checksums,
        /// Frames for another address or port. No flaw, because there may be other hosts.
        rx_foreign,
        /// Datagrams without payload. They are no flaw, but are not delivered.
        rx_empty,
        /// Frames from foreign memory, or in several segments, that could not be copied into our
        /// own.
        rx_uncopied,
        /// Datagrams dropped while a route waited for its neighbour's address.
        rx_while_resolving,
        /// Frames that the device dropped because no receive frame was free.
        rx_missed,
        /// Questions for our Ethernet address that were answered.
        neighbour_answers,
        /// Neighbours whose Ethernet address has changed.
        neighbour_changes,
    }
}

#[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "the backend counts"))]
impl DpdkStats {
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

    /// Frames with a flaw.
    pub(crate) fn flawed(&self) -> u64 {
        self.rx_short + self.rx_fragments + self.rx_lengths + self.rx_checksums
    }
}
