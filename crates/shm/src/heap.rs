//! Heaps that an application shares with the managed service (D2, D3).
//!
//! A heap is a range of addresses that both sides reserve, without memory, and fill with the same
//! *extents* at the same distance from its start. So a pointer that is relative to itself means the
//! same at both, even from one extent into another. The service has an [`OwnedHeap`]: it makes all
//! memory. The application has an [`AdoptedHeap`], into which it maps what it is given.
//!
//! | heap | the application | the service |
//! |---|---|---|
//! | [`HeapKind::Send`] | reads and writes, also in a [`Buffer`] | reads, also by a [`HeapSlice`] |
//! | [`HeapKind::Receive`] | reads, also by a [`ReceivedSlice`] | reads and writes |
//!
//! # Guarantees, whatever the application does
//!
//! 1. *The service does not fault.* It reads only what it has mapped itself, of files whose length
//!    is sealed. A hole that the application punches reads as zeros. What was removed reads as
//!    zeros for as long as somebody holds a slice of it, and its place is used again only after
//!    that. (This needs a host that overcommits memory. Otherwise, when all is committed, the first
//!    access to a page of any shared memory ends in a signal.)
//! 2. *A receive heap is the service's alone to write.* Its files are sealed against future writing
//!    after the service has mapped them: the system refuses writable mappings, `write` and holes,
//!    also through `/proc`, and nobody can take the seal away.
//! 3. *The service borrows nothing from a heap.* Contents are copied, by reads that the optimiser
//!    neither repeats nor defers (`copy`). An application, which trusts its service, may borrow
//!    what it was given ([`ReceivedSlice`]).
//!
//! # Who may touch what
//!
//! `range` is the only module that maps. `owned` and `slice` read a send heap; `owned` alone
//! accesses a receive heap, with `&mut self` for writing. On the side of the application,
//! `received` reads what was received, `buffers` writes in extents that are its alone, and whoever
//! takes [`AdoptedHeap::start`] accesses memory under rules of their own.

mod adopted;
mod buffers;
mod holds;
mod loans;
mod owned;
mod range;
mod received;
mod slice;

pub use adopted::{AdoptError, AdoptedHeap};
pub use buffers::{Buffer, Buffers, STRUCTURE_BYTES_MAX, Sent};
pub use loans::{Loan, Loans};
pub use owned::OwnedHeap;
pub use received::ReceivedSlice;
pub use slice::HeapSlice;

use petasos_abi::ExtentError;
use rustix::mm::ProtFlags;

use crate::file::{SystemError, Writers};

/// Who writes a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeapKind {
    /// The application writes, the service only reads.
    Send,
    /// The service writes, the application only reads.
    Receive,
}

/// Why a heap could not be reserved or changed. It is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// No heap has such a range. Whoever chose its size is at fault.
    #[error("a heap cannot have a range of {0} bytes")]
    Range(u64),
    /// No extent has such a size, or there are too many. Whoever asks is at fault. If there are too
    /// many, a retry may succeed after an extent has been removed and all slices of it dropped.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// The range has no free place for so many bytes. The heap is in use, which is nobody's fault;
    /// a retry may succeed after an extent has been removed and all slices of it dropped.
    #[error("a heap has no room for an extent of {0} bytes")]
    NoRoom(u64),
    /// No extent begins at this offset. Whoever asks is at fault.
    #[error("no extent begins at {0}")]
    NoExtent(u64),
    /// The system refused.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Bytes that do not all have memory, or none at all (D3). Whoever named them is at fault; a retry
/// fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {offset} do not lie in the heap")]
pub struct Outside {
    /// From the start of the heap, or of the slice.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl HeapKind {
    /// D2: who may write an extent's file after it was sealed.
    fn writers(self) -> Writers {
        match self {
            HeapKind::Send => Writers::All,
            HeapKind::Receive => Writers::Earlier,
        }
    }

    /// How the service maps extents.
    fn owners_access(self) -> ProtFlags {
        match self {
            HeapKind::Send => ProtFlags::READ,
            HeapKind::Receive => ProtFlags::READ | ProtFlags::WRITE,
        }
    }

    /// How the application maps extents.
    fn adopters_access(self) -> ProtFlags {
        match self {
            HeapKind::Send => ProtFlags::READ | ProtFlags::WRITE,
            HeapKind::Receive => ProtFlags::READ,
        }
    }
}
