//! Loops that are turned by hand, without nodes, several on one thread: for simulation.
//!
//! A thread has one loop at a time. If it owns several, the one that is to run must step in, and
//! step aside again afterwards. A [`Dial`] opens sessions in place of a node.

use petasos_base::Time;
use petasos_endpoint::Endpoint;

use crate::channels::Dial;
use crate::dispatcher::Dispatcher;
use crate::runtime::Runtime;
use crate::turn;

/// The resources that a loop holds. When nothing is called or served any more, all except
/// `sessions` are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Places of calls, including attempts of hedged calls.
    pub calls: usize,
    /// Calls that are being retried, and attempts of hedged calls.
    pub retries: usize,
    /// Calls and streams that wait for a slot or a bind.
    pub waiting: usize,
    /// Slots in sessions that calls and streams hold.
    pub slots: usize,
    /// Halves of streams.
    pub streams: usize,
    /// Handlers that have not answered.
    pub handlers: usize,
    /// Sessions of channels.
    pub sessions: usize,
}

impl Runtime {
    /// Lets this thread use another loop, until this one steps in again. Step in before you drop
    /// the runtime.
    pub fn step_aside(&self) {
        self.local.leave();
    }

    /// Makes this loop the thread's again.
    ///
    /// # Panics
    /// If another loop has not stepped aside: the caller's fault.
    pub fn step_in(&self) {
        assert!(self.local.settle(), "this thread has one loop at a time");
    }

    /// Opens sessions with `dial`, in place of a node.
    pub fn dial_with(&self, dial: Dial<Dispatcher>) {
        *self.dial.borrow_mut() = Some(dial);
    }

    /// Accesses the endpoint between turns, as a node would.
    pub fn with_endpoint<R>(&self, act: impl FnOnce(&mut Endpoint<Dispatcher>) -> R) -> R {
        act(&mut self.endpoint.borrow_mut())
    }

    /// When the loop must next turn if nothing arrives; [`Time::NEVER`] if it need not.
    pub fn next_turn_at(&self) -> Time {
        let at_once = turn::has_work(self.local);
        if at_once { self.local.clock.now() } else { self.endpoint.borrow().next_turn_at() }
    }

    /// The resources that the loop holds.
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
