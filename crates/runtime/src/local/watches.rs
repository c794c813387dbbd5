//! Handlers in the loop that have asked to be told when their calls are over.
//!
//! A handler is known by its task, which another may have soon after: so those who asked are told
//! when the handler's slot is emptied. What was asked for while a handler was polled is looked at
//! once more after that poll, by a task of its own kind: if no handler waits there, the call is
//! over.
//!
//! Invariant: the cell is not borrowed while somebody is told.

use std::collections::HashMap;
use std::sync::Arc;

use petasos_rpc::cancelled::CancelState;

use super::Local;
use crate::task::Task;

#[derive(Default)]
pub(crate) struct Watches {
    overs: HashMap<Task, Arc<CancelState>>,
    /// Those that were asked for since this was last looked at.
    fresh: Vec<Task>,
}

impl Watches {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.overs.is_empty()
    }
}

impl Local {
    /// What tells of the end of the call whose handler the loop polls, if it polls one.
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

    /// Those that were asked for since this was last asked.
    pub(crate) fn take_fresh_watches(&self) -> Vec<Task> {
        core::mem::take(&mut self.watches.borrow_mut().fresh)
    }

    /// The handler of a task is over.
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

    /// The loop has ended, and so have all calls.
    pub(crate) fn unwatch_all(&self) {
        let overs = core::mem::take(&mut self.watches.borrow_mut().overs);
        overs.values().for_each(|over| over.end());
    }
}
