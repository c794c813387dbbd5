//! The groups that a loop has joined, and other threads that ask what has become of that.

use core::cell::RefCell;
use std::sync::mpsc::Sender;

use petasos_endpoint::{AtRouter, Context, ServedGroupId};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct JoinedGroups {
    groups: RefCell<Vec<ServedGroupId>>,
    askers: RefCell<Vec<Sender<Vec<AtRouter>>>>,
}

impl JoinedGroups {
    pub(crate) fn add(&self, group: ServedGroupId) {
        self.groups.borrow_mut().push(group);
    }

    /// Somebody wants to know what the loop has at the routers. A later turn answers.
    pub(crate) fn ask(&self, asker: Sender<Vec<AtRouter>>) {
        self.askers.borrow_mut().push(asker);
    }

    /// The loop ends: nobody waits for it any more.
    pub(crate) fn end(&self) {
        self.askers.borrow_mut().clear();
    }

    pub(crate) fn is_asked(&self) -> bool {
        !self.askers.borrow().is_empty()
    }

    #[cold]
    pub(crate) fn answer<S>(&self, cx: &Context<S>) {
        let groups = self.groups.borrow();
        let at: Vec<_> = groups.iter().flat_map(|group| cx.served_routers(*group)).collect();
        for asker in self.askers.borrow_mut().drain(..) {
            // Who does not wait any more need not know.
            let _ = asker.send(at.clone());
        }
    }
}
