//! What ends a server: a signal, the end of its standard input, or a failure.

use std::io::{self, Read};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::output;

/// The reason for the end.
pub type End = Result<&'static str, Failure>;

/// Starts a thread that reports the first signal to end. The second one ends the process at once.
///
/// # Errors
/// If signals cannot be awaited, or there can be no thread.
pub fn watch_signals(ends: Sender<End>) -> Result<(), Failure> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|e| Failure::new(format!("cannot await signals: {e}")))?;
    let watch = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                // The second signal: the user does not want to wait.
                std::process::exit(128 + signal);
            }
            let reason = if signal == SIGINT { "interrupted" } else { "told to stop" };
            // If sending fails, the process is already ending.
            let _ = ends.send(Ok(reason));
        }
    };
    spawn("petasos-signals", watch).map(drop)
}

/// Starts a thread that reports when standard input has ended: for a server that must not outlive
/// its parent.
pub fn watch_stdin(ends: Sender<End>) {
    let watch = move || {
        let mut sink = [0; 256];
        // An error also counts as the end of input.
        while io::stdin().read(&mut sink).is_ok_and(|read| read > 0) {}
        let _ = ends.send(Ok("standard input has ended"));
    };
    if let Err(failure) = spawn("petasos-stdin", watch) {
        output::note(&format!("petasos: {failure}"));
    }
}

/// Starts a thread with a name.
///
/// # Errors
/// If there can be no more.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(run);
    spawned.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}
