//! Timers in a loop for futures on any thread.
//!
//! They are rare. A timer is therefore added by a command, and one that is no longer needed stays
//! in the loop until it expires.

use std::sync::{Arc, Weak};

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use petasos_base::Time;
use petasos_call::Failure;
use petasos_rpc::timer::{Timekeeper, Timer};

use super::Local;
use crate::remote::RemoteCompletion;
use crate::shared::{Command, Shared, loop_gone};

/// The timers of a loop.
#[derive(Default)]
pub(crate) struct Timers {
    /// By timer number.
    list: Vec<Option<Weak<RemoteCompletion>>>,
    free: Vec<u32>,
    /// Timers that have not been scheduled yet.
    fresh: Vec<(u32, Time)>,
}

/// The timers of a loop. They complete with `DEADLINE_EXCEEDED`, or with an error if the loop has
/// ended.
impl Timekeeper for Shared {
    fn start(&self, timeout: Duration) -> Timer {
        let remote = RemoteCompletion::new(None);
        self.send(Command::Timer { timeout, remote: remote.clone() });
        Box::pin(poll_fn(move |cx| match remote.poll(cx.waker()) {
            Some(outcome) => Poll::Ready(outcome.expect_err("a timer brings nothing")),
            None => Poll::Pending,
        }))
    }
}

impl Timers {
    /// Whether there are timers that have not been scheduled yet.
    #[inline]
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Takes the timers that have not been scheduled yet.
    pub(crate) fn take_fresh(&mut self) -> Vec<(u32, Time)> {
        core::mem::take(&mut self.fresh)
    }

    fn add(&mut self, at: Time, remote: &Arc<RemoteCompletion>) {
        let entry = Some(Arc::downgrade(remote));
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = entry;
                number
            }
            None => {
                self.list.push(entry);
                u32::try_from(self.list.len() - 1).expect("timers are counted in 32 bits")
            }
        };
        self.fresh.push((number, at));
    }
}

impl Local {
    /// Adds a timer.
    pub(crate) fn add_timer(&self, timeout: Duration, remote: &Arc<RemoteCompletion>) {
        self.timers.borrow_mut().add(self.now() + timeout, remote);
    }

    /// Handles an expired timer.
    pub(crate) fn timer_is_due(&self, number: u32) {
        let remote = {
            let timers = &mut *self.timers.borrow_mut();
            timers.free.push(number);
            timers.list[number as usize].take()
        };
        if let Some(remote) = remote.and_then(|remote| remote.upgrade()) {
            remote.finish(Err(Failure::Timeout.status()));
        }
    }

    /// Completes all timers, because the loop has ended.
    pub(crate) fn end_timers(&self) {
        let list = core::mem::take(&mut self.timers.borrow_mut().list);
        for remote in list.into_iter().flatten().filter_map(|remote| remote.upgrade()) {
            remote.finish(Err(loop_gone()));
        }
    }
}
