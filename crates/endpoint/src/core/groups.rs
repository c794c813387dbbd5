//! What the loop does for groups, as a client and as a worker, beside packets.

use petasos_base::Time;

use super::Core;
use super::group_calls::GROUP_TURN;

impl<S> Core<S> {
    /// Lets a pair send whose index is on the dirty list, or all that ask.
    #[cold]
    pub(super) fn pump_pair(&mut self, index: u32) {
        match index {
            GROUP_TURN => self.pump_group_calls(),
            index => self.pump_bound(index),
        }
    }

    /// Lets the session of a request send whose index is on the dirty list, or all that is due.
    #[cold]
    pub(super) fn pump_request(&mut self, index: u32) {
        match index {
            GROUP_TURN => self.pump_group_requests(),
            index => self.pump_taken(index),
        }
    }

    /// Does what is due of external sessions and groups.
    #[cold]
    pub(super) fn run_others(&mut self) {
        self.expire_external();
        if self.group_calls_due() <= self.now {
            self.run_group_calls();
        }
        if self.group_requests_due() <= self.now {
            self.run_group_requests();
        }
        self.others_at = Time::NEVER;
        self.note_group_timers();
    }

    /// Wakes the loop when external sessions or groups have something to do.
    pub(super) fn note_group_timers(&mut self) {
        let due = self.external_due().min(self.group_calls_due()).min(self.group_requests_due());
        self.others_at = self.others_at.min(due);
    }
}
