//! Replaces regions under the model checker, which cannot map memory, so that crates built on this
//! one compile for it.

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::{Ends, RingShape};

/// There are no regions under the model checker.
#[derive(Debug)]
pub struct RegionError;

impl core::fmt::Display for RegionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "there are no regions under the model checker")
    }
}

impl std::error::Error for RegionError {}

/// Always fails.
///
/// # Errors
/// Always.
pub fn create(_: RingShape) -> Result<(Ends, OwnedFd), RegionError> {
    Err(RegionError)
}

/// Always fails.
///
/// # Errors
/// Always.
pub fn adopt(_: BorrowedFd<'_>, _: RingShape) -> Result<Ends, RegionError> {
    Err(RegionError)
}
