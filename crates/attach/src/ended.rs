//! How attachments end, on either side.

use std::io;

use crate::reason::{DetachCode, Text};
use crate::session::Violation;

/// Why an attachment has ended. Drop what belongs to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The other side is gone without a word: it has been killed, or has crashed.
    #[error("the other side is gone")]
    Gone,
    /// The other side has ended it.
    #[error("the other side has detached ({0:?}): {1}")]
    Detached(DetachCode, Text),
    /// The other side has broken the rules. It was told so, if that was possible.
    #[error("the other side has broken the rules: {0}")]
    Violation(#[from] Violation),
    /// This side's system refused what the attachment needs.
    #[error("the system has failed: {0}")]
    System(io::Error),
}
