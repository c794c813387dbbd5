//! What can go wrong, whose fault it is, and what to do.

use thiserror::Error;

use crate::FileError;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no space for it, and nothing was written: to be tried again when there is.
    #[error("the file system is full: free space, or give the journal's directory more")]
    Full,
    /// The caller's fault: a record has more data than fits one.
    #[error("a record of {bytes} bytes: at most {max} fit")]
    TooLarge {
        /// So many it has.
        bytes: usize,
        /// So many fit.
        max: usize,
    },
    /// The caller's fault: places have no gaps.
    #[error("place {place} is not the next one, {next}")]
    OutOfOrder {
        /// What was given.
        place: u64,
        /// What comes next.
        next: u64,
    },
    /// The log does not have it: it was cut off, or is still to come.
    #[error("the log has places {first} to {last}, not {place}")]
    NotThere {
        /// What was asked for.
        place: u64,
        /// The log's first.
        first: u64,
        /// The log's last; one less than the first if it is empty.
        last: u64,
    },
    /// The caller's fault: what no snapshot has must stay in the log.
    #[error("no snapshot has what is in the log up to place {upto}")]
    NoSnapshot {
        /// Up to where the log was to be cut.
        upto: u64,
    },
    /// What was durable is not there any more, or another.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The directory is not the one that was meant.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A piece of a snapshot is not what comes next, or not of that snapshot: its sender's fault.
    #[error("a piece of a snapshot is wrong: {what}")]
    BadPiece {
        /// What is wrong.
        what: &'static str,
    },
    /// A write or sync has failed. Final: what is on the disk is not known. The process says so and
    /// ends; after a new start, what is durable is read again.
    #[error(
        "{0}; what was written is uncertain, so the journal is closed: look at the disk, and \
        start again"
    )]
    Failed(FileFailure),
    /// A file could not be read, opened or made, and nothing has changed.
    #[error(transparent)]
    File(FileFailure),
}

/// Which file, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{doing} {file}: {error}")]
pub struct FileFailure {
    /// What was being done.
    pub doing: &'static str,
    /// The file's name, or `.` for the directory.
    pub file: String,
    /// What the system says.
    pub error: FileError,
}

/// Something durable that is not as it was written (QR19). Nothing is cut to get over it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{file} is damaged at byte {offset}: {what}. The disk has lost what was durable: this \
    member cannot start; remove it from the group, and let it join anew with an empty directory"
)]
pub struct Damage {
    /// The file's name.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl Damage {
    pub(crate) fn new(file: &str, offset: u64, what: impl Into<String>) -> Damage {
        Damage { file: file.to_owned(), offset, what: what.into() }
    }
}

/// A directory that is not this member's, or not a journal's (QR17).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is no identity in it: nothing was ever promised by what is there.
    #[error("the directory has no journal: start a new group with it, or join one as a new member")]
    None,
    /// One was to be made where there is one.
    #[error(
        "the directory has the journal of member {member} of group {group:032x} already: \
        start that one, or take another directory"
    )]
    Taken {
        /// Whose it is.
        group: u128,
        /// Whose it is.
        member: u64,
    },
    /// It is of another group.
    #[error("the directory is of group {found:032x}, not {expected:032x}: give this member's own")]
    OtherGroup {
        /// The one that it is of.
        found: u128,
        /// The one that was meant.
        expected: u128,
    },
    /// It is of another member.
    #[error("the directory is of member {found}, not {expected}: give this member's own")]
    OtherMember {
        /// The one that it is of.
        found: u64,
        /// The one that was meant.
        expected: u64,
    },
    /// A later release has written it.
    #[error(
        "the directory has format {found}, and this program knows up to {known}: use a newer \
        one"
    )]
    Newer {
        /// The format that it has.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// It cannot be read, or is no identity.
    #[error("the file `identity` cannot be read: {what}; check its owner and the disk")]
    Unreadable {
        /// Why.
        what: String,
    },
    /// Another process has it open.
    #[error("the directory is in use by another process: end that first")]
    InUse,
}

/// Names what was being done to a file when it failed.
pub(crate) trait Doing<T> {
    /// For what changes nothing, or nothing that matters.
    fn doing(self, doing: &'static str, file: &str) -> Result<T, Error>;
    /// For what leaves the disk uncertain.
    fn or_failed(self, doing: &'static str, file: &str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, FileError> {
    fn doing(self, doing: &'static str, file: &str) -> Result<T, Error> {
        self.map_err(|error| match error {
            FileError::NoSpace => Error::Full,
            error => Error::File(FileFailure { doing, file: file.to_owned(), error }),
        })
    }

    fn or_failed(self, doing: &'static str, file: &str) -> Result<T, Error> {
        self.map_err(|error| Error::Failed(FileFailure { doing, file: file.to_owned(), error }))
    }
}
