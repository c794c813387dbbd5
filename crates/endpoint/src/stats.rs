//! What an endpoint counts.

use petasos_buf::PoolStats;
use petasos_netio::IoStats;
use petasos_proto::{ClientStats, ServerStats};

petasos_base::counters! {
    /// Counters of the loop itself.
    pub struct LoopStats {
        /// Turns of the loop.
        turns,
        /// Turns that received something.
        turns_busy,
        /// Times that the loop slept.
        sleeps,
        /// Received packets that are shorter than a header (W1).
        malformed_short,
        /// Received packets of another version of the protocol (W2).
        malformed_version,
        /// Received packets of an unassigned kind (W3).
        malformed_kind,
        /// Received packets with a reserved flag (W11).
        malformed_other,
        /// Received packets whose CRC32C does not match (W12).
        malformed_checksum,
        /// Received packets of sealed sessions that did not open (W27).
        seals_broken,
        /// Received packets of sealed sessions that had been opened before, or were too old to
        /// tell (W31).
        seals_replayed,
        /// Packets not sent since their number was not above the last one's (W29): never, unless
        /// the protocol machine is wrong.
        transmit_unsealed,
        /// Received packets for a session that does not exist (W4).
        unknown_session,
        /// Received packets for a session in the clear that came by another way (shared memory or
        /// the network) or from another address than its peer's (W32).
        wrong_origin,
        /// Sessions refused since their client named another host's address for packets (C20).
        foreign_addresses,
        /// Sessions refused since their peer held as many as one may
        /// ([`EndpointConfig::sessions_per_peer_max`](crate::EndpointConfig)).
        sessions_over_quota,
        /// Received packets dropped on purpose.
        injected_losses,
        /// Queued packets that were void when their turn came: the call was over.
        transmit_void,
        /// Times that a session was parked until its pace allowed it to send.
        sessions_parked,
        /// Pulls that asked for more than a turn has for their session (W19).
        pulls_cut,
        /// Packets, or trains of them, that were dropped unsent since too much waited.
        transmit_overruns,
        /// Turns that received nothing since too much waited to be sent.
        turns_backed_up,
        /// Handlers and continuations that panicked.
        panics,
        /// Requests for a method without a handler.
        unknown_methods,
        /// Requests refused before they were whole: their peer's announcements leave no room for
        /// those of others.
        assemblies_refused,
        /// Requests given up since nothing more came of them and others wanted the memory.
        assemblies_given_up,
        /// Responses refused before they were whole: their server's announcements leave no room for
        /// those of others.
        responses_refused,
        /// Messages for which no buffer could be had.
        out_of_memory,
        /// Sessions whose granted rings could not be reached, so that they were asked for again
        /// over the network (C17).
        rings_unreachable,
        /// Client sessions that ended because their rings broke and could not be made anew.
        rings_lost,
    }
}

/// Every counter of an endpoint. Closed sessions are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// The loop.
    pub event_loop: LoopStats,
    /// All client sessions together.
    pub client: ClientStats,
    /// All server sessions together.
    pub server: ServerStats,
    /// The packet I/O.
    pub io: IoStats,
}

impl EndpointStats {
    /// Every counter as (`group.name`, value).
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
        let event_loop = self.event_loop.iter().map(|(name, value)| ("loop", name, value));
        let client = self.client.iter().map(|(name, value)| ("client", name, value));
        let server = self.server.iter().map(|(name, value)| ("server", name, value));
        let io = self.io.iter().map(|(name, value)| ("io", name, value));
        event_loop.chain(client).chain(server).chain(io)
    }
}

/// Where an endpoint's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The buffer pool.
    pub pool: PoolStats,
    /// Bytes of all sessions' own state, tables included, without pooled buffers.
    pub session_bytes: usize,
}
