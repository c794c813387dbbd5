//! The disk's state, and what each operation does to it.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use petasos_base::{Rng, Time};
use petasos_journal::FileError;

use super::directory::{Directory, What};
use super::inode::{Inode, Survival};
use super::{Crash, DiskStats, DiskTiming, Lies, SECTOR_BYTES};

/// See the module.
pub(super) struct State {
    rng: Rng,
    inodes: Vec<Inode>,
    directory: Directory,
    /// Files that are locked, by the number of the lock.
    locks: BTreeMap<String, u64>,
    locks_taken: u64,
    life: u64,
    now: Time,
    /// The last operation is done then.
    pub(super) busy_until: Time,
    pub(super) timing: DiskTiming,
    pub(super) capacity_bytes: u64,
    pub(super) lies: Lies,
    pub(super) crash_in: u64,
    pub(super) fail_sync_in: u64,
    pub(super) fail_sync_of: Option<&'static str>,
    pub(super) is_down: bool,
    pub(super) stats: DiskStats,
}

/// Whether the host goes down in an operation, which is then done in part.
type GoesDown = bool;

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            rng: Rng::new(seed),
            inodes: Vec::new(),
            directory: Directory::default(),
            locks: BTreeMap::new(),
            locks_taken: 0,
            life: 0,
            now: Time::ZERO,
            busy_until: Time::ZERO,
            timing: DiskTiming::default(),
            capacity_bytes: u64::MAX,
            lies: Lies::default(),
            crash_in: 0,
            fail_sync_in: 0,
            fail_sync_of: None,
            is_down: false,
            stats: DiskStats::default(),
        }
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    pub(super) fn set_now(&mut self, now: Time) {
        assert!(now >= self.now, "time never runs backwards");
        self.now = now;
        self.busy_until = self.busy_until.max(now);
        self.inodes.iter_mut().for_each(|inode| inode.advance(now));
        self.directory.advance(now);
    }

    pub(super) fn crash(&mut self, crash: Crash) {
        if crash == Crash::Host || self.is_down {
            self.crash_host();
        } else {
            self.inodes.iter_mut().for_each(|inode| inode.crash_process(self.now));
            self.directory.crash_process(self.now);
        }
        self.life += 1;
        self.locks.clear();
        self.busy_until = self.now;
        (self.crash_in, self.fail_sync_in, self.is_down) = (0, 0, false);
        self.fail_sync_of = None;
        for number in 0..self.inodes.len() {
            self.inodes[number].open = 0;
            self.reclaim(number);
        }
    }

    fn crash_host(&mut self) {
        let survival = Survival::random(&mut self.rng);
        for inode in &mut self.inodes {
            self.stats.lost_sectors += inode.crash_host(self.now, survival, &mut self.rng);
        }
        let survival = Survival::random(&mut self.rng);
        self.directory.crash_host(self.now, survival, &mut self.rng);
    }

    /// Every call of a process begins here.
    fn check(&self, life: u64) -> Result<(), FileError> {
        let is_dead = self.is_down || life != self.life;
        if is_dead { Err(down()) } else { Ok(()) }
    }

    /// Every operation begins here.
    fn begin(&mut self, life: u64) -> Result<GoesDown, FileError> {
        self.check(life)?;
        self.stats.operations += 1;
        self.is_down = self.crash_in == 1;
        self.crash_in = self.crash_in.saturating_sub(1);
        Ok(self.is_down)
    }

    /// Lets time pass for an operation. Gives when it begins.
    fn take(&mut self, nanos: u64) -> Time {
        let start = self.busy_until.max(self.now);
        self.busy_until = start.plus_nanos(nanos);
        start
    }

    pub(super) fn create(&mut self, life: u64, name: &str) -> Result<usize, FileError> {
        let goes_down = self.begin(life)?;
        if self.directory.cached.contains_key(name) {
            return Err(FileError::Exists);
        }
        let number = self.new_inode();
        self.rename_step(What::Link(name.to_owned(), number));
        self.inodes[number].open += 1;
        whole(goes_down).map(|()| number)
    }

    pub(super) fn open(&mut self, life: u64, name: &str) -> Result<usize, FileError> {
        self.check(life)?;
        let number = self.find(name)?;
        self.inodes[number].open += 1;
        Ok(number)
    }

    pub(super) fn close(&mut self, life: u64, number: usize) {
        if life == self.life {
            self.inodes[number].open -= 1;
            self.reclaim(number);
        }
    }

    pub(super) fn rename(&mut self, life: u64, from: &str, to: &str) -> Result<(), FileError> {
        let goes_down = self.begin(life)?;
        let number = self.find(from)?;
        self.rename_step(What::Rename(from.to_owned(), to.to_owned(), number));
        whole(goes_down)
    }

    pub(super) fn remove(&mut self, life: u64, name: &str) -> Result<(), FileError> {
        let goes_down = self.begin(life)?;
        self.find(name)?;
        self.rename_step(What::Unlink(name.to_owned()));
        whole(goes_down)
    }

    fn rename_step(&mut self, what: What) {
        let start = self.take(self.timing.write_nanos);
        self.directory.change(start, what);
    }

    pub(super) fn list(&self, life: u64) -> Result<Vec<String>, FileError> {
        self.check(life).map(|()| self.names())
    }

    pub(super) fn sync_directory(&mut self, life: u64) -> Result<(), FileError> {
        whole(self.begin(life)?)?;
        self.stats.syncs += 1;
        if self.lies.directory_syncs {
            return Ok(());
        }
        if self.sync_fails() {
            return if self.lies.failed_syncs { Ok(()) } else { Err(sync_error()) };
        }
        let finish = self.sync_finish(0);
        self.directory.sync(finish, self.now);
        (0..self.inodes.len()).for_each(|number| self.reclaim(number));
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        life: u64,
        number: usize,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), FileError> {
        let goes_down = self.begin(life)?;
        let end = at + bytes.len() as u64;
        self.ask_space(number, end)?;
        let start = self.take(self.timing.write_nanos);
        self.inodes[number].write(start, at as usize, bytes);
        whole(goes_down)
    }

    pub(super) fn grow(&mut self, life: u64, number: usize, end: u64) -> Result<(), FileError> {
        let goes_down = self.begin(life)?;
        self.ask_space(number, end)?;
        let start = self.take(self.timing.write_nanos);
        self.inodes[number].grow(start, end as usize);
        whole(goes_down)
    }

    fn ask_space(&self, number: usize, end: u64) -> Result<(), FileError> {
        let more = end.saturating_sub(self.inodes[number].cached.len() as u64);
        let is_full = more > 0 && self.used_bytes() + more > self.capacity_bytes;
        if is_full { Err(FileError::NoSpace) } else { Ok(()) }
    }

    pub(super) fn read(
        &self,
        life: u64,
        number: usize,
        at: u64,
        bytes: &mut [u8],
    ) -> Result<usize, FileError> {
        self.check(life)?;
        let inode = &self.inodes[number];
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(inode.cached.len());
        let part = bytes.len().min(inode.cached.len() - from);
        let sectors = from / SECTOR_BYTES..(from + part).div_ceil(SECTOR_BYTES);
        if inode.unreadable.iter().any(|sector| sectors.contains(&(*sector as usize))) {
            return Err(FileError::other(ErrorKind::Other, "a sector cannot be read"));
        }
        bytes[..part].copy_from_slice(&inode.cached[from..from + part]);
        Ok(part)
    }

    pub(super) fn bytes(&self, life: u64, number: usize) -> Result<u64, FileError> {
        self.check(life).map(|()| self.inodes[number].cached.len() as u64)
    }

    pub(super) fn sync(&mut self, life: u64, number: usize) -> Result<(), FileError> {
        whole(self.begin(life)?)?;
        self.stats.syncs += 1;
        if self.lies.syncs_of.is_some_and(|part| self.has_name(number, part)) {
            return Ok(());
        }
        if self.fail_sync_of.is_some_and(|part| self.has_name(number, part)) {
            (self.fail_sync_in, self.fail_sync_of) = (1, None);
        }
        if self.sync_fails() {
            let inode = &mut self.inodes[number];
            inode.fail_sync(&mut self.rng);
            inode.advance(self.now);
            return if self.lies.failed_syncs { Ok(()) } else { Err(sync_error()) };
        }
        let finish = self.sync_finish(self.inodes[number].open_bytes());
        self.inodes[number].sync(finish, self.now);
        Ok(())
    }

    fn has_name(&self, number: usize, part: &str) -> bool {
        self.directory.cached.iter().any(|(name, inode)| *inode == number && name.contains(part))
    }

    fn sync_fails(&mut self) -> bool {
        let fails = self.fail_sync_in == 1;
        self.fail_sync_in = self.fail_sync_in.saturating_sub(1);
        self.stats.failed_syncs += u64::from(fails);
        fails
    }

    fn sync_finish(&mut self, bytes: usize) -> Time {
        let DiskTiming { sync_nanos, sync_jitter_nanos, kib_nanos, .. } = self.timing;
        let jitter = match sync_jitter_nanos {
            0 => 0,
            jitter => self.rng.below(jitter),
        };
        self.take(sync_nanos + jitter + kib_nanos * (bytes as u64).div_ceil(1024));
        self.busy_until
    }

    pub(super) fn lock(&mut self, life: u64, name: &str) -> Result<u64, FileError> {
        if self.find(name).is_err() {
            let number = self.create(life, name)?;
            self.close(life, number);
        }
        self.check(life)?;
        if self.locks.contains_key(name) {
            return Err(FileError::Locked);
        }
        self.locks_taken += 1;
        self.locks.insert(name.to_owned(), self.locks_taken);
        Ok(self.locks_taken)
    }

    pub(super) fn is_locked(&self, life: u64, name: &str) -> Result<bool, FileError> {
        self.check(life).map(|()| self.locks.contains_key(name))
    }

    pub(super) fn unlock(&mut self, lock: u64) {
        self.locks.retain(|_, held| *held != lock);
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.inodes.iter().map(|inode| inode.cached.len() as u64).sum()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.directory.cached.keys().cloned().collect()
    }

    pub(super) fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.find(name).ok().map(|number| self.inodes[number].cached.clone())
    }

    pub(super) fn change(&mut self, name: &str, at: u64, change: impl Fn(&mut u8)) -> bool {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.find(name).is_ok_and(|number| self.inodes[number].change(at, change))
    }

    pub(super) fn lose_sector(&mut self, name: &str, sector: u64) {
        if let Ok(number) = self.find(name) {
            self.inodes[number].unreadable.insert(sector);
        }
    }

    pub(super) fn put(&mut self, name: &str, contents: &[u8]) {
        let number = self.new_inode();
        self.inodes[number] = Inode::holding(contents);
        self.directory.force(&What::Link(name.to_owned(), number));
    }

    pub(super) fn take_away(&mut self, name: &str) {
        self.directory.force(&What::Unlink(name.to_owned()));
    }

    fn find(&self, name: &str) -> Result<usize, FileError> {
        self.directory.cached.get(name).copied().ok_or(FileError::NotFound)
    }

    fn new_inode(&mut self) -> usize {
        let is_free = |inode: &Inode| inode.is_free;
        if let Some(free) = self.inodes.iter().position(is_free) {
            self.inodes[free].is_free = false;
            return free;
        }
        self.inodes.push(Inode::default());
        self.inodes.len() - 1
    }

    /// Gives the space of a file back that has no name and is not open.
    fn reclaim(&mut self, number: usize) {
        if self.inodes[number].open == 0 && !self.directory.refers_to(number) {
            self.inodes[number] = Inode::free();
        }
    }
}

fn whole(goes_down: GoesDown) -> Result<(), FileError> {
    if goes_down { Err(down()) } else { Ok(()) }
}

fn down() -> FileError {
    FileError::other(ErrorKind::Other, "the host is down")
}

fn sync_error() -> FileError {
    FileError::other(ErrorKind::Other, "the disk has not taken it")
}
