//! What the session's own tests see of the client's half from inside.

use petasos_wire::{REQUEST_NUMBERS, TRANSMISSION_NUMBERS};

use super::ClientSession;
use super::slot::Phase;

impl<C> ClientSession<C> {
    /// Checks the invariants that the module's documentation states.
    pub(crate) fn assert_consistent(&self) {
        assert_eq!(self.sendable & !self.busy, 0, "only busy slots send");
        assert_eq!(self.probes & !self.busy, 0, "only busy slots probe");
        assert_eq!(self.waiting as usize, self.backlog.len());
        let mut in_flight = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            let busy = self.busy >> index & 1 == 1;
            assert_eq!(busy, slot.phase != Phase::Idle);
            assert_eq!(busy, slot.context.is_some());
            assert!(busy || slot.board.is_none());
            assert!(slot.phase != Phase::InFlight || slot.board.is_none());
            in_flight += slot.in_flight();
        }
        assert_eq!(self.in_flight, in_flight, "packets in flight are those of the slots");
    }

    /// Moves an idle session to just before its numbers wrap: every slot's next request is the
    /// last before it, and `transmissions` more can be sent.
    pub(crate) fn near_wrap(&mut self, transmissions: u32) {
        let slots = u64::from(self.params.slots);
        crate::slots::provide(&mut self.slots, self.slot_mask, super::Slot::new);
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.request = REQUEST_NUMBERS - 2 * slots + index;
        }
        self.transmission = TRANSMISSION_NUMBERS - 1 - transmissions;
    }
}
