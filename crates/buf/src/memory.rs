//! One account of all long buffers in use in the process.
//!
//! It counts buffers of [`LONG_BYTES_MIN`] or more while somebody holds them: pools, requests whose
//! handlers wait, streams, and messages that programs build. Long allocations that are not
//! [`MsgBuf`](crate::MsgBuf)s are counted with [`Counted`]. Spare buffers are not counted, since
//! anyone who needs one can take it. Short buffers are not counted either: the numbers of calls and
//! sessions bound them.
//!
//! This module refuses nothing. Code that is about to take more memory for a peer asks [`admits`]
//! first, and tells the peer if there is no room. Several such requests may be admitted before any
//! of them allocates, so the account may exceed its limit by what was admitted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::layout::SPARE_BYTES_MIN;

/// Buffers with at least this capacity are counted.
pub const LONG_BYTES_MIN: usize = SPARE_BYTES_MIN;

// All accesses are relaxed: these counts guard no other memory.
static USED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// The state of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Bytes in long buffers.
    pub used_bytes: usize,
    /// At this many, no more is taken for peers. `usize::MAX` means no limit.
    pub limit_bytes: usize,
    /// How often [`admits`] has said no.
    pub refusals: u64,
}

impl MemoryUsage {
    /// In Prometheus' text format, version 0.0.4: `petasos_memory_bytes`,
    /// `petasos_memory_limit_bytes` and `petasos_memory_refusals_total`.
    pub fn to_prometheus(&self) -> String {
        let MemoryUsage { used_bytes, limit_bytes, refusals } = self;
        format!(
            "# HELP petasos_memory_bytes Bytes in buffers of 16 KiB or more.\n\
             # TYPE petasos_memory_bytes gauge\n\
             petasos_memory_bytes {used_bytes}\n\
             # HELP petasos_memory_limit_bytes With so many, no more is taken for peers.\n\
             # TYPE petasos_memory_limit_bytes gauge\n\
             petasos_memory_limit_bytes {limit_bytes}\n\
             # HELP petasos_memory_refusals_total Messages that were not taken for want of room.\n\
             # TYPE petasos_memory_refusals_total counter\n\
             petasos_memory_refusals_total {refusals}\n"
        )
    }
}

/// The state of the account now.
pub fn usage() -> MemoryUsage {
    MemoryUsage {
        used_bytes: USED.load(Ordering::Relaxed),
        limit_bytes: LIMIT.load(Ordering::Relaxed),
        refusals: REFUSALS.load(Ordering::Relaxed),
    }
}

/// Sets the limit. At first there is none.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Whether `bytes` more may be taken for a peer. If not, it counts a refusal.
#[inline]
pub fn admits(bytes: usize) -> bool {
    let used = USED.load(Ordering::Relaxed);
    let fits = used.saturating_add(bytes) <= LIMIT.load(Ordering::Relaxed);
    if !fits {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
    }
    fits
}

/// Counts `bytes` that are about to be taken for a peer, until the result is dropped; `None` if
/// they may not be taken.
pub fn reserve(bytes: usize) -> Option<Counted> {
    admits(bytes).then(|| {
        let mut counted = Counted::default();
        counted.set(bytes);
        counted
    })
}

/// A buffer of this capacity was allocated, or taken from the spares.
#[inline]
pub(crate) fn allocated(capacity: usize) {
    if capacity >= LONG_BYTES_MIN {
        USED.fetch_add(capacity, Ordering::Relaxed);
    }
}

/// A buffer of this capacity is freed, or becomes a spare.
#[inline]
pub(crate) fn freed(capacity: usize) {
    if capacity >= LONG_BYTES_MIN {
        USED.fetch_sub(capacity, Ordering::Relaxed);
    }
}

/// Counts bytes outside of any [`MsgBuf`](crate::MsgBuf), until it is dropped.
#[derive(Debug, Default)]
pub struct Counted {
    bytes: usize,
}

impl Counted {
    /// Counts this many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        USED.fetch_add(bytes, Ordering::Relaxed);
        USED.fetch_sub(core::mem::replace(&mut self.bytes, bytes), Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        USED.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
