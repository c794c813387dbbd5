//! Keeps schemas on disk, on a thread of its own: the loop never waits for a disk.
//!
//! Invariant: what applications can make it write is bounded in rate ([`Pace`]) and in what waits
//! for it ([`JOBS_MAX`]). What does not fit is not kept: it is sent again after the next start.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use petasos_base::{SystemClock, Time};
use petasos_service::{Digest, KnownSchema};

use super::folder::Folder;

/// The most jobs that wait.
const JOBS_MAX: usize = 64;
/// So many schemas are written at once, and one in each interval in the long run.
const WRITES_AT_ONCE: u32 = 64;
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// What the thread is told.
enum Job {
    Used(Arc<KnownSchema>),
    Forget(Digest),
}

/// The loop's end.
pub struct Keeper(SyncSender<Job>);

impl Keeper {
    /// Begins to keep schemas in a folder.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(folder: Folder) -> Result<Keeper, String> {
        let (sender, jobs) = sync_channel(JOBS_MAX);
        let thread = std::thread::Builder::new().name("petasosd-schemas".to_owned());
        let started = thread.spawn(move || keep(&folder, &jobs));
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Keeper(sender))
    }

    /// A schema was bound or loaded.
    pub fn used(&self, schema: Arc<KnownSchema>) {
        let _ = self.0.try_send(Job::Used(schema));
    }

    /// An operator has evicted a schema. Says whether its file will be removed.
    pub fn forget(&self, digest: Digest) -> bool {
        self.0.try_send(Job::Forget(digest)).is_ok()
    }
}

fn keep(folder: &Folder, jobs: &Receiver<Job>) {
    let clock = SystemClock::default();
    let (mut pace, mut was_written) = (Pace::new(clock.now()), true);
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Forget(digest) => folder.forget(digest),
            Job::Used(schema) if folder.touch(schema.digest()) => {}
            Job::Used(schema) if pace.allows(clock.now()) => {
                let written = folder.write(schema.digest(), schema.bytes());
                if let (Err(why), true) = (&written, was_written) {
                    let path = folder.path().display();
                    eprintln!("petasosd: the schema cache {path} cannot be written: {why}");
                }
                was_written = written.is_ok();
            }
            Job::Used(_) => {}
        }
    }
}

/// How much may be written.
struct Pace {
    /// When all of [`WRITES_AT_ONCE`] is there again.
    full_at: Time,
}

impl Pace {
    fn new(now: Time) -> Pace {
        Pace { full_at: now }
    }

    fn allows(&mut self, now: Time) -> bool {
        let full_at = self.full_at.max(now) + WRITE_EVERY;
        let is_allowed = full_at - now <= WRITE_EVERY * WRITES_AT_ONCE;
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_written_at_once_and_few_in_the_long_run() {
        let mut now = Time::ZERO;
        let mut pace = Pace::new(now);
        let count = |pace: &mut Pace, now| (0..1000).filter(|_| pace.allows(now)).count();
        assert_eq!(count(&mut pace, now), WRITES_AT_ONCE as usize);
        now = now + WRITE_EVERY * 3;
        assert_eq!(count(&mut pace, now), 3);
        now = now + WRITE_EVERY * 1000;
        assert_eq!(count(&mut pace, now), WRITES_AT_ONCE as usize);
    }
}
