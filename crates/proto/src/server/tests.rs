//! What the session's own tests see of the server's half from inside.

use petasos_wire::{REQUEST_NUMBERS, TRANSMISSION_NUMBERS};

use super::{Phase, ServerSession};

impl<B: Default> ServerSession<B> {
    /// Checks what holds between any two calls.
    pub(crate) fn assert_consistent(&self) {
        for (index, slot) in self.slots.iter().enumerate() {
            assert_eq!(slot.assembly.is_some(), slot.phase == Phase::Receiving);
            let owes = self.acks >> index & 1 == 1;
            let open = matches!(slot.phase, Phase::Receiving | Phase::Running);
            assert!(!owes || open, "only requests that are not answered are acknowledged");
            assert_eq!(slot.request % u64::from(self.params.slots), index as u64);
        }
    }

    /// The counterpart of the client's `near_wrap`.
    pub(crate) fn near_wrap(&mut self, transmissions: u32) {
        let slots = u64::from(self.params.slots);
        crate::slots::provide(&mut self.slots, self.params.slots - 1, super::Slot::new);
        for (index, slot) in (0..).zip(&mut self.slots) {
            slot.request = REQUEST_NUMBERS - 2 * slots + index;
        }
        self.transmission = TRANSMISSION_NUMBERS - 1 - transmissions;
    }
}
