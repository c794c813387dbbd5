//! Hooks that the loop runs besides handlers and continuations: the application's own work once a
//! turn, and a notice when a request is not wanted any more.
//!
//! Without hooks, a turn pays one comparison for all of them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::core::{AbandonedHook, SleepHook, TurnHook};
use crate::endpoint::Endpoint;
use crate::mail::Mail;
use crate::mailbox::Mailbox;

/// Makes a loop turn, from any thread. For work per turn that depends on more than the endpoint.
#[derive(Clone)]
pub struct Notifier {
    mailbox: Arc<Mailbox<Mail>>,
}

impl Notifier {
    /// Makes the loop turn soon, even if it sleeps. That turn sees everything written before, if it
    /// is guarded by its own lock or atomic.
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
    /// Returns a notifier, which makes this loop turn from other threads.
    ///
    /// # Errors
    /// The system's, if it has no file descriptor for the mailbox.
    pub fn notifier(&mut self) -> io::Result<Notifier> {
        let mailbox = self.cx.core.outside.open_mailbox()?;
        Ok(Notifier { mailbox })
    }

    /// Runs `work` once a turn, between receiving and sending, instead of earlier work. It returns
    /// when it needs a turn if nothing arrives ([`crate::Time::NEVER`] for no turn).
    /// [`Endpoint::run`], [`Endpoint::run_ready`] and [`Endpoint::next_turn_at`] take that into
    /// account.
    ///
    /// A panic in it is counted, and the work runs again in the next turn.
    pub fn on_turn(&mut self, work: TurnHook<S>) {
        let hooks = &mut self.cx.core.hooks;
        (hooks.on_turn, hooks.any) = (Some(work), true);
    }

    /// Runs `hook` whenever a request whose handle has not been used is not wanted any more: its
    /// client has cancelled it or sent a newer one in its slot, or its session is gone. It runs in
    /// the turn that shows this, before a newer request's handler.
    ///
    /// A request of a client of a group ([`ServerSessionId::is_group`](crate::ServerSessionId))
    /// still has to be answered or rejected once its handler has ended, though nobody is told:
    /// until then it is one of those that its router lets this worker have at a time (RT21).
    pub fn on_abandoned(&mut self, hook: AbandonedHook<S>) {
        let hooks = &mut self.cx.core.hooks;
        (hooks.on_abandoned, hooks.any) = (Some(hook), true);
    }

    /// Runs `hook` each time before the loop sleeps, instead of an earlier one. It says whether the
    /// loop may: for what arrives at descriptors that the loop [watches](crate::Context::watch).
    pub fn before_sleep(&mut self, hook: SleepHook<S>) {
        self.cx.core.hooks.before_sleep = Some(hook);
    }

    /// From now on, while the endpoint drains, requests still go to their handlers, which check
    /// [`Context::is_draining`](crate::Context::is_draining) and decide for themselves.
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
