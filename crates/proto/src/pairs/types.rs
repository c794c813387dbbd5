//! Types that the table of pairs exchanges with its caller.

use petasos_base::Time;
use petasos_wire::{Packet, RejectCode, WorkerBlock};

/// What an endpoint and a router have agreed on, by a number that the endpoint never uses twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttachmentId(pub u32);

/// A pair, by its index and its request's number, which no other pair of the endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairId {
    /// The index in packets, with bit 19 set (RT10).
    pub index: u32,
    /// The number in `request` of packets: 40 bits, counting up.
    pub request: u64,
}

/// A request that asks for a worker.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// 28 bits that nobody can predict (W4, RT10).
    pub tag: u32,
    /// Whether the first packet only claims a worker (RT4).
    pub is_claim: bool,
    /// When the call ends if it is still unanswered; [`Time::NEVER`] for no limit.
    pub timeout_at: Time,
}

/// Why there is no pair. Nothing was sent, and a retry is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The attachment has ended: ask by another.
    Ended,
    /// As many pairs ask as the router lets (RT33), or as an endpoint can have (RT39): the caller
    /// has to wait.
    Full,
    /// The attachment's numbers are used up: attach anew (RT3).
    Worn,
}

/// A first packet to be sent now (RT1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// The pair.
    pub pair: PairId,
    /// The pair's tag.
    pub tag: u32,
    /// By whose router.
    pub attachment: AttachmentId,
    /// The attachment's epoch (RT30).
    pub epoch: u16,
    /// The packet's number there: 40 bits, of which the lowest 24 are its transmission (RT3).
    pub number: u64,
    /// Whether it only claims a worker.
    pub is_claim: bool,
    /// The pair's sendings so far, this one included.
    pub sendings: u32,
}

/// Whose address a packet came from: that of a member, which the caller knows from the roster
/// (RT10, RT36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// By whose roster.
    pub attachment: AttachmentId,
    /// The worker's number there; [`WorkerBlock::ROUTER`] is the router.
    pub worker: u16,
}

/// What a packet to a pair answers (RT28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// By which attachment the pair has asked, or was bound.
    pub attachment: AttachmentId,
    /// The epoch of the sending that the packet echoes; `None` if it belongs to the session that
    /// the pair is bound to.
    pub epoch: Option<u16>,
}

/// A packet to a pair.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Where it came from.
    pub from: Member,
    /// Without its worker block.
    pub packet: Packet<'a>,
    /// The worker block, if its kind has one (RT7).
    pub block: Option<WorkerBlock>,
}

/// A worker's session for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSession {
    /// The worker.
    pub member: Member,
    /// The worker's index of the session.
    pub session: u32,
    /// The worker's tag of the session.
    pub tag: u32,
}

/// What a packet to a pair means for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<C> {
    /// Nothing to do: the packet was dropped, or only changed internal state.
    None,
    /// The payload is the whole response, and the pair has ended. If the worker keeps a session,
    /// *done* is to be sent there.
    Complete {
        /// The caller's own data.
        context: C,
        /// The session to be told.
        done: Option<WorkerSession>,
    },
    /// The pair is bound to this session, by a ready: a claim's request is to be sent now, from
    /// packet 0, and a whole one runs (RT12).
    Ready {
        /// With whom the pair goes on.
        session: WorkerSession,
        /// Packets that may be in flight to the worker (W26).
        credits: u32,
    },
    /// The pair is bound to this session, and the packet is the first of its response.
    Response {
        /// With whom the pair goes on.
        session: WorkerSession,
    },
    /// The packet is for the session to which the pair is bound.
    Session,
    /// Nobody wants this session: *cancel* is to be sent there, for this request.
    Cancel {
        /// The session to be told.
        session: WorkerSession,
        /// The request's number.
        request: u64,
    },
    /// The request was rejected, and the pair has ended.
    Rejected {
        /// The caller's own data.
        context: C,
        /// Why; `None` is an unassigned code.
        code: Option<RejectCode>,
        /// Whether the request has certainly not run (RT14).
        has_not_run: bool,
    },
}

/// A pair that has ended without an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Over<C> {
    /// The pair.
    pub pair: PairId,
    /// The attachment by which it has asked last.
    pub attachment: AttachmentId,
    /// The caller's own data.
    pub context: C,
    /// Why.
    pub why: Why,
    /// Whether the request has certainly not run (RT13, RT14).
    pub has_not_run: bool,
}

/// Why a pair has ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The call's timeout has passed.
    Timeout,
    /// Nobody has answered for long (RT13).
    Silence,
    /// The attachment has ended, and the pair was not moved to another.
    Detached,
}
