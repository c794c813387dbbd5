//! The two ways to wait: blocking the calling thread, or a callback.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use petasos::Status;
use petasos_base::Clock;

use crate::failure::{PETASOS_PENDING, PETASOS_TIMED_OUT, petasos_code};
use crate::notifier::{For, Notifier, Sleeper, Waiter, petasos_waker};

type Polled = Poll<Result<petasos_code, Status>>;

/// Polls once. If there is nothing yet, registers the program's callback.
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

/// Polls until there is a result, for at most the given time; a negative value means no limit.
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
