//! A simulated disk with files, which breaks every promise that a real one breaks.
//!
//! It is what [`petasos_journal::Files`] asks of a system. What is written is seen at once (the
//! system's page cache), and is durable after a sync only. A crash of the host ([`Crash::Host`])
//! leaves, of what was not synced, nothing, all, a part from the beginning, or any of the sectors
//! that were written: lost and reordered as the generator decides. A crash of the process leaves
//! everything.
//!
//! On demand syncs fail, once each: what they were to write is lost or not, by sectors, and from
//! then on the page cache shows it as if it were there, until the host crashes. The disk gets full,
//! bits flip, sectors become unreadable, and it can lie: acknowledge a sync and do nothing.
//!
//! It takes time as a number: operations return at once, and [`SimDisk::done_at`] says when they
//! are done. Until then a crash treats them as under way, and those that were not begun yet
//! ([`DiskTiming`]) as if they had not been asked for. Whoever uses it tells it the time
//! ([`SimDisk::set_now`]).
//!
//! Invariant: one seed and one sequence of calls give one disk. Nothing here knows what the files
//! are for.

mod directory;
mod files;
mod inode;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_base::Time;

pub use files::{SimFile, SimFiles, SimLock};
use state::State;

/// The unit that is written as a whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process only: what it has written is in the page cache.
    Process,
    /// The host: what was not synced is there or not.
    Host,
}

/// A disk that does not do what it says. These are bugs of whoever writes, too: acknowledging
/// before a sync is the same as a sync that does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lies {
    /// Syncs of files whose names contain this succeed, and do nothing.
    pub syncs_of: Option<&'static str>,
    /// Syncs of the directory succeed, and do nothing.
    pub directory_syncs: bool,
    /// A sync that fails is tried again, which succeeds: whoever asked does not hear of it.
    pub failed_syncs: bool,
}

/// How long the disk takes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTiming {
    /// To take a write.
    pub write_nanos: u64,
    /// For a sync, at least.
    pub sync_nanos: u64,
    /// And at random as much more, at most.
    pub sync_jitter_nanos: u64,
    /// For each KiB that a sync makes durable.
    pub kib_nanos: u64,
}

/// What has been done to a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Everything that can change it: writes, syncs, and changes of names.
    pub operations: u64,
    /// Of these, syncs, of files and the directory.
    pub syncs: u64,
    /// Syncs that have failed.
    pub failed_syncs: u64,
    /// Sectors that a crash of the host has lost.
    pub lost_sectors: u64,
}

/// A disk. A clone is the same one.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(State::new(seed))) }
    }

    /// The disk for the process that runs now. After a crash, a new one is needed.
    pub fn files(&self) -> SimFiles {
        SimFiles::new(self.clone(), self.lock().life())
    }

    /// Ends the process, and brings the host up again if it was down.
    pub fn crash(&self, crash: Crash) {
        self.lock().crash(crash);
    }

    /// Lets the host go down in the `operations`-th next operation, which is done in part: it and
    /// all that follow fail until [`SimDisk::crash`]. 0 takes it back.
    pub fn crash_in(&self, operations: u64) {
        self.lock().crash_in = operations;
    }

    /// Whether the host has gone down.
    pub fn is_down(&self) -> bool {
        self.lock().is_down
    }

    /// Lets the `syncs`-th next sync fail. 0 takes it back.
    pub fn fail_sync_in(&self, syncs: u64) {
        self.lock().fail_sync_in = syncs;
    }

    /// Lets the next sync fail of a file whose name contains `part`.
    pub fn fail_sync_of(&self, part: &'static str) {
        self.lock().fail_sync_of = Some(part);
    }

    /// Files cannot have more than so many bytes together. Those that do stay as they are.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().capacity_bytes = bytes;
    }

    /// The bytes that files have.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// What the disk lies about.
    pub fn set_lies(&self, lies: Lies) {
        self.lock().lies = lies;
    }

    /// How long it takes from now on.
    pub fn set_timing(&self, timing: DiskTiming) {
        self.lock().timing = timing;
    }

    /// The time.
    ///
    /// # Panics
    /// If it runs backwards.
    pub fn set_now(&self, now: Time) {
        self.lock().set_now(now);
    }

    /// When everything is done that was asked for.
    pub fn done_at(&self) -> Time {
        self.lock().busy_until
    }

    /// Flips a bit of a file, on the disk and in the page cache. Gives whether there is such a bit.
    pub fn flip(&self, name: &str, bit: u64) -> bool {
        self.lock().change(name, bit / 8, |byte| *byte ^= 1 << (bit % 8))
    }

    /// Replaces bytes of a file, on the disk and in the page cache, as far as it has them.
    pub fn edit(&self, name: &str, at: u64, bytes: &[u8]) {
        let mut state = self.lock();
        for (at, new) in (at..).zip(bytes) {
            state.change(name, at, |byte| *byte = *new);
        }
    }

    /// Makes a sector unreadable until it is written.
    pub fn lose_sector(&self, name: &str, sector: u64) {
        self.lock().lose_sector(name, sector);
    }

    /// What a file has, as the page cache shows it.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().contents(name)
    }

    /// Makes a durable file, or replaces one.
    pub fn put(&self, name: &str, contents: &[u8]) {
        self.lock().put(name, contents);
    }

    /// Takes a file's name away, durably.
    pub fn take_away(&self, name: &str) {
        self.lock().take_away(name);
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.lock().names()
    }

    /// What has been done to it.
    pub fn stats(&self) -> DiskStats {
        self.lock().stats
    }

    /// A test that has failed in the middle of something has no use for the disk any more.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
