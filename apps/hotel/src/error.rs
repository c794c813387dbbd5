//! What can go wrong in a service, and how it is told to callers of each kind.

use std::time::Duration;

/// Whose fault an error is, and whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// Something that is needed cannot be reached. A retry may succeed.
    Away,
    /// It took too long.
    Late,
    /// Anything else.
    Internal,
}

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    pub kind: Kind,
    pub what: String,
}

impl Error {
    pub fn invalid(what: impl Into<String>) -> Error {
        Error { kind: Kind::Invalid, what: what.into() }
    }

    pub fn away(what: impl Into<String>) -> Error {
        Error { kind: Kind::Away, what: what.into() }
    }

    pub fn internal(what: impl Into<String>) -> Error {
        Error { kind: Kind::Internal, what: what.into() }
    }

    /// `whose` has not answered within `limit`.
    pub fn late(whose: &str, limit: Duration) -> Error {
        Error { kind: Kind::Late, what: format!("{whose} did not answer within {limit:?}") }
    }

    /// The same error, told by another service.
    pub fn of(self, whose: &str) -> Error {
        Error { what: format!("{whose}: {}", self.what), ..self }
    }
}
