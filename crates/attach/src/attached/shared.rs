//! What the service makes for an application: its lanes, and its heaps within their quotas.

use std::os::fd::OwnedFd;

use petasos_abi::{EXTENT_BYTES_MIN, Extent, HEAP_BYTES_MAX};
use petasos_shm::{HeapError, HeapKind, OwnedHeap, RegionError};

use crate::hello::{HeapLimits, LANES_MAX, Limits};
use crate::lane::{self, Lane};
use crate::reason::NoExtent;

/// On what terms an application is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What it may have.
    pub limits: Limits,
    /// The most lanes: 1 to [`LANES_MAX`]. It is given as many as it wants, up to this.
    pub lanes_max: u16,
    /// Slots of each ring of a lane: a power of two, at least 2, at most 2^16.
    pub slots: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { limits: Limits::default(), lanes_max: 16, slots: 1024 }
    }
}

impl Terms {
    /// Whether all numbers can be.
    pub fn is_possible(&self) -> bool {
        let Limits { calls_max, grant_bytes, send, receive } = self.limits;
        calls_max >= 1
            && grant_bytes >= 1
            && send.is_possible()
            && receive.is_possible()
            && (1..=LANES_MAX).contains(&self.lanes_max)
            && lane::shape(self.slots).check().is_ok()
    }
}

/// The system refused to give an application what it needs. A retry is safe, and may succeed when
/// memory, addresses or descriptors are free.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// A heap's range.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// A lane's region or sockets.
    #[error(transparent)]
    Lane(#[from] RegionError),
}

/// All that an application shares with the service.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) limits: Limits,
    pub(super) slots: u32,
    pub(super) send: Charged,
    pub(super) receive: Charged,
    pub(super) lanes: Vec<Lane>,
    /// For the application, in the order of the lanes.
    pub(super) lane_files: Vec<[OwnedFd; 2]>,
}

impl Shared {
    pub(crate) fn make(terms: &Terms, lanes: u16) -> Result<Shared, AcceptError> {
        assert!(terms.is_possible(), "terms are possible");
        let Terms { limits, lanes_max, slots } = *terms;
        let send = Charged::reserve(HeapKind::Send, limits.send)?;
        let receive = Charged::reserve(HeapKind::Receive, limits.receive)?;
        let made = (0..lanes.min(lanes_max)).map(|_| Lane::create(slots));
        let made: Vec<_> = made.collect::<Result<_, _>>()?;
        let (lanes, lane_files) = made.into_iter().unzip();
        Ok(Shared { limits, slots, send, receive, lanes, lane_files })
    }

    pub(super) fn heap(&self, kind: HeapKind) -> &Charged {
        match kind {
            HeapKind::Send => &self.send,
            HeapKind::Receive => &self.receive,
        }
    }

    pub(super) fn heap_mut(&mut self, kind: HeapKind) -> &mut Charged {
        match kind {
            HeapKind::Send => &mut self.send,
            HeapKind::Receive => &mut self.receive,
        }
    }
}

/// A heap whose extents are charged to a quota. What was removed stays charged: the application may
/// have it mapped for as long as it lives.
#[derive(Debug)]
pub(super) struct Charged {
    pub(super) heap: OwnedHeap,
    quota_bytes: u64,
    /// At most `quota_bytes`.
    charged_bytes: u64,
}

impl Charged {
    fn reserve(kind: HeapKind, limits: HeapLimits) -> Result<Charged, HeapError> {
        let heap = OwnedHeap::reserve(kind, limits.range_bytes)?;
        Ok(Charged { heap, quota_bytes: limits.quota_bytes, charged_bytes: 0 })
    }

    pub(super) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// Makes an extent of so many bytes, rounded up to what an extent can have.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(Extent, OwnedFd), NoExtent> {
        if bytes > HEAP_BYTES_MAX {
            return Err(NoExtent::Quota);
        }
        let bytes = bytes.max(1).next_multiple_of(EXTENT_BYTES_MIN);
        if bytes > self.quota_bytes - self.charged_bytes {
            return Err(NoExtent::Quota);
        }
        let made = self.heap.grow(bytes).map_err(|error| match error {
            HeapError::NoRoom(_) | HeapError::Extent(_) => NoExtent::Room,
            _ => NoExtent::Memory,
        })?;
        self.charged_bytes += bytes;
        Ok(made)
    }
}
