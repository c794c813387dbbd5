//! Epochs of groups that are called (RT30), and those with which calls bind anew (RT31).

use petasos_control::Epoch;

use crate::endpoint::Endpoint;
use crate::enrolment::{EnrolmentId, Reminder};
use crate::group_members::{EPOCH_OVER, GroupId};
use crate::sessions::SessionId;

impl<S> Endpoint<S> {
    /// A router has told an epoch.
    pub(crate) fn on_called_epoch(
        &mut self,
        group: GroupId,
        (enrolment, session): (EnrolmentId, SessionId),
        epoch: &Epoch,
    ) {
        if epoch.binds_anew {
            return self.bind_anew(group, enrolment);
        }
        match self.set_group_epoch(session, epoch) {
            Ok(()) => self.remind(enrolment, Reminder::EpochOver(epoch.number), EPOCH_OVER),
            // First packets keep to the one before, and are refused once that is over.
            Err(error) => tracing::debug!(epoch = epoch.number, %error, "a router's epoch"),
        }
    }

    /// The table of methods is another one by now (RT31). What was bound for this attachment holds
    /// in the epoch before, to which it keeps; calls bind anew for another, which is asked for.
    fn bind_anew(&mut self, group: GroupId, enrolment: EnrolmentId) {
        let now = self.cx.core.now;
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        let Some(attached) = at.attached_by(enrolment) else { return };
        let router = attached.router;
        if core::mem::replace(&mut attached.is_outdated, true) {
            return;
        }
        // A router that says so again and again is asked less and less often.
        let after = at.routers.get_mut(router).map(|entry| entry.note_outdated(now));
        self.ask_to_attach(group, router, after.unwrap_or_default());
    }
}
