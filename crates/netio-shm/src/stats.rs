//! Counters of links, in addition to those that every backend has.

petasos_base::counters! {
    /// What happened to links, and wake-ups.
    pub struct ShmStats {
        /// Links opened by this side.
        links_opened,
        /// Links opened by peers.
        links_accepted,
        /// Connections refused: another user, a bad greeting, a bad region, or too many.
        links_refused,
        /// Links whose peer went away.
        links_lost,
        /// Links closed because the peer violated a ring's rules.
        links_broken,
        /// Links closed here to make room for others.
        links_evicted,
        /// Sleeping peers woken.
        peers_woken,
        /// Packets dropped because the peer is gone.
        drops_unlinked,
        /// Packets dropped because the peer has stopped reading.
        drops_stalled,
    }
}
