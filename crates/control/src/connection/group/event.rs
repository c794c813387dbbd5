//! What has happened in a group.

use crate::error::ConnectFailure;
use crate::{
    AttachGrant, AttachParams, DETAIL_BYTES_MAX, JoinGrant, JoinParams, Leave, PlaceGrant,
    PlaceParams, Text, Told,
};

/// What has happened between a router and its clients and workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// At the router: answer with [`Connection::answer_attach`](crate::Connection::answer_attach).
    AttachRequested {
        /// The peer's id of the attempt.
        id: u64,
        /// What it asks for.
        params: AttachParams,
    },
    /// The outcome of an [`attach`](crate::Connection::attach); exactly one for each.
    AttachAnswered {
        /// The id that was passed to `attach`.
        id: u64,
        /// The attachment, or why there is none.
        result: Result<AttachGrant, ConnectFailure>,
    },
    /// At the router: answer with [`Connection::answer_join`](crate::Connection::answer_join).
    JoinRequested {
        /// The peer's id of the attempt.
        id: u64,
        /// What it offers.
        params: JoinParams,
    },
    /// The outcome of a [`join`](crate::Connection::join); exactly one for each.
    JoinAnswered {
        /// The id that was passed to `join`.
        id: u64,
        /// The membership, or why there is none.
        result: Result<JoinGrant, JoinFailure>,
    },
    /// At the router: answer with [`Connection::answer_place`](crate::Connection::answer_place).
    PlaceRequested {
        /// The peer's id of the attempt.
        id: u64,
        /// What it asks for. The client may have left meanwhile.
        params: PlaceParams,
    },
    /// The outcome of a [`place`](crate::Connection::place); exactly one for each.
    PlaceAnswered {
        /// The id that was passed to `place`.
        id: u64,
        /// The worker, or why there is none.
        result: Result<PlaceGrant, ConnectFailure>,
    },
    /// The router tells something. Ignore what is for a member that has left.
    Told(Told),
    /// At the router: the workers of the peer take requests of this epoch.
    EpochHeard {
        /// Its number. It was told, and is not older than the one confirmed before.
        epoch: u16,
    },
    /// The peer has ended an attachment or a membership. Ignore this if it is unknown: both may
    /// have ended it at the same time.
    Left {
        /// Which one.
        leave: Leave,
    },
    /// The peer has confirmed a [`leave`](crate::Connection::leave).
    LeaveAnswered {
        /// The same as was passed to `leave`.
        leave: Leave,
    },
}

/// Why a join brought no membership.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct JoinFailure {
    /// The reason, for programs.
    pub reason: ConnectFailure,
    /// The reason of a refusal, for people, in the router's words; may be empty.
    pub detail: Text<DETAIL_BYTES_MAX>,
}
