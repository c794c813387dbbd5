//! Telling code that works on a call that nobody waits for the answer any more (R11).
//!
//! A call that other threads may ask about has a [`CancelState`], which says whether the call is
//! over. Calls on workers and gRPC calls have one from the start, in their origin. A handler in a
//! loop has none until it asks; then the loop keeps it with the handler's task (the runtime's
//! `watches`). So a handler that never asks pays nothing.
//!
//! Invariant: no code of the application (a waker) runs under the lock.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::sync::{AtomicBool, Ordering};
use petasos_base::{Clock, Time};

/// A future that is ready when a call is over for its handler: the caller has given it up or is
/// gone, its deadline has passed, or the server shuts down. It is also ready once the handler has
/// answered, so that nobody waits for ever.
///
/// It may move to any thread. A handler itself is dropped at its next await when its call is over;
/// use this for code that blocks or computes, and for work that a handler has started elsewhere.
#[derive(Clone)]
#[must_use = "it tells nothing unless it is asked or awaited"]
pub struct Cancelled {
    call: Option<Arc<dyn Cancellable>>,
    /// The call's deadline. Checked here too, because the thread that would report it may be busy.
    deadline: Time,
    place: Place,
}

/// The place of a waker in the list of its [`CancelState`].
#[derive(Default)]
struct Place(Option<u64>);

/// A clone has its own waker.
impl Clone for Place {
    fn clone(&self) -> Place {
        Place(None)
    }
}

impl Cancelled {
    #[doc(hidden)]
    pub fn new(call: Option<Arc<dyn Cancellable>>, deadline: Time) -> Cancelled {
        Cancelled { call, deadline, place: Place::default() }
    }

    /// Whether the call is over. It is cheap enough to be called in a computing loop.
    pub fn is_cancelled(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.state().is_over()) || is_late(self.deadline)
    }
}

/// Ready when the call is over.
impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Cancelled { call, place, .. } = &mut *self;
        match call {
            Some(call) => call.state().poll(&mut place.0, cx.waker()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let (Some(call), Some(place)) = (&self.call, self.place.0) {
            call.state().forget(place);
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// A part of a call that knows whether the call is over.
pub trait Cancellable: Send + Sync {
    /// The state of the call.
    fn state(&self) -> &CancelState;
}

/// Whether a call is over.
#[derive(Default)]
pub struct CancelState {
    is_over: AtomicBool,
    wakers: Mutex<Wakers>,
}

#[derive(Default)]
struct Wakers {
    next: u64,
    list: Vec<(u64, Waker)>,
}

impl Cancellable for CancelState {
    fn state(&self) -> &CancelState {
        self
    }
}

impl CancelState {
    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the call is over.
    pub fn is_over(&self) -> bool {
        // Acquire: pairs with the release in `end`, so that a thread that sees the end also sees
        // what came before it.
        self.is_over.load(Ordering::Acquire)
    }

    /// Marks the call as over, and wakes those who wait for that.
    pub fn end(&self) {
        // Release: pairs with the acquire in `is_over`. The flag is set before the list of wakers
        // is taken, and a waker is added only after checking the flag under the list's lock, so
        // none is added too late.
        self.is_over.store(true, Ordering::Release);
        let wakers = core::mem::take(&mut self.wakers().list);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn poll(&self, place: &mut Option<u64>, waker: &Waker) -> Poll<()> {
        let waker = waker.clone();
        let mut wakers = self.wakers();
        if self.is_over() {
            drop(wakers);
            return Poll::Ready(());
        }
        let at = *place.get_or_insert(wakers.next);
        let earlier = match wakers.list.iter_mut().find(|(of, _)| *of == at) {
            Some((_, earlier)) => Some(core::mem::replace(earlier, waker)),
            None => {
                wakers.next += 1;
                wakers.list.push((at, waker));
                None
            }
        };
        drop(wakers);
        drop(earlier);
        Poll::Pending
    }

    fn forget(&self, place: u64) {
        let mut wakers = self.wakers();
        let at = wakers.list.iter().position(|(of, _)| *of == place);
        let earlier = at.map(|at| wakers.list.swap_remove(at));
        drop(wakers);
        drop(earlier);
    }
}

/// Whether a deadline of the system's clock has passed.
pub fn is_late(deadline: Time) -> bool {
    deadline != Time::NEVER && Clock::system().now() >= deadline
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use std::task::Wake;

    use petasos_base::sync::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn all_who_wait_are_woken_once_and_those_that_are_gone_are_not() {
        let state = Arc::<CancelState>::default();
        let cancelled = Cancelled::new(Some(state.clone()), Time::NEVER);
        let counts: [Arc<Count>; 3] = Default::default();
        let wakers = counts.each_ref().map(|count| Waker::from(count.clone()));
        let poll = |future: &mut Cancelled, waker: &Waker| {
            pin!(future).poll(&mut Context::from_waker(waker)).is_ready()
        };
        let [mut first, mut second, mut gone] = [(); 3].map(|()| cancelled.clone());
        assert!(!poll(&mut first, &wakers[0]) && !poll(&mut second, &wakers[1]));
        // Polled again, with another waker.
        assert!(!poll(&mut gone, &wakers[1]) && !poll(&mut gone, &wakers[2]));
        drop(gone);
        assert!(!cancelled.is_cancelled());
        state.end();
        assert!(cancelled.is_cancelled() && poll(&mut first, &wakers[0]));
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 1, 0]);
    }
}
