//! Errors: in decoding, by the peer, of commands, and at the end of a connection.

use crate::carrier::Carrier;
use crate::codes::{ErrorCode, RefuseCode};
use crate::text::{DETAIL_BYTES_MAX, Text};
use crate::version::VersionRange;

/// Why received bytes are not a message. The sender is at fault, or it is no Petasos process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A frame's header announces a body of more bytes than a frame may have (C1).
    #[error("a frame announces {0} bytes")]
    Oversize(u16),
    /// A reserved flag of a frame is set (C2).
    #[error("a reserved flag is set")]
    ReservedFlag,
    /// A kind that is not assigned, in a frame that may not be skipped (C2).
    #[error("message kind {0} is not assigned")]
    UnknownKind(u8),
    /// A hello does not start with the magic (C4).
    #[error("the magic is missing")]
    Magic,
    /// A body ends before its last field.
    #[error("a message ends early")]
    Truncated,
    /// A body goes on after its last field.
    #[error("a message goes on after its end")]
    Trailing,
    /// The named field has a value outside its range.
    #[error("field `{0}` is out of range")]
    Value(&'static str),
}

/// How the peer violated the protocol. Its fault; a new connection meets the same program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// It sent bytes that are not a message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It began with something other than a hello (C4): most likely not a Petasos process.
    #[error("it does not begin with a hello; is it a Petasos control port?")]
    HelloExpected,
    /// It began with a TLS record, but this connection does not use TLS (C16). It may be a gRPC
    /// server as well.
    #[error(
        "it speaks TLS, and this process does not; a gRPC port with TLS is called with grpcs:// \
         before the address"
    )]
    SpeaksTls,
    /// It began with a frame of HTTP/2, so it is most likely a gRPC server (C4).
    #[error("it looks like a gRPC (HTTP/2) port, which is called with grpc:// before the address")]
    SpeaksHttp2,
    /// It sent a second hello (C4).
    #[error("it sent a second hello")]
    HelloRepeated,
    /// It answered a request that was not made (C8).
    #[error("it sent an answer without a request")]
    UnexpectedReply,
    /// It granted more than was asked; the field is named (C9).
    #[error("it granted more `{0}` than was asked")]
    ExceedsProposal(&'static str),
    /// It made more requests than it may have unanswered (C8).
    #[error("it has too many requests outstanding")]
    TooManyOutstanding,
    /// It sent a ticket, a resume, or an answer to one, where that is not allowed (C21).
    #[error("it sent a message of resumption out of place")]
    ResumptionMisplaced,
    /// It announced a successor although it is not the acceptor, or twice (C22).
    #[error("it announced a successor out of place")]
    SuccessorMisplaced,
    /// It sent a message of a group, or a field of one, where that is not allowed; the field or
    /// message is named (RT33 to RT37).
    #[error("it sent `{0}` of a group out of place")]
    GroupMisplaced(&'static str),
    /// It does not read the answers to its messages (C15).
    #[error("it does not read the answers to what it sends")]
    NotReading,
}

impl ProtocolError {
    /// The code that is sent to the peer.
    pub(crate) const fn code(&self) -> ErrorCode {
        match self {
            ProtocolError::Malformed(_) => ErrorCode::Malformed,
            ProtocolError::TooManyOutstanding | ProtocolError::NotReading => {
                ErrorCode::LimitExceeded
            }
            _ => ErrorCode::Unexpected,
        }
    }
}

/// Why the peer counts as failed. All its sessions fail with it. But after [`FailureReason::Eof`]
/// and [`FailureReason::Reset`] the caller may first try another connection, and keep the sessions
/// if the incarnation is the same (C6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureReason {
    /// Silent for longer than the failure timeout. Nobody's fault; a new connection is safe.
    #[error("the peer is silent")]
    Timeout,
    /// The peer closed the stream without a message. It has most likely died.
    #[error("the peer closed the connection without giving a reason")]
    Eof,
    /// The TCP connection broke.
    #[error("the connection broke")]
    Reset,
    /// The peer violated the protocol.
    #[error("the peer broke the control protocol: {0}")]
    Protocol(ProtocolError),
    /// No version is common to both. A retry fails until one side is upgraded.
    #[error("this process speaks control protocol {ours}, the peer {theirs}")]
    Incompatible {
        /// The versions that this process supports.
        ours: VersionRange,
        /// The versions that the peer supports.
        theirs: VersionRange,
    },
    /// The peer reports that this process violated the protocol.
    #[error("the peer gave up on the connection: {detail} ({code:?})")]
    Reported {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people, in the peer's words.
        detail: Text<DETAIL_BYTES_MAX>,
    },
}

