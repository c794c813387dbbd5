//! Waiting for the signals that end a process.

use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Default)]
struct FirstSignal {
    has_come: bool,
    waker: Option<Waker>,
}

/// Waits for the first signal. A second one ends the process.
pub(super) fn next() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let signal_state = Arc::new(Mutex::new(FirstSignal::default()));
    let notified = signal_state.clone();
    let watch = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                // The second signal: the user does not want to wait.
                std::process::exit(128 + signal);
            }
            let mut signal_state = notified.lock().expect("nothing panics under the lock");
            signal_state.has_come = true;
            let waker = signal_state.waker.take();
            drop(signal_state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    };
    std::thread::Builder::new().name("petasos-signals".into()).spawn(watch)?;
    Ok(poll_fn(move |cx| {
        let waker = cx.waker().clone();
        let mut signal_state = signal_state.lock().expect("nothing panics under the lock");
        if signal_state.has_come {
            return Poll::Ready(());
        }
        let earlier = signal_state.waker.replace(waker);
        drop(signal_state);
        drop(earlier);
        Poll::Pending
    }))
}
