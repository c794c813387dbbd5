//! What an application has the loop run beside handlers and continuations: its own work once a
//! turn, and a word when a request is not wanted any more.
//!
//! Without hooks, a turn pays one comparison for all of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::core::{AbandonedHook, TurnHook};
use crate::endpoint::Endpoint;
use crate::mail::Mail;
use crate::mailbox::Mailbox;

/// Makes a loop turn, from any thread: for what its work of a turn looks at beside the endpoint.
#[derive(Clone)]
pub struct Notifier {
    mailbox: Arc<Mailbox<Mail>>,
}

impl Notifier {
    /// Makes the loop turn soon, also if it sleeps. What was written before is seen in that turn,
    /// if it is guarded by a lock or an atomic of its own.
    pub fn notify(&self) {
        self.mailbox.wake();
    }
}

impl core::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl<S> Endpoint<S> {
    /// What makes this loop turn from elsewhere.
    ///
    /// # Errors
    /// The system's, if it gives no descriptor for the mailbox.
    pub fn notifier(&mut self) -> io::Result<Notifier> {
        let mailbox = self.cx.core.outside.open_mailbox()?;
        Ok(Notifier { mailbox })
    }

    /// Has `work` run once a turn, between receiving and sending, in place of earlier work. It
    /// says when it needs a turn even if nothing comes ([`crate::Time::NEVER`] if it does not),
    /// which [`Endpoint::run`], [`Endpoint::run_ready`] and [`Endpoint::next_turn_at`] heed.
    ///
    /// A panic in it is counted, and the work runs again in the next turn.
    pub fn on_turn(&mut self, work: TurnHook<S>) {
        let hooks = &mut self.cx.core.hooks;
        (hooks.on_turn, hooks.any) = (Some(work), true);
    }

    /// Has `hook` run whenever a request whose handle is still out is not wanted any more: its
    /// client has cancelled it or sent a newer one in its slot, or its session is gone. In the
    /// turn that shows it, and before a newer request's handler.
    pub fn on_abandoned(&mut self, hook: AbandonedHook<S>) {
        let hooks = &mut self.cx.core.hooks;
        (hooks.on_abandoned, hooks.any) = (Some(hook), true);
    }

    /// From now on draining leaves requests to their handlers, which see
    /// [`Context::is_draining`](crate::Context::is_draining) and decide themselves.
    pub fn let_handlers_drain(&mut self) {
        self.cx.core.hooks.handlers_drain = true;
    }

    /// Runs the hooks of a turn. Returns whether the work needs another turn at once.
    #[inline(never)]
    pub(crate) fn run_hooks(&mut self) -> bool {
        while let Some(key) = self.cx.core.abandoned.pop() {
            let Some(hook) = self.cx.core.hooks.on_abandoned else { continue };
            let (state, cx) = (&mut self.state, &mut self.cx);
            if catch_unwind(AssertUnwindSafe(|| hook(state, cx, key))).is_err() {
                self.cx.core.stats.panics += 1;
            }
        }
        let Some(work) = self.cx.core.hooks.on_turn else { return false };
        let (state, cx) = (&mut self.state, &mut self.cx);
        let at = match catch_unwind(AssertUnwindSafe(|| work(state, cx))) {
            Ok(at) => at,
            Err(_) => {
                self.cx.core.stats.panics += 1;
                self.cx.core.now
            }
        };
        self.cx.core.hooks.turn_at = at;
        at <= self.cx.core.now
    }
}
