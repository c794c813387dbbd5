//! Regions with two rings in them: what one process creates and the other adopts.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::mapped::Memory;
use crate::region::{Region, RegionError};
use crate::ring::{Consumer, Ends, Producer};
use crate::shape::RingShape;

/// Makes a region of two rings. Pass the descriptor to the other process, which calls [`adopt`].
///
/// # Errors
/// See [`RegionError`].
pub fn create(shape: RingShape) -> Result<(Ends, OwnedFd), RegionError> {
    shape.check()?;
    let (region, file) = Region::create(shape.region_bytes())?;
    let region = Arc::new(region);
    let [ours, theirs] = [0, shape.ring_bytes()];
    Ok((Ends::in_region(&region, ours, theirs, shape), file))
}

/// Maps a region that another process created with this `shape`, after checking it.
///
/// # Errors
/// See [`RegionError`].
pub fn adopt(file: BorrowedFd<'_>, shape: RingShape) -> Result<Ends, RegionError> {
    shape.check()?;
    let region = Arc::new(Region::adopt(file, shape.region_bytes())?);
    let [theirs, ours] = [0, shape.ring_bytes()];
    Ok(Ends::in_region(&region, ours, theirs, shape))
}

impl Ends {
    /// The ends of the rings at `ours` (to produce into) and `theirs` (to consume from).
    fn in_region(region: &Arc<Region>, ours: usize, theirs: usize, shape: RingShape) -> Ends {
        let ring = |start| Memory::new(region.clone(), start, shape.ring_bytes());
        Ends {
            producer: Producer::new(ring(ours), shape),
            consumer: Consumer::new(ring(theirs), shape),
        }
    }
}
