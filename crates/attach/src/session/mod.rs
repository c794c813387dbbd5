//! Which messages each side may send, and when (D1), without sockets: bytes go in, checked messages
//! come out.
//!
//! A session is over after a violation or a detach. It then takes no more bytes.

mod application;
mod handover;
mod service;

pub use application::ApplicationSession;
pub use handover::Handover;
pub use service::ServiceSession;

use crate::frame::Malformed;
use crate::hello::Versions;
use crate::reason::RefuseCode;

/// How the other side broke the rules. It is at fault; it would do the same again. Nothing of what
/// it said with this was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes that are no message of it.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The application did not begin with a hello.
    #[error("a frame of kind {0} came before the hello")]
    HelloExpected(u8),
    /// The application said hello again.
    #[error("a second hello")]
    HelloTwice,
    /// The other side speaks none of this side's versions.
    #[error("its versions of the ABI are {0}, and this side's {ours}", ours = Versions::SUPPORTED)]
    Versions(Versions),
    /// The other side said what it does not say at that time.
    #[error("a frame of kind {0} at a time when none may come")]
    Unexpected(u8),
    /// The number of a request is not the next one.
    #[error("request {found} where {expected} is next")]
    Request {
        /// The next.
        expected: u32,
        /// What was said.
        found: u32,
    },
    /// No extent begins where one was given up.
    #[error("no extent begins at {0}")]
    NoSuchExtent(u64),
    /// An extent does not fit its heap, or its file is not what was announced.
    #[error("an extent that is not as it should be")]
    Extent,
    /// Descriptors of files came where none are announced, or fewer or more than announced. (Also
    /// if this process has no room for those that came.)
    #[error("descriptors of files that no frame announces")]
    Descriptors,
    /// A frame was begun and not ended in time, or what was sent to it was not read in time.
    #[error("it takes too long to send or to take a frame")]
    Slow,
}

impl Violation {
    /// What the service refuses an application with that is not attached yet.
    pub fn refuse_code(&self) -> RefuseCode {
        match self {
            Violation::Versions(_) => RefuseCode::Versions,
            _ => RefuseCode::Violation,
        }
    }
}

#[cfg(test)]
mod tests;
