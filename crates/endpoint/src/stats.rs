//! Counters of an endpoint.

use petasos_buf::PoolStats;
use petasos_netio::IoStats;
use petasos_proto::given::GivenStats;
use petasos_proto::pairs::PairStats;
use petasos_proto::taken::TakenStats;
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
        /// Received packets of sealed sessions that failed authentication (W27).
        seals_broken,
        /// Received packets of sealed sessions that had been opened before, or were too old to
        /// check (W31).
        seals_replayed,
        /// First packets of sealed groups for which there are no keys: of an epoch that is not
        /// taken, or of a client that the router has not told of (RT27, RT30).
        without_keys,
        /// Packets not sent because their number was not above the previous one's (W29). Never
        /// happens unless the protocol's implementation is wrong.
        transmit_unsealed,
        /// Received packets for a session that does not exist (W4).
        unknown_session,
        /// Received packets for a plaintext session from another origin than its peer's (W32):
        /// another address, or shared memory instead of the network, or the reverse.
        wrong_origin,
        /// Sessions refused because their client named another host's address for packets (C20).
        foreign_addresses,
        /// Sessions refused because their peer had reached its limit
        /// ([`EndpointConfig::sessions_per_peer_max`](crate::EndpointConfig)).
        sessions_over_quota,
        /// Received packets dropped on purpose.
        injected_losses,
        /// Queued packets that were void when their turn came, because the call was over.
        transmit_void,
        /// How often a session was parked until its pace allowed it to send.
        sessions_parked,
        /// Pulls that asked for more packets than a turn sends for their session (W19).
        pulls_cut,
        /// Packets, or trains of them, that were dropped unsent because the queue was too long.
        transmit_overruns,
        /// Turns that received nothing because the transmit queue was too long.
        turns_backed_up,
        /// Handlers and continuations that panicked.
        panics,
        /// Requests for a method without a handler.
        unknown_methods,
        /// Requests refused before they were complete, because their peer's announcements leave no
        /// room for those of others.
        assemblies_refused,
        /// Requests given up because no more of them arrived and others needed the memory.
        assemblies_given_up,
        /// Responses refused before they were complete, because their server's announcements leave
        /// no room for those of others.
        responses_refused,
        /// Messages for which there was no buffer.
        out_of_memory,
        /// Sessions whose granted rings could not be reached, and which were requested again over
        /// the network (C17).
        rings_unreachable,
        /// Client sessions that ended because their rings broke and could not be set up again.
        rings_lost,
        /// Received packets of groups whose blocks are void (RT1, RT2, RT7).
        malformed_block,
        /// First packets that were dropped because there is no room for their clients, or no route
        /// to them.
        clients_refused,
    }
}

/// Every counter of an endpoint, including closed sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// The loop.
    pub event_loop: LoopStats,
    /// All client sessions together.
    pub client: ClientStats,
    /// All server sessions together.
    pub server: ServerStats,
    /// Calls to groups, before they have a worker. Their sessions are in `client`.
    pub pairs: PairStats,
    /// Requests of groups, which this endpoint has as a worker. Their sessions are in `server`.
    pub taken: TakenStats,
    /// The numbers that routers have given this endpoint.
    pub given: GivenStats,
    /// The packet I/O.
    pub io: IoStats,
}

impl EndpointStats {
    /// Every counter as (`group.name`, value).
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
        let event_loop = self.event_loop.iter().map(|(name, value)| ("loop", name, value));
        let client = self.client.iter().map(|(name, value)| ("client", name, value));
        let server = self.server.iter().map(|(name, value)| ("server", name, value));
        let pairs = self.pairs.iter().map(|(name, value)| ("pairs", name, value));
        let taken = self.taken.iter().map(|(name, value)| ("taken", name, value));
        let given = self.given.iter().map(|(name, value)| ("given", name, value));
        let io = self.io.iter().map(|(name, value)| ("io", name, value));
        event_loop.chain(client).chain(server).chain(pairs).chain(taken).chain(given).chain(io)
    }
}

/// How much memory an endpoint uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The buffer pool.
    pub pool: PoolStats,
    /// Bytes of all sessions' own state, including tables, without pooled buffers.
    pub session_bytes: usize,
}
