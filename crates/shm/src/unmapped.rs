//! Stands in for the regions under the model checker, which has no memory to map, so that what is
//! built on this crate can be compiled for it.

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

/// Refuses.
///
/// # Errors
/// Always.
pub fn create(_: RingShape) -> Result<(Ends, OwnedFd), RegionError> {
    Err(RegionError)
}

/// Refuses.
///
/// # Errors
/// Always.
pub fn adopt(_: BorrowedFd<'_>, _: RingShape) -> Result<Ends, RegionError> {
    Err(RegionError)
}
