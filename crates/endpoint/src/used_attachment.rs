//! Which of a group's attachments its calls go by (RT38).

use crate::endpoint::Endpoint;
use crate::enrolment::Reminder;
use crate::group_members::{Attached, GroupId, OUTLIVE_ENDED, SILENT_FOR};
use crate::sessions::SessionId;

impl<S> Endpoint<S> {
    /// Lets calls go by the attachment that is best now, also those that ask by the one before
    /// (RT38). One that has another attachment with its router in its place has ended.
    pub(crate) fn use_best(&mut self, group: GroupId) {
        let now = self.cx.core.now;
        let core = &self.cx.core;
        let has_workers = |session| core.has_group_workers(session);
        let at = core.outside.groups.called.iter().find(|it| it.id == group);
        let Some((Some(best), used)) = at.map(|at| (at.best(now, has_workers), at.used)) else {
            return;
        };
        if used == Some(best) {
            return self.end_replaced(group);
        }
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        at.used = Some(best);
        if let Some(used) = used {
            self.change_attachment(group, used, best);
        }
        self.end_replaced(group);
    }

    /// Calls go by another attachment: what asks by the one before moves there, if it may.
    fn change_attachment(&mut self, group: GroupId, used: SessionId, best: SessionId) {
        let Some(at) = self.cx.core.outside.groups.called(group) else { return };
        if at.moves_calls {
            if let Err(error) = self.move_group_calls(used, best) {
                // What asks by the one before ends with it.
                tracing::warn!(%error, "calls of a group stay with the router that they ask");
            }
            return;
        }
        // A router that is active still, and another one with a greater term, may be cut off: its
        // connection would tell that much later.
        let active = |session| at.attached.iter().find(|it| it.session == session)?.active;
        let is_overtaken =
            active(used).is_some_and(|it| active(best).is_some_and(|by| by.0 > it.0));
        let is_connected = at.attached.iter().any(|it| it.session == used && it.is_connected);
        if is_overtaken || !is_connected {
            self.cx.core.end_asked_by(used);
        }
    }

    /// Calls by an attachment have had no answer: another one is better, if there is one.
    pub(crate) fn on_group_silent(&mut self, session: SessionId) {
        let until = self.cx.core.now + SILENT_FOR;
        let mut silent = Vec::new();
        for group in &mut self.cx.core.outside.groups.called {
            for attached in group.attached.iter_mut().filter(|it| it.session == session) {
                attached.silent_until = until;
                silent.push(group.id);
            }
        }
        silent.into_iter().for_each(|group| self.use_best(group));
    }

    /// Lets attachments end whose router has granted another that can be used: not before answers
    /// have come to what was asked by them.
    fn end_replaced(&mut self, group: GroupId) {
        let core = &self.cx.core;
        let Some(at) = core.outside.groups.called.iter().find(|it| it.id == group) else { return };
        let has_workers = |it: &Attached| core.has_group_workers(it.session);
        let stays = |it: &Attached| it.is_connected && !it.is_outdated;
        let in_use: Vec<_> = at.attached.iter().filter(|it| stays(it) && it.has_roster).collect();
        // A process that knows no worker yet takes no other's place that does.
        let replaces = |by: &Attached, it: &Attached| {
            by.router == it.router && (has_workers(by) || !has_workers(it))
        };
        let is_over = |it: &&Attached| {
            !stays(it) && !it.is_replaced && in_use.iter().any(|by| replaces(by, it))
        };
        let over: Vec<_> = at.attached.iter().filter(is_over).map(|it| it.enrolment).collect();
        for enrolment in over {
            let at = self.cx.core.outside.groups.called(group);
            if let Some(attached) = at.and_then(|at| at.attached_by(enrolment)) {
                attached.is_replaced = true;
            }
            self.remind(enrolment, Reminder::Outlived, OUTLIVE_ENDED);
        }
    }
}
