//! The two ways to wait: on the thread that asks, or by a callback.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use petasos::Status;
use petasos_base::Clock;

use crate::failure::{PETASOS_PENDING, PETASOS_TIMED_OUT, petasos_code};
use crate::notifier::{For, Notifier, Sleeper, Waiter, petasos_waker};

type Polled = Poll<Result<petasos_code, Status>>;

/// Looks once, and has the program called when it is time to look again.
pub(crate) fn poll(
    notifier: &Arc<Notifier>,
    what: For,
    waker: petasos_waker,
    look: impl FnOnce(&mut Context<'_>) -> Polled,
) -> Result<petasos_code, Status> {
    notifier.add(what, Waiter::Program(waker));
    let rust = Waker::from(notifier.clone());
    match look(&mut Context::from_waker(&rust)) {
        Poll::Pending => Ok(PETASOS_PENDING),
        Poll::Ready(result) => {
            notifier.leave(what, None);
            result
        }
    }
}

/// Looks until there is something, for at most so long; less than 0 is for ever.
pub(crate) fn block(
    notifier: &Arc<Notifier>,
    what: For,
    timeout_us: i64,
    mut look: impl FnMut(&mut Context<'_>) -> Polled,
) -> Result<petasos_code, Status> {
    let clock = Clock::system();
    let timeout = u64::try_from(timeout_us).ok().map(Duration::from_micros);
    let deadline = timeout.map(|timeout| clock.now() + timeout);
    let sleeper = Arc::new(Sleeper::default());
    let rust = Waker::from(notifier.clone());
    loop {
        notifier.add(what, Waiter::Thread(sleeper.clone()));
        if let Poll::Ready(result) = look(&mut Context::from_waker(&rust)) {
            notifier.leave(what, Some(&sleeper));
            return result;
        }
        let now = clock.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            notifier.leave(what, Some(&sleeper));
            return Ok(PETASOS_TIMED_OUT);
        }
        sleeper.sleep(deadline.map(|deadline| deadline - now));
        notifier.leave(what, Some(&sleeper));
    }
}
