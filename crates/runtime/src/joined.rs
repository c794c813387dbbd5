//! The groups that a loop has joined, and other threads that ask what has become of that, or have
//! looked names of routers up again.

use core::cell::RefCell;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use petasos_endpoint::{AtRouter, Context, Endpoint, ServedGroupId};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct JoinedGroups {
    groups: RefCell<Vec<ServedGroupId>>,
    askers: RefCell<Vec<Sender<Vec<AtRouter>>>>,
    /// Groups that have other routers now, by the order of joining.
    renamed: RefCell<Vec<(usize, Vec<SocketAddr>)>>,
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

    /// What the loop has at the routers.
    pub(crate) fn at_routers<S>(&self, cx: &Context<S>) -> Vec<AtRouter> {
        let groups = self.groups.borrow();
        groups.iter().flat_map(|group| cx.served_routers(*group)).collect()
    }

    #[cold]
    pub(crate) fn answer<S>(&self, cx: &Context<S>) {
        let at = self.at_routers(cx);
        for asker in self.askers.borrow_mut().drain(..) {
            // Who does not wait any more need not know.
            let _ = asker.send(at.clone());
        }
    }

    /// A group has these routers from now on. This needs the endpoint itself, between turns.
    pub(crate) fn rename(&self, group: usize, routers: Vec<SocketAddr>) {
        self.renamed.borrow_mut().push((group, routers));
    }

    pub(crate) fn is_renamed(&self) -> bool {
        !self.renamed.borrow().is_empty()
    }

    /// Tells the endpoint of groups that have other routers now.
    pub(crate) fn tell_renamed<S>(&self, endpoint: &mut Endpoint<S>) {
        for (group, routers) in self.renamed.borrow_mut().drain(..) {
            if let Some(group) = self.groups.borrow().get(group) {
                endpoint.set_served_routers(*group, &routers);
            }
        }
    }
}
