//! What the system asks for: SIGHUP to read the configuration again, SIGTERM and SIGINT to end.

use std::time::Duration;

use petasos_operator::notify;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin::Desk;
use crate::groups::Groups;
use crate::notices::Notices;
use crate::said::say;

/// How often to look whether all threads run, and what groups reject and drop.
const LOOK: Duration = Duration::from_secs(1);

/// Signals of the system, which are heard from when this is made.
pub struct Signals {
    runtime: Runtime,
    heard: Heard,
}

struct Heard {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What has happened.
enum News {
    End,
    Reload,
    /// For a while.
    None,
}

impl Signals {
    /// From now on, signals do not end the process.
    ///
    /// # Errors
    /// The system does not deliver them.
    pub fn listen() -> Result<Signals, String> {
        let failed = |error: std::io::Error| format!("signals are not to be had: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let context = runtime.enter();
        let of = |kind| signal(kind).map_err(failed);
        let (terminate, interrupt) = (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
        let heard = Heard { terminate, interrupt, hangup: of(SignalKind::hangup())? };
        drop(context);
        Ok(Signals { runtime, heard })
    }

    /// Waits for SIGTERM or SIGINT, and begins to end: members hear of it, and have time to go
    /// elsewhere. A second signal ends at once. Meanwhile, reads the configuration again whenever
    /// SIGHUP comes.
    ///
    /// # Errors
    /// A thread of a group has failed.
    pub fn serve(self, groups: &Groups, desk: &Desk) -> Result<(), String> {
        let Signals { runtime, mut heard } = self;
        let mut notices = Notices::default();
        runtime.block_on(async {
            loop {
                match heard.next().await {
                    News::End => break,
                    News::Reload => {
                        notify::reloading();
                        desk.reload_by_signal(groups);
                        notify::ready();
                    }
                    News::None => notices.look(groups),
                }
                if let Some(failed) = groups.failed() {
                    return Err(failed);
                }
            }
            notify::stopping();
            let drain = groups.drain();
            say(&format!("ends in {drain:?}; again to end at once"));
            let _ = tokio::time::timeout(drain, heard.end()).await;
            Ok(())
        })
    }
}

impl Heard {
    async fn next(&mut self) -> News {
        tokio::select! {
            _ = self.terminate.recv() => News::End,
            _ = self.interrupt.recv() => News::End,
            _ = self.hangup.recv() => News::Reload,
            () = tokio::time::sleep(LOOK) => News::None,
        }
    }

    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
