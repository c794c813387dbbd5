//! Counters of both halves, and the reasons for dropping a packet.

/// Why a well-formed packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drop {
    /// Its tag is not the session's: stray or spoofed (W4).
    WrongTag,
    /// It belongs to a request that is over (W5).
    Stale,
    /// It has been received before.
    Duplicate,
    /// Its fields contradict each other, or what the session knows about the message (W8).
    Inconsistent,
    /// It came out of order under go-back-N (W20).
    Reordered,
    /// Its kind is reserved (W24), or cannot come from this side (W3).
    Unexpected,
}

petasos_base::counters! {
    /// What a client half did.
    pub struct ClientStats {
        /// Calls made.
        calls,
        /// Of these, calls that had to wait for a slot.
        calls_queued,
        /// Calls answered.
        calls_completed,
        /// Request packets sent, retransmissions included.
        request_packets,
        /// Pulls sent.
        pulls,
        /// Request packets sent again and response packets pulled again.
        retransmissions,
        /// Retransmissions that proved needless, because the earlier transmission was answered.
        retransmissions_spurious,
        /// Retransmission timeouts.
        timeouts,
        /// Packets dropped as duplicates or out of order.
        duplicates,
        /// Packets of requests that were over.
        stale,
        /// Packets with contradictory fields or of an unexpected kind.
        inconsistent,
        /// Packets from the server that report a congestion mark on the packet that they answer.
        ecn_echoes,
        /// Packets from the server that had a congestion mark themselves.
        ecn_marks,
        /// How often packets were ready and only the pace held them back.
        paced_waits,
    }
}

petasos_base::counters! {
    /// What a server half did.
    pub struct ServerStats {
        /// Requests handed to handlers.
        requests,
        /// Responses given by handlers.
        responses,
        /// Responses of handlers whose call had already ended.
        responses_stale,
        /// Acknowledgements sent.
        acks,
        /// Response packets sent again on a repeated request (W15).
        responses_repeated,
        /// Packets received twice.
        duplicates,
        /// Packets of requests that were over.
        stale,
        /// Packets with contradictory fields or of an unexpected kind.
        inconsistent,
        /// Packets out of order under go-back-N.
        reordered,
        /// Requests rejected.
        rejects,
        /// Calls that the client cancelled (W21).
        cancels,
    }
}

impl ClientStats {
    pub(crate) fn count(&mut self, reason: Drop) {
        match reason {
            Drop::Duplicate | Drop::Reordered => self.duplicates += 1,
            Drop::Stale => self.stale += 1,
            Drop::WrongTag | Drop::Inconsistent | Drop::Unexpected => self.inconsistent += 1,
        }
    }
}

impl ServerStats {
    pub(crate) fn count(&mut self, reason: Drop) {
        match reason {
            Drop::Duplicate => self.duplicates += 1,
            Drop::Reordered => self.reordered += 1,
            Drop::Stale => self.stale += 1,
            Drop::WrongTag | Drop::Inconsistent | Drop::Unexpected => self.inconsistent += 1,
        }
    }
}
