//! Loops that are turned by hand, several on one thread, without nodes: for simulation.
//!
//! A thread has one loop at a time. Whoever has several lets the one that is to run step in, and
//! has it step aside again afterwards. What opens sessions is a [`Dial`] in place of a node.

use petasos_base::Time;
use petasos_endpoint::Endpoint;

use crate::channels::Dial;
use crate::dispatcher::Dispatcher;
use crate::runtime::Runtime;
use crate::turn;

/// What a loop still has. All zero, but for `sessions`, when nothing is called or served any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Places of calls, attempts of hedged calls among them.
    pub calls: usize,
    /// Calls that are tried again, and attempts of hedged ones.
    pub retries: usize,
    /// Calls and streams that wait for a slot or a bind.
    pub waiting: usize,
    /// Slots that calls and streams have in sessions.
    pub slots: usize,
    /// Halves of streams.
    pub streams: usize,
    /// Handlers that have not answered.
    pub handlers: usize,
    /// Sessions of channels.
    pub sessions: usize,
}

impl Runtime {
    /// This thread may have another loop, until this one steps in again. Whoever drops the runtime
    /// has it step in before.
    pub fn step_aside(&self) {
        self.local.leave();
    }

    /// The loop is this thread's again.
    ///
    /// # Panics
    /// If another loop has not stepped aside: the caller's fault.
    pub fn step_in(&self) {
        assert!(self.local.settle(), "this thread has one loop at a time");
    }

    /// Has sessions opened by `dial`, in place of a node.
    pub fn dial_with(&self, dial: Dial<Dispatcher>) {
        *self.dial.borrow_mut() = Some(dial);
    }

    /// The endpoint, between turns: what a node would do with it.
    pub fn with_endpoint<R>(&self, act: impl FnOnce(&mut Endpoint<Dispatcher>) -> R) -> R {
        act(&mut self.endpoint.borrow_mut())
    }

    /// When the loop has to turn next even if nothing arrives; [`Time::NEVER`] if it need not.
    pub fn next_turn_at(&self) -> Time {
        let at_once = turn::has_work(self.local);
        if at_once { self.local.clock.now() } else { self.endpoint.borrow().next_turn_at() }
    }

    /// What the loop still has.
    pub fn held(&self) -> Held {
        let (calls, streams) = (self.local.calls.borrow(), self.local.streams.borrow());
        let (waiting, slots, sessions) = self.local.channels.borrow().held();
        Held {
            calls: calls.taken(),
            retries: calls.retries.list.len() + calls.retries.attempts.len(),
            waiting,
            slots,
            streams: streams.taken(),
            handlers: self.endpoint.borrow().state().parts.waiting.len(),
            sessions,
        }
    }
}
