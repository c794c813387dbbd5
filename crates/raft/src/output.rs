//! What a replica asks of its caller, and what it refuses.

use thiserror::Error;

use crate::{MemberId, Position};

/// What a replica does in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It follows a leader, or waits for one.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads, until it hears otherwise.
    Leader,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Something is to be made durable, after what was asked for before.
    Write(Write),
    /// The bytes that [`Replica::poll`](crate::Replica::poll) has written are a message for a
    /// member. It may be lost, and may overtake others.
    Send {
        /// To whom.
        to: MemberId,
    },
    /// A follower needs entries from here on, which are in the journal only. The caller answers
    /// with [`Replica::fetched`](crate::Replica::fetched).
    Fetch {
        /// The follower.
        to: MemberId,
        /// The first entry.
        index: u64,
    },
    /// A follower lacks entries that the log no longer has: it needs a snapshot, and has it when it
    /// acknowledges what comes after.
    SendSnapshot {
        /// The follower.
        to: MemberId,
    },
    /// Another leader is known, or none, or a later term.
    Leader {
        /// The term.
        term: u64,
        /// Who leads, if it is known.
        leader: Option<MemberId>,
    },
    /// Reads that wait for `round` ([`Replica::read`](crate::Replica::read)) may be answered from
    /// the state at `index`, or a later one.
    Read {
        /// The round.
        round: u64,
        /// The entry that has to be applied before.
        index: u64,
    },
}

/// What is to be made durable. Writes are done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Term and vote. [`Replica::done`](crate::Replica::done) follows.
    HardState {
        /// Which write this is.
        token: u64,
        /// The term.
        term: u64,
        /// The member that got the vote.
        vote: Option<MemberId>,
    },
    /// Entries from `index` on go. [`Replica::done`](crate::Replica::done) follows.
    Truncate {
        /// Which write this is.
        token: u64,
        /// The first one.
        index: u64,
    },
    /// The log becomes empty, and begins with `index`: a snapshot has what was before.
    /// [`Replica::done`](crate::Replica::done) follows.
    Reset {
        /// Which write this is.
        token: u64,
        /// The first entry that will come.
        index: u64,
    },
    /// Entries `first..=last` are appended ([`Replica::entry`](crate::Replica::entry)).
    /// [`Replica::appended`](crate::Replica::appended) follows.
    Append {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
}

/// Why a command was not proposed. It is *not done* (QR4), for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotProposed {
    /// Another replica leads, or none: ask that one.
    #[error("this replica does not lead")]
    NotLeader {
        /// Who does, if it is known.
        leader: Option<MemberId>,
    },
    /// The leader hands over (QR7): try again soon.
    #[error("the leader hands over to another replica")]
    HandingOver,
    /// Too much waits to be committed: try again later.
    #[error("too much waits to be committed")]
    Busy,
    /// The command is longer than an entry may be.
    #[error("the command is longer than an entry may be")]
    TooLong,
}

/// Why a change of members was refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotChanged {
    /// Another replica leads, or none.
    #[error("this replica does not lead")]
    NotLeader {
        /// Who does, if it is known.
        leader: Option<MemberId>,
    },
    /// An earlier change is not committed, or the leader is new: try again soon.
    #[error("an earlier change is under way")]
    InProgress,
    /// The leader hands over: try again soon.
    #[error("the leader hands over to another replica")]
    HandingOver,
    /// There is no such member.
    #[error("there is no such member")]
    Unknown,
    /// It is a voter already.
    #[error("the member is a voter already")]
    IsVoter,
    /// The learner lacks more than a beat's worth of entries: try again later.
    #[error("the learner has not caught up yet")]
    Behind,
    /// Too few of the members after the change are heard for them to go on. It can be forced.
    #[error("too few of the members that would remain are heard")]
    NoMajority,
    /// The group has as many members, or voters, as it may, or its last voter would go.
    #[error("the group would have too many members, or no voter")]
    Limit,
}

/// A change of members (QR8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new learner. Its number is [`Membership::next_id`](crate::Membership::next_id), once the
    /// change is committed.
    Add {
        /// What members shall know of it.
        context: Vec<u8>,
    },
    /// A learner that has caught up becomes a voter.
    Promote(MemberId),
    /// A member goes.
    Remove(MemberId),
}

/// Why a leader does not hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotHandedOver {
    /// Another replica leads, or none.
    #[error("this replica does not lead")]
    NotLeader {
        /// Who does, if it is known.
        leader: Option<MemberId>,
    },
    /// It is no voter, or the leader itself.
    #[error("the member cannot lead")]
    NotAVoter,
    /// It hands over already.
    #[error("the leader hands over already")]
    InProgress,
}

/// What a replica has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of other groups, or for other members.
    pub misaddressed: u64,
    /// Messages that were none.
    pub malformed: u64,
    /// Times it has asked whether it would be elected.
    pub pre_votes: u64,
    /// Times it has stood for election.
    pub elections: u64,
    /// Times it was elected.
    pub elected: u64,
    /// Times it has ceased to lead since it had not heard a majority.
    pub majorities_lost: u64,
    /// Votes that were not given while a leader was heard, or because of a lease.
    pub votes_withheld: u64,
    /// Times that entries had to be sent again.
    pub resent: u64,
}

/// A replica for those who operate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its role.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// The leader, if it is known.
    pub leader: Option<MemberId>,
    /// The last entry of its log.
    pub last: Position,
    /// The last committed entry.
    pub committed: u64,
    /// The last entry that is durable here.
    pub durable: u64,
    /// Of a leader: its followers, and how far each has acknowledged.
    pub followers: Vec<(MemberId, u64)>,
    /// What it has counted.
    pub counters: Counters,
}
