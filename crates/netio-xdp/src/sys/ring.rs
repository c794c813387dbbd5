//! Single-producer, single-consumer rings between this process and the kernel.
//!
//! Both sides count entries modulo 2^32. The side that advances an index stores it with `Release`
//! after it has touched the entries; the other side loads it with `Acquire` before it does. The
//! kernel's halves are `xskq_prod_*` and `xskq_cons_*` in its `net/xdp/xsk_queue.h`. What the
//! kernel writes into an index is bounded by the ring's size before it is used.

use std::io;
use std::os::fd::BorrowedFd;

use petasos_base::sync::{AtomicU32, Ordering};
use rustix::net::xdp::XdpRingOffset;

use super::memory::Mapping;

/// The memory of one ring of `T`.
struct RingMemory<T> {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    /// Entries less one; the size is a power of two.
    mask: u32,
    /// Keeps the pointers alive.
    _mapping: Mapping,
}

// SAFETY: the pointers lead into the mapping that the ring owns, and only its owner follows them.
unsafe impl<T: Send> Send for RingMemory<T> {}

impl<T: Copy> RingMemory<T> {
    fn map(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        size: u32,
    ) -> io::Result<RingMemory<T>> {
        assert!(size.is_power_of_two(), "the kernel takes powers of two only");
        // Kernels before 5.4 have no flags, and no need-wakeup.
        let flags = at.flags.ok_or(io::ErrorKind::Unsupported)? as usize;
        let desc = at.desc as usize;
        let mapping = Mapping::of_file(fd, page_offset, desc + size as usize * size_of::<T>())?;
        let inside = |offset: usize| {
            assert!(offset + size_of::<u32>() <= mapping.len(), "indices lie in the ring");
            mapping.as_ptr().wrapping_add(offset)
        };
        Ok(RingMemory {
            producer: inside(at.producer as usize).cast(),
            consumer: inside(at.consumer as usize).cast(),
            flags: inside(flags).cast(),
            entries: inside(desc).cast(),
            mask: size - 1,
            _mapping: mapping,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, aligned by the kernel, and is only ever used atomically.
        unsafe { &*self.producer }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { &*self.consumer }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for the producer.
        let flags = unsafe { &*self.flags };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: `mask` keeps the index below the number of entries that were mapped.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }

    fn size(&self) -> u32 {
        self.mask + 1
    }
}

/// A ring that this process fills: the fill ring and the transmit ring.
pub(super) struct Producer<T> {
    ring: RingMemory<T>,
    /// Index of the next entry to write; what lies between the shared index and it is not yet
    /// visible to the kernel.
    next: u32,
    /// The kernel's index when last looked at: `next - consumed <= size`.
    consumed: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Producer<T>> {
        Ok(Producer { ring: RingMemory::map(fd, page_offset, at, size)?, next: 0, consumed: 0 })
    }

    /// Whether an entry can be appended.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.next.wrapping_sub(self.consumed) < self.ring.size()
            || self.unconsumed() < self.ring.size()
    }

    /// Appends an entry, invisible to the kernel until [`Producer::publish`].
    ///
    /// # Panics
    /// If the ring is full: its owner asks [`Producer::has_room`] first.
    #[inline]
    pub(super) fn push(&mut self, entry: T) {
        assert!(self.has_room(), "a ring with room was asked for");
        // SAFETY: the entry is in the ring, and the kernel does not read it before `publish`.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows all entries to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        // Pairs with the kernel's load-acquire of the producer index.
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not taken.
    #[inline]
    pub(super) fn unconsumed(&mut self) -> u32 {
        // Pairs with the kernel's store-release of the consumer index.
        let consumed = self.ring.consumer().load(Ordering::Acquire);
        let left = self.next.wrapping_sub(consumed);
        // An index outside the ring would be a broken kernel; the old value is then still right.
        if left <= self.ring.size() {
            self.consumed = consumed;
        }
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the kernel waits to be called before it looks at the ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that this process empties: the receive ring and the completion ring.
pub(super) struct Consumer<T> {
    ring: RingMemory<T>,
    /// Index of the next entry to read.
    next: u32,
    /// The kernel's index when last looked at: `produced - next <= size`.
    produced: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        Ok(Consumer { ring: RingMemory::map(fd, page_offset, at, size)?, next: 0, produced: 0 })
    }

    /// Entries that can be taken now.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        // Pairs with the kernel's store-release of the producer index.
        let produced = self.ring.producer().load(Ordering::Acquire);
        if produced.wrapping_sub(self.next) <= self.ring.size() {
            self.produced = produced;
        }
        self.produced.wrapping_sub(self.next)
    }

    /// The next of the entries that [`Consumer::available`] has counted.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.produced == self.next {
            return None;
        }
        // SAFETY: the entry is in the ring, and the kernel does not write it before `release`.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the room of all popped entries back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        // Pairs with the kernel's load-acquire of the consumer index.
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}