/// Why a connect that was accepted as a command brought no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The server refused. The code says whose fault it is, and whether a retry can help.
    #[error("the server refuses the session: {0:?}")]
    Refused(RefuseCode),
    /// The server is alive but has not answered in time. A retry under the same id is safe.
    #[error("the server has not answered in time")]
    TimedOut,
    /// The peer failed first. A retry on another connection is safe, under the same id.
    #[error("the peer failed before it answered")]
    PeerFailed,
    /// One of the two processes closed the connection first.
    #[error("the connection was closed before the answer")]
    Closed,
}

/// Why a connect was not accepted as a command. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Hellos have not been exchanged yet, or the connection has ended.
    #[error("the connection is not open")]
    NotOpen,
    /// The peer is shutting down. Connect to another server.
    #[error("the peer is shutting down")]
    PeerDraining,
    /// The named field is out of its range. The caller's fault.
    #[error("field `{0}` is out of range")]
    InvalidField(&'static str),
    /// The peer does not know data addresses of this kind.
    #[error("the peer does not know packets over {}", .0.name())]
    UnknownCarrier(Carrier),
    /// An unanswered attempt already uses the id. The caller's fault.
    #[error("the connect id is in use")]
    IdInUse,
    /// Too many requests are unanswered; safe to retry after the next answer.
    #[error("too many requests are unanswered")]
    TooManyOutstanding,
    /// Too many bytes are unsent; safe to retry once they have been sent.
    #[error("too many bytes are unsent")]
    Backlogged,
}

/// Why a reply was not sent. If the caller has created a session for it, it must release that: the
/// peer will not learn of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The connection has ended.
    #[error("the connection is not open")]
    NotOpen,
    /// No connect with this id is waiting for a reply. The caller's fault.
    #[error("no connect of this id waits for a reply")]
    UnknownConnect,
    /// The named field is out of its range or grants more than was asked. The caller's fault;
    /// the connect still waits for a reply.
    #[error("field `{0}` is out of range or more than was asked")]
    InvalidField(&'static str),
}

/// Why a disconnect was not accepted as a command. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisconnectError {
    /// The connection is not open. The peer drops its sessions by itself.
    #[error("the connection is not open")]
    NotOpen,
    /// The session's index or tag is out of range. The caller's fault.
    #[error("field `{0}` is out of range")]
    InvalidField(&'static str),
    /// Too many requests are unanswered; safe to retry after the next answer.
    #[error("too many requests are unanswered")]
    TooManyOutstanding,
    /// Too many bytes are unsent; safe to retry once they have been sent.
    #[error("too many bytes are unsent")]
    Backlogged,
}

/// Why a command about a group was not accepted. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Hellos have not been exchanged yet, or the connection has ended.
    #[error("the connection is not open")]
    NotOpen,
    /// One of the processes has no groups, or only an earlier version is common.
    #[error("the two processes have no messages of groups in common")]
    UnknownToPeer,
    /// Only the dialler attaches, joins and is placed; only the acceptor answers and tells. The
    /// caller's fault.
    #[error("that is not said at this end of the connection")]
    WrongRole,
    /// The peer is shutting down. Attach elsewhere.
    #[error("the peer is shutting down")]
    PeerDraining,
    /// The named field is out of its range, or grants more than was asked. The caller's fault.
    #[error("field `{0}` is out of range or more than was asked")]
    InvalidField(&'static str),
    /// The named field or message may not be sent now: its member is not there, or something else
    /// has to come first. The caller's fault, unless the member has just left.
    #[error("`{0}` of a group is out of place")]
    Misplaced(&'static str),
    /// An unanswered attempt already uses the id. The caller's fault.
    #[error("the id is in use")]
    IdInUse,
    /// No attempt of this id waits for an answer. The caller's fault.
    #[error("no attempt of this id waits for an answer")]
    UnknownId,
    /// Too many requests are unanswered; safe to retry after the next answer.
    #[error("too many requests are unanswered")]
    TooManyOutstanding,
    /// Too many bytes are unsent, or too many epochs unconfirmed; safe to retry later.
    #[error("too many bytes are unsent")]
    Backlogged,
}

/// The field that a failed validation names.
pub(crate) const fn field_of(malformed: Malformed) -> &'static str {
    match malformed {
        Malformed::Value(field) => field,
        _ => "parameters",
    }
}
