//! Waiting for the signals that end a process.

use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Default)]
struct Told {
    is_told: bool,
    waker: Option<Waker>,
}

/// Waits for the first signal. A second one ends the process.
pub(super) fn next() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let told = Arc::new(Mutex::new(Told::default()));
    let teller = told.clone();
    let watch = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                // The second signal: the user does not want to wait.
                std::process::exit(128 + signal);
            }
            let mut told = teller.lock().expect("nothing panics under the lock");
            told.is_told = true;
            let waker = told.waker.take();
            drop(told);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    };
    std::thread::Builder::new().name("petasos-signals".into()).spawn(watch)?;
    Ok(poll_fn(move |cx| {
        let waker = cx.waker().clone();
        let mut told = told.lock().expect("nothing panics under the lock");
        if told.is_told {
            return Poll::Ready(());
        }
        let earlier = told.waker.replace(waker);
        drop(told);
        drop(earlier);
        Poll::Pending
    }))
}
