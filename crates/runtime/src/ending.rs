//! Shutting a loop down.

use core::future::{Future, poll_fn};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use super::Runtime;
use super::shared::Shared;
use super::turn;

/// How long the loop turns on so that the last answers arrive.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long to turn before the requests of handlers are looked at again.
const SLICE: Duration = Duration::from_millis(1);

impl Runtime {
    /// The part of the loop that other threads use.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.local.shared
    }

    /// Waits until the loop is asked to shut down, and returns the grace period for handlers.
    pub fn stopped(&self) -> impl Future<Output = Duration> + use<> {
        let local = self.local;
        poll_fn(move |_| match local.stopped.get() {
            Some(grace) => Poll::Ready(grace),
            None => Poll::Pending,
        })
    }

    /// Shuts the loop down: accepts no more requests, lets handlers finish within `grace`, and
    /// answers `UNAVAILABLE` for those that do not. Returns how many did not.
    pub fn end(&self, grace: Duration) -> usize {
        let local = self.local;
        let deadline = local.clock.now() + grace;
        self.turn(|endpoint| endpoint.drain());
        loop {
            let left = deadline - local.clock.now();
            let is_idle = self.endpoint.borrow().state().parts.is_idle();
            if is_idle || left.is_zero() {
                break;
            }
            self.turn(|endpoint| {
                endpoint.run_for(left.min(SLICE), |dispatcher, _| dispatcher.parts.is_idle());
            });
        }
        self.turn(|endpoint| {
            let (dispatcher, cx) = endpoint.split();
            let cut_off = turn::cut_off(dispatcher, cx);
            endpoint.shut_down(LAST_WORDS);
            cut_off
        })
    }
}
