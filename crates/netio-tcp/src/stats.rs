//! Counters of connections, in addition to those that every backend has.

petasos_base::counters! {
    /// What happened to connections.
    pub struct TcpStats {
        /// Connections that this side began to dial.
        dialled,
        /// Connections that peers have dialled.
        accepted,
        /// Attempts to dial that failed.
        dials_failed,
        /// Connections that ended or broke.
        lost,
        /// Connections closed because the peer broke the protocol.
        malformed,
        /// Connections closed because the peer kept this side waiting.
        given_up,
        /// Connections of strangers closed to make room for others.
        strangers_closed,
        /// Connections from other hosts refused.
        foreign,
        /// Packets dropped because there is no connection.
        drops_unlinked,
    }
}
