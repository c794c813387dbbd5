//! Two wakers for one stream of HTTP/2.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Wakes two tasks that wait for a stream, for which `h2` keeps one waker per direction. It does
/// not refer to a stream, because a stream that is never woken again must not keep itself alive.
#[derive(Default)]
pub struct Wakers(Mutex<[Option<Waker>; 2]>);

impl Wakers {
    /// Registers a waiting task in place 0 or 1, and returns the waker for `h2`.
    pub fn wait(self: &Arc<Wakers>, place: usize, cx: &Context<'_>) -> Waker {
        let slot = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner)[place];
        match slot {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *slot = Some(cx.waker().clone()),
        }
        Waker::from(self.clone())
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}
