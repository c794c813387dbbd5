//! What the system asks for: SIGHUP to read the configuration again, SIGTERM and SIGINT to end.

use std::time::Duration;

use petasos_operator::notify;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin::Desk;
use crate::groups::Groups;
use crate::said::say;

/// How often to look whether all threads run.
const LOOK: Duration = Duration::from_secs(1);

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What has happened.
enum Heard {
    End,
    Reload,
    /// Nothing, for a while.
    Nothing,
}

/// Waits for SIGTERM or SIGINT, and begins to end: members hear of it, and have time to go
/// elsewhere. A second signal ends at once. Meanwhile, reads the configuration again whenever
/// SIGHUP comes.
///
/// # Errors
/// The system does not deliver signals, or a thread of a group has failed.
pub fn serve(groups: &Groups, desk: &Desk) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals are not to be had: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        let of = |kind| signal(kind).map_err(failed);
        let (terminate, interrupt) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
        let mut signals = Signals { terminate, interrupt, hangup: of(SignalKind::hangup())? };
        loop {
            match signals.next(LOOK).await {
                Heard::End => break,
                Heard::Reload => {
                    notify::reloading();
                    desk.reload_by_signal(groups);
                    notify::ready();
                }
                Heard::Nothing => {}
            }
            if let Some(failed) = groups.failed() {
                return Err(failed);
            }
        }
        let drain = groups.drain();
        say(&format!("ends in {drain:?}; again to end at once"));
        let _ = tokio::time::timeout(drain, signals.end()).await;
        Ok(())
    })
}

impl Signals {
    async fn next(&mut self, patience: Duration) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => Heard::End,
            _ = self.interrupt.recv() => Heard::End,
            _ = self.hangup.recv() => Heard::Reload,
            () = tokio::time::sleep(patience) => Heard::Nothing,
        }
    }

    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
