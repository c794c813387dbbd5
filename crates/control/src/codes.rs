//! Codes that one process sends to another: why a connect is refused, why a connection ends.

use core::fmt;

/// Who can do something about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The process that asked.
    Client,
    /// The process that was asked.
    Server,
    /// Nobody: the situation is temporary, or intended.
    Nobody,
}

/// Why a server refuses a connect (C9).
///
/// A refused connect has created nothing, so repeating it under a new id is always safe.
/// [`RefuseCode::retry_may_succeed`] says whether that can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefuseCode {
    /// The process has no endpoint with that index. The client's fault; a retry fails again.
    NoSuchEndpoint,
    /// The endpoint has reached its limit of sessions. Nobody's fault; a retry may succeed later,
    /// or at once with another endpoint.
    SessionsFull,
    /// The process is shutting down. Nobody's fault. A retry here fails again; use another server.
    Draining,
    /// No parameters satisfy both sides. The client's fault (or its configuration's); a retry
    /// fails again.
    IncompatibleParameters,
    /// The client may not use the endpoint. The client's fault; a retry fails again.
    NotAuthorised,
    /// The server failed while it set the session up. The server's fault; a retry may succeed.
    Internal,
    /// The client has reached the limit of sessions for one peer. The client's fault; a retry may
    /// succeed once it has closed some.
    QuotaUsedUp,
    /// A code that a later version defines. Assume that a retry does not help.
    Unknown(u8),
}

impl RefuseCode {
    /// Whether the same connect, under a new id, can succeed at this process later.
    pub const fn retry_may_succeed(self) -> bool {
        matches!(self, RefuseCode::SessionsFull | RefuseCode::Internal | RefuseCode::QuotaUsedUp)
    }

    /// Who can do something about it.
    pub const fn fault(self) -> Fault {
        match self {
            RefuseCode::NoSuchEndpoint
            | RefuseCode::IncompatibleParameters
            | RefuseCode::NotAuthorised
            | RefuseCode::QuotaUsedUp => Fault::Client,
            RefuseCode::SessionsFull | RefuseCode::Draining => Fault::Nobody,
            RefuseCode::Internal | RefuseCode::Unknown(_) => Fault::Server,
        }
    }

    /// The code on the wire; 0 is taken by "accepted".
    pub(crate) const fn to_bits(self) -> u8 {
        match self {
            RefuseCode::NoSuchEndpoint => 1,
            RefuseCode::SessionsFull => 2,
            RefuseCode::Draining => 3,
            RefuseCode::IncompatibleParameters => 4,
            RefuseCode::NotAuthorised => 5,
            RefuseCode::Internal => 6,
            RefuseCode::QuotaUsedUp => 7,
            RefuseCode::Unknown(bits) => bits,
        }
    }

    /// The code that `bits` names; `bits` is not 0.
    pub(crate) const fn from_bits(bits: u8) -> RefuseCode {
        match bits {
            1 => RefuseCode::NoSuchEndpoint,
            2 => RefuseCode::SessionsFull,
            3 => RefuseCode::Draining,
            4 => RefuseCode::IncompatibleParameters,
            5 => RefuseCode::NotAuthorised,
            6 => RefuseCode::Internal,
            7 => RefuseCode::QuotaUsedUp,
            other => RefuseCode::Unknown(other),
        }
    }
}

impl fmt::Display for RefuseCode {
    /// Says it of the process that refuses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefuseCode::NoSuchEndpoint => "it has no such endpoint",
            RefuseCode::SessionsFull => "it has no place for another",
            RefuseCode::Draining => "it is shutting down",
            RefuseCode::IncompatibleParameters => "the two sides' settings do not fit each other",
            RefuseCode::NotAuthorised => "this client may not use it",
            RefuseCode::Internal => "it failed meanwhile",
            RefuseCode::QuotaUsedUp => "this client has as many as it may",
            RefuseCode::Unknown(code) => {
                return write!(f, "it gave code {code}, which this version does not know");
            }
        })
    }
}

/// Why a process ends a healthy connection (C13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ByeReason {
    /// The process shuts down.
    Shutdown,
    /// No session is left between the two processes.
    Idle,
    /// Another connection between the same two processes replaces this one; sessions continue.
    Superseded,
    /// A reason that a later version defines. Sessions end.
    Unknown(u8),
}

impl ByeReason {
    /// The reason on the wire.
    pub(crate) const fn to_bits(self) -> u8 {
        match self {
            ByeReason::Shutdown => 1,
            ByeReason::Idle => 2,
            ByeReason::Superseded => 3,
            ByeReason::Unknown(bits) => bits,
        }
    }

    /// The reason that `bits` names; every value names one.
    pub(crate) const fn from_bits(bits: u8) -> ByeReason {
        match bits {
            1 => ByeReason::Shutdown,
            2 => ByeReason::Idle,
            3 => ByeReason::Superseded,
            other => ByeReason::Unknown(other),
        }
    }
}

/// What a process reports before it gives up on a connection (C14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// No version is common to both. A retry fails until one side is upgraded.
    VersionMismatch,
    /// A frame or message could not be decoded.
    Malformed,
    /// A message that the receiver's state does not allow.
    Unexpected,
    /// There are more requests, or more unread answers, than the limits allow.
    LimitExceeded,
    /// A code that a later version defines.
    Unknown(u16),
}

impl ErrorCode {
    /// The code on the wire.
    pub(crate) const fn to_bits(self) -> u16 {
        match self {
            ErrorCode::VersionMismatch => 1,
            ErrorCode::Malformed => 2,
            ErrorCode::Unexpected => 3,
            ErrorCode::LimitExceeded => 4,
            ErrorCode::Unknown(bits) => bits,
        }
    }

    /// The code that `bits` names; every value names one.
    pub(crate) const fn from_bits(bits: u16) -> ErrorCode {
        match bits {
            1 => ErrorCode::VersionMismatch,
            2 => ErrorCode::Malformed,
            3 => ErrorCode::Unexpected,
            4 => ErrorCode::LimitExceeded,
            other => ErrorCode::Unknown(other),
        }
    }
}
