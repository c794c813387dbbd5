//! Handlers in the loop that asked for a notification when their calls are over.
//!
//! A handler is identified by its task, which another handler may reuse soon. Therefore the
//! notification is sent when the handler's slot is emptied. Requests that were made during a poll
//! are checked once more after that poll, by a special task: if no handler waits in the slot, the
//! call is over.
//!
//! Invariant: the cell is not borrowed during notifications.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_rpc::cancelled::CancelState;

use super::Local;
use crate::task::Task;

#[derive(Default)]
pub(crate) struct Watches {
    overs: HashMap<Task, Arc<CancelState>>,
    /// Requests since the last check.
    fresh: Vec<Task>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.overs.is_empty()
    }
}

impl Local {
    /// The cancellation state of the call whose handler is being polled, if there is one.
    pub(crate) fn watch_polled(&self) -> Option<Arc<CancelState>> {
        let task = self.polled().filter(|task| task.is_handler())?;
        let watches = &mut *self.watches.borrow_mut();
        if let Some(over) = watches.overs.get(&task) {
            return Some(over.clone());
        }
        let over = Arc::<CancelState>::default();
        watches.overs.insert(task, over.clone());
        watches.fresh.push(task);
        self.make_ready(Task::WATCHES);
        Some(over)
    }

    /// Takes the requests since the last check.
    pub(crate) fn take_fresh_watches(&self) -> Vec<Task> {
        core::mem::take(&mut self.watches.borrow_mut().fresh)
    }

    /// Sends the notification for a task whose handler is over.
    #[inline]
    pub fn unwatch(&self, task: Task) {
        if !self.watches.borrow().is_empty() {
            self.unwatch_any(task);
        }
    }

    #[cold]
    fn unwatch_any(&self, task: Task) {
        let over = self.watches.borrow_mut().overs.remove(&task);
        if let Some(over) = over {
            over.end();
        }
    }

    /// Sends all notifications, because the loop and all calls have ended.
    pub(crate) fn unwatch_all(&self) {
        let overs = core::mem::take(&mut self.watches.borrow_mut().overs);
        overs.values().for_each(|over| over.end());
    }
}
