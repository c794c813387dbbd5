//! A flag that ends a server's turn, for loops that poll it and tasks that await it.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use petasos_base::sync::{AtomicBool, Ordering};

/// The thread that reads the commands sets it; the serving thread takes it.
#[derive(Debug, Default)]
pub struct Stop {
    raised: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Stop {
    /// Ends the turn.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        if let Some(waker) = self.waker.lock().expect("nothing panics under the lock").take() {
            waker.wake();
        }
    }

    /// Whether the turn is over. This resets the flag for the next turn.
    pub fn take(&self) -> bool {
        self.raised.load(Ordering::Acquire) && self.raised.swap(false, Ordering::AcqRel)
    }

    /// Waits for the end of the turn.
    pub async fn raised(&self) {
        poll_fn(|cx| {
            if self.take() {
                return Poll::Ready(());
            }
            // Store the waker before checking the flag again, so that a concurrent `raise` wakes
            // it.
            let mut waker = self.waker.lock().expect("nothing panics under the lock");
            *waker = Some(cx.waker().clone());
            drop(waker);
            if self.take() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
