//! Types that the table of taken requests exchanges with its caller.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::RejectCode;

use crate::given::GivenNumber;

/// What a worker and a router have agreed on, by a number that the worker never uses twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MembershipId(pub u32);

/// A first packet whose number was new: it is judged next (RT16, step 3).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a number that is not settled keeps a slot for ever"]
pub struct Arrived {
    pub(super) membership: MembershipId,
    pub(super) number: GivenNumber,
}

/// A request that was taken. No other of the worker has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TakenId {
    /// The index of its session in packets, with bit 19 set (RT10).
    pub index: u32,
    pub(super) generation: u64,
}

/// Bits of an index.
const INDEX_BITS: u32 = 20;
/// Generations before they wrap: with a request each microsecond in one place, after 200 days. A
/// place is another's only when its request has ended, so no two that run have one name.
pub(super) const GENERATIONS: u64 = 1 << (u64::BITS - INDEX_BITS);

impl TakenId {
    /// The name in one number.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.generation << INDEX_BITS | self.index as u64
    }

    /// The name with this number. Any number is one, though perhaps of no request.
    #[inline]
    pub const fn from_bits(bits: u64) -> TakenId {
        TakenId { index: bits as u32 & ((1 << INDEX_BITS) - 1), generation: bits >> INDEX_BITS }
    }
}

/// What a first packet says of its pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The place of the client among those that the caller knows, below
    /// [`TakenConfig::clients_max`](super::TakenConfig).
    pub client: u32,
    /// The client's index of the pair.
    pub pair: u32,
    /// The client's tag of the pair.
    pub pair_tag: u32,
    /// The request's number.
    pub request: u64,
    /// The transmission of the first packet, which answers echo.
    pub echo: u32,
    /// Length of the whole request.
    pub message_bytes: u32,
    /// When the call's deadline passes at the client; [`Time::NEVER`] without one (RT6).
    pub expires_at: Time,
}

/// A session of a pair at this worker, as its client has to name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// The index, with bit 19 set.
    pub index: u32,
    /// 28 bits.
    pub tag: u32,
}

/// What a session has made of a packet of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It was there already.
    Old,
    /// It is new, and more has to come.
    New,
    /// It is new, and completes the request.
    Last,
}

/// What follows from a packet of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: the request runs, was answered, or waits for more.
    None,
    /// The request is complete: run its handler, and then call
    /// [`TakenRequests::answer`](super::TakenRequests::answer) or
    /// [`reject`](super::TakenRequests::reject), once.
    Run,
    /// The request was rejected with this code, which is to be sent (again). What has arrived of it
    /// may be dropped.
    Rejected(RejectCode),
}

/// What is to be sent with an answer of a handler.
#[derive(Debug, PartialEq, Eq)]
pub enum Answered<C> {
    /// The answer names this session, which keeps it (RT18).
    Kept(SessionName),
    /// The answer is all that there is: it names no session (RT16), and this was the caller's data.
    Left(C),
    /// The client has cancelled: nothing is sent.
    Unwanted,
}

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub enum Due<C> {
    /// Ready is to be sent (RT9).
    Ready {
        /// The request.
        id: TakenId,
        /// What the packet's worker block names.
        session: SessionName,
        /// Whom to send it.
        asker: Asker,
        /// Whether the request runs; otherwise it is to be sent.
        is_running: bool,
    },
    /// A request will not be run: the rejection is to be sent, and what has arrived of the request
    /// may be dropped (RT17).
    Lapsed {
        /// The request.
        id: TakenId,
        /// With what code.
        code: RejectCode,
    },
    /// Nothing is kept of a request any longer (RT18).
    Gone {
        /// The request.
        id: TakenId,
        /// The caller's own data.
        context: C,
    },
}

/// A request was not taken: it is rejected as overloaded, with session 0, and its number is
/// settled (RT16, RT18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// How long a worker waits, and how much it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenConfig {
    /// A request that runs for so long gets a session, and its client a ready (RT16).
    pub notice: Duration,
    /// A request of which nothing new comes for so long is given up (RT17).
    pub gap: Duration,
    /// What is kept after a client's last packet (RT18).
    pub keep: Duration,
    /// Sessions of pairs, those included that have no name yet; at most 2^19 (RT39).
    pub sessions_max: u32,
    /// Clients of all routers (RT39).
    pub clients_max: u32,
}

impl Default for TakenConfig {
    /// As the specification says: 2 ms, 100 ms, 2 s, 16,384 sessions, and twice 4096 clients of
    /// each of 8 routers.
    fn default() -> TakenConfig {
        TakenConfig {
            notice: Duration::from_millis(2),
            gap: Duration::from_millis(100),
            keep: Duration::from_secs(2),
            sessions_max: 16_384,
            clients_max: 8 * 2 * 4096,
        }
    }
}
