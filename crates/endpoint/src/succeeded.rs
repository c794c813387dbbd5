//! Sessions whose servers have successors at the same address (C22).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::core::{Context, SucceededHook};
use crate::endpoint::Endpoint;
use crate::sessions::{PeerId, SessionId};

impl<S> Context<S> {
    /// Whether another process is at the address where `session` was asked for. What is under way
    /// in it goes on, and the server ends when it is over: call the other process, in another
    /// session, and close this one.
    pub fn is_succeeded(&self, session: SessionId) -> bool {
        let entry = self.core.clients.get(session.index);
        let entry = entry.filter(|entry| entry.generation == session.generation);
        let link = entry.and_then(|entry| entry.peer);
        link.is_some_and(|link| self.core.outside.succeeded.contains(&link))
    }
}

impl<S> Endpoint<S> {
    /// Runs `hook` for each session of which [`Context::is_succeeded`] has become true, instead of
    /// an earlier one. A panic in it is counted.
    pub fn on_succeeded(&mut self, hook: SucceededHook<S>) {
        self.cx.core.hooks.on_succeeded = Some(hook);
    }

    /// How many sessions of clients there are.
    pub fn served_sessions(&self) -> usize {
        self.cx.core.servers.len() as usize
    }

    #[cold]
    pub(crate) fn on_succeeded_link(&mut self, link: PeerId) {
        if !self.cx.core.outside.succeeded.contains(&link) {
            self.cx.core.outside.succeeded.push(link);
        }
        let Some(hook) = self.cx.core.hooks.on_succeeded else { return };
        let of_it = self.cx.core.clients.iter().filter(|(_, entry)| entry.peer == Some(link));
        let of_it = of_it.map(|(index, entry)| SessionId { index, generation: entry.generation });
        for session in of_it.collect::<Vec<_>>() {
            let (state, cx) = (&mut self.state, &mut self.cx);
            if catch_unwind(AssertUnwindSafe(|| hook(state, cx, session))).is_err() {
                self.cx.core.stats.panics += 1;
            }
        }
    }
}
