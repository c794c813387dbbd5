//! Counters of packets.

petasos_base::counters! {
    /// Counters of a whole simulation. Packets are counted once per packet, faults once per link on
    /// which they occurred.
    pub struct Stats {
        /// Packets that hosts sent.
        sent,
        /// Copies that links made.
        duplicated,
        /// Packets put into the receiving host's inbox.
        delivered,
        /// Of those: with damage that the checksum missed.
        delivered_damaged,
        /// Payload bytes put into inboxes.
        delivered_bytes,
        /// Packets that links held back so that others overtook them.
        reordered,
        /// Times that a link flipped bits.
        corrupted,
        /// Packets that switches marked because of congestion.
        marked,
        /// Dropped: lost on a link.
        dropped_loss,
        /// Dropped: refused by the receiver's checksum.
        dropped_checksum,
        /// Dropped: no room in a switch or network card.
        dropped_buffer,
        /// Dropped: put on a cut link.
        dropped_cut,
        /// Dropped: sender and receiver were on different sides of a partition.
        dropped_partition,
        /// Dropped: the receiver's inbox was full.
        dropped_inbox,
        /// Dropped: the receiving host, or the life of it that was addressed, is dead.
        dropped_dead,
        /// Dropped: the address names no host, or the network has no path to it.
        dropped_unroutable,
        /// Dropped: more packets in flight than the simulation allows.
        dropped_in_flight_max,
        /// Events processed, host runs not included.
        events,
        /// Times that a host ran.
        host_runs,
    }
}

impl Stats {
    /// Packets dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.iter().filter(|(name, _)| name.starts_with("dropped_")).map(|(_, count)| count).sum()
    }

    /// Packets that were sent or copied and neither arrived nor were dropped. This must equal
    /// the packets in flight.
    pub fn unaccounted(&self) -> u64 {
        (self.sent + self.duplicated)
            .checked_sub(self.delivered + self.dropped())
            .expect("no more packets end than begin")
    }
}

/// Counters of the output port at the start of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets sent onto the link.
    pub packets: u64,
    /// Bytes of their frames (no preamble or gap).
    pub frame_bytes: u64,
    /// Packets dropped because there was no room.
    pub drops: u64,
    /// Packets marked with [`petasos_netio::Ecn::CongestionExperienced`].
    pub marks: u64,
    /// Most frame bytes that were ever queued, the frame being sent included.
    pub queue_bytes_max: u64,
}
