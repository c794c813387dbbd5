//! One account of the process's long buffers, whoever has them.
//!
//! Buffers of [`LONG_BYTES_MIN`] or more are counted while somebody has them: those of pools, of
//! requests whose handlers wait, of streams, of messages that programs build. What is put together
//! elsewhere is [`Counted`]. Spare buffers are not counted, since whoever needs one gets it. Short
//! buffers are not counted: they are bounded by the numbers of calls and sessions.
//!
//! Nothing is refused here. Whoever is about to take more for a peer asks [`admits`] first, and
//! answers that there is no room. So the account may pass its limit, by what was admitted before.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::layout::SPARE_BYTES_MIN;

/// Buffers with as much room count.
pub const LONG_BYTES_MIN: usize = SPARE_BYTES_MIN;

// Relaxed everywhere: counts that guard nothing else.
static USED: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSALS: AtomicU64 = AtomicU64::new(0);

/// What the account says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUsage {
    /// Bytes in long buffers.
    pub used_bytes: usize,
    /// With so many, nothing more is taken for peers. `usize::MAX` is no limit.
    pub limit_bytes: usize,
    /// How often something was not taken.
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

/// What the account says now.
pub fn usage() -> MemoryUsage {
    MemoryUsage {
        used_bytes: USED.load(Ordering::Relaxed),
        limit_bytes: LIMIT.load(Ordering::Relaxed),
        refusals: REFUSALS.load(Ordering::Relaxed),
    }
}

/// Sets the limit, which is none at first.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Whether `bytes` more may be taken for a peer. Counts it if not.
#[inline]
pub fn admits(bytes: usize) -> bool {
    let used = USED.load(Ordering::Relaxed);
    let fits = used.saturating_add(bytes) <= LIMIT.load(Ordering::Relaxed);
    if !fits {
        REFUSALS.fetch_add(1, Ordering::Relaxed);
    }
    fits
}

/// A buffer of this capacity was allocated, or is no spare any more.
#[inline]
pub(crate) fn allocated(capacity: usize) {
    if capacity >= LONG_BYTES_MIN {
        USED.fetch_add(capacity, Ordering::Relaxed);
    }
}

/// A buffer of this capacity is freed, or a spare from now on.
#[inline]
pub(crate) fn freed(capacity: usize) {
    if capacity >= LONG_BYTES_MIN {
        USED.fetch_sub(capacity, Ordering::Relaxed);
    }
}

/// Counts bytes that are not in a [`MsgBuf`](crate::MsgBuf), for as long as it lives.
#[derive(Debug, Default)]
pub struct Counted {
    bytes: usize,
}

impl Counted {
    /// Counts so many bytes from now on.
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
