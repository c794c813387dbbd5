//! The memory for packets: one allocation with the provider's contexts and all slots.
//!
//! ```text
//! [ contexts | receive slots | transmit slots ]      slot: [ prefix | message | 1 byte ]
//! ```
//!
//! A slot belongs to the provider from the call that posts it to its completion, and otherwise to
//! us; `endpoint` ensures that only the owner touches it. The extra byte reveals truncated
//! messages.

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use super::ffi;

/// The number of slots, and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Slots to receive into.
    pub rx_slots: usize,
    /// Slots to send from.
    pub tx_slots: usize,
    /// Bytes before a payload that the provider uses.
    pub prefix_bytes: usize,
    /// The longest message.
    pub message_bytes_max: usize,
    /// The longest datagram in a message.
    pub datagram_bytes_max: usize,
    /// The longest message with several datagrams.
    pub fused_bytes_max: usize,
}

impl Shape {
    /// Bytes of a slot that are posted to receive.
    pub(super) fn slot_bytes(&self) -> usize {
        self.prefix_bytes + self.message_bytes_max + 1
    }

    /// Bytes from slot to slot: whole cache lines, so that both sides never write to the same line.
    pub(super) fn stride(&self) -> usize {
        self.slot_bytes().next_multiple_of(64)
    }

    fn slots(&self) -> usize {
        self.rx_slots + self.tx_slots
    }

    fn slots_offset(&self) -> usize {
        (self.slots() * size_of::<ffi::fi_context2>()).next_multiple_of(64)
    }

    /// Bytes of the whole allocation.
    pub(super) fn bytes(&self) -> usize {
        self.slots_offset() + self.slots() * self.stride()
    }
}

/// The allocation. Slots are numbered through, receive slots first.
pub(super) struct Memory {
    base: NonNull<u8>,
    layout: Layout,
    pub(super) shape: Shape,
}

impl Memory {
    pub(super) fn new(shape: Shape) -> Memory {
        let layout = Layout::from_size_align(shape.bytes(), PAGE_BYTES);
        let layout = layout.expect("a few thousand slots are less than the address space");
        // SAFETY: the size is not zero, since each slot has a context.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        Memory { base, layout, shape }
    }

    /// The whole allocation, to be registered.
    pub(super) fn whole(&self) -> (*const u8, usize) {
        (self.base.as_ptr(), self.layout.size())
    }

    /// The start of a slot, its prefix included.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.shape.slots(), "a slot is one of those that there are");
        // SAFETY: the slot is within the allocation.
        unsafe { self.base.as_ptr().add(self.shape.slots_offset() + slot * self.shape.stride()) }
    }

    /// The provider's context for the operation on a slot. Its address identifies the slot.
    #[inline]
    pub(super) fn context(&self, slot: usize) -> *mut ffi::fi_context2 {
        assert!(slot < self.shape.slots(), "a slot is one of those that there are");
        // SAFETY: the contexts are at the start of the allocation, which is aligned for them.
        unsafe { self.base.as_ptr().cast::<ffi::fi_context2>().add(slot) }
    }

    /// The slot that a context identifies.
    #[inline]
    pub(super) fn slot_of(&self, context: *const core::ffi::c_void) -> usize {
        let distance = (context as usize).wrapping_sub(self.base.as_ptr() as usize);
        let slot = distance / size_of::<ffi::fi_context2>();
        assert!(slot < self.shape.slots(), "a provider gives back the contexts that it got");
        slot
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and whoever owns this drops it after the
        // endpoint that used it.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_apart_and_contexts_name_them() {
        let shape = Shape {
            rx_slots: 3,
            tx_slots: 2,
            prefix_bytes: 40,
            message_bytes_max: 1472,
            datagram_bytes_max: 1468,
            fused_bytes_max: 1472,
        };
        let memory = Memory::new(shape);
        let (base, len) = memory.whole();
        for slot in 0..5 {
            let start = memory.slot(slot) as usize - base as usize;
            assert!(start >= 5 * size_of::<ffi::fi_context2>() && start.is_multiple_of(64));
            assert!(start + 40 + 1472 < len);
            assert_eq!(memory.slot_of(memory.context(slot).cast()), slot);
        }
        assert!(memory.slot(1) as usize - memory.slot(0) as usize > 40 + 1472);
    }
}
