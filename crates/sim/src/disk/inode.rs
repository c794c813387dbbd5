//! One file: what the page cache shows, what the disk has, and what is on its way.

use std::collections::BTreeSet;

use petasos_base::{Rng, Time};

use super::SECTOR_BYTES;

/// See the module.
#[derive(Default)]
pub(super) struct Inode {
    pub(super) cached: Vec<u8>,
    durable: Vec<u8>,
    /// In the order in which they were made.
    writes: Vec<Write>,
    pub(super) unreadable: BTreeSet<u64>,
    /// How often it is open.
    pub(super) open: usize,
    /// Whether it is no file at present.
    pub(super) is_free: bool,
}

/// A write, or growth if it has no bytes.
struct Write {
    /// Before this it has not begun.
    start: Time,
    /// The file has at least so many bytes before it is applied.
    grown: usize,
    at: usize,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not synced.
    Open,
    /// Synced, durable from this time on.
    Durable(Time),
    /// A sync has failed: it is in the page cache, and never gets to the disk by itself. It is one
    /// sector at most.
    Lost,
}

/// Which of the sectors that were not synced are on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Survival {
    None,
    All,
    /// The first so many that were written, in millionths of all.
    Prefix(u64),
    Any,
}

impl Survival {
    pub(super) fn random(rng: &mut Rng) -> Survival {
        match rng.below(5) {
            0 => Survival::None,
            1 => Survival::All,
            2 => Survival::Prefix(rng.below(1_000_001)),
            _ => Survival::Any,
        }
    }
}

impl Inode {
    /// A file that is durable.
    pub(super) fn holding(contents: &[u8]) -> Inode {
        let (cached, durable) = (contents.to_vec(), contents.to_vec());
        Inode { cached, durable, ..Inode::default() }
    }

    /// No file.
    pub(super) fn free() -> Inode {
        Inode { is_free: true, ..Inode::default() }
    }

    /// Writes into the page cache.
    pub(super) fn write(&mut self, start: Time, at: usize, bytes: &[u8]) {
        let grown = at + bytes.len();
        apply(&mut self.cached, grown, at, bytes);
        let first = (at / SECTOR_BYTES) as u64;
        let behind = grown.div_ceil(SECTOR_BYTES) as u64;
        self.unreadable.retain(|sector| !(first..behind).contains(sector));
        let (bytes, fate) = (bytes.to_vec(), Fate::Open);
        self.writes.push(Write { start, grown: 0, at, bytes, fate });
    }

    /// Makes the file at least that long.
    pub(super) fn grow(&mut self, start: Time, grown: usize) {
        apply(&mut self.cached, grown, 0, &[]);
        self.writes.push(Write { start, grown, at: 0, bytes: Vec::new(), fate: Fate::Open });
    }

    /// The bytes that a sync would have to write.
    pub(super) fn open_bytes(&self) -> usize {
        let open = self.writes.iter().filter(|write| write.fate == Fate::Open);
        open.map(|write| write.bytes.len()).sum()
    }

    /// A sync that is done at `finish`.
    pub(super) fn sync(&mut self, finish: Time, now: Time) {
        for write in self.writes.iter_mut().filter(|write| write.fate == Fate::Open) {
            write.fate = Fate::Durable(finish);
        }
        self.advance(now);
    }

    /// A sync that fails: the page cache takes what was not written for written.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        for write in std::mem::take(&mut self.writes) {
            if write.fate != Fate::Open {
                self.writes.push(write);
                continue;
            }
            for mut sector in write.sectors() {
                let is_lost = rng.chance(0.5);
                sector.fate = if is_lost { Fate::Lost } else { Fate::Durable(write.start) };
                self.writes.push(sector);
            }
        }
    }

    /// What has become durable is moved to the disk.
    pub(super) fn advance(&mut self, now: Time) {
        let is_due = |write: &Write| matches!(write.fate, Fate::Durable(at) if at <= now);
        if !self.writes.iter().any(is_due) {
            return;
        }
        let mut lost: Vec<Write> = Vec::new();
        let mut left = Vec::new();
        for write in std::mem::take(&mut self.writes) {
            if write.fate == Fate::Lost {
                lost.push(write);
            } else if is_due(&write) {
                // A sector that is written again goes to the disk as the page cache has it.
                let (under, others) = lost.into_iter().partition(|old| old.overlaps(&write));
                lost = others;
                let under: Vec<Write> = under;
                under.iter().chain([&write]).for_each(|write| write.apply(&mut self.durable));
            } else {
                left.push(write);
            }
        }
        lost.append(&mut left);
        self.writes = lost;
    }

    /// After a crash of the host at `now`. Gives how many sectors are lost.
    pub(super) fn crash_host(&mut self, now: Time, survival: Survival, rng: &mut Rng) -> u64 {
        self.advance(now);
        let writes = std::mem::take(&mut self.writes).into_iter();
        let begun = writes.filter(|write| write.start <= now && write.fate != Fate::Lost);
        let sectors: Vec<Write> = begun.flat_map(|write| write.sectors()).collect();
        let mut lost = 0;
        for (index, sector) in sectors.iter().enumerate() {
            let survives = match survival {
                Survival::None => false,
                Survival::All => true,
                Survival::Prefix(share) => index as u64 * 1_000_000 < share * sectors.len() as u64,
                Survival::Any => rng.chance(0.5),
            };
            if survives {
                sector.apply(&mut self.durable);
            } else {
                lost += 1;
            }
        }
        self.cached = self.durable.clone();
        lost
    }

    /// After a crash of the process at `now`: what it has not begun yet is undone.
    pub(super) fn crash_process(&mut self, now: Time) {
        self.advance(now);
        if self.writes.iter().all(|write| write.start <= now) {
            return;
        }
        self.writes.retain(|write| write.start <= now);
        self.cached = self.durable.clone();
        self.writes.iter().for_each(|write| write.apply(&mut self.cached));
    }

    /// Changes a byte wherever it is.
    pub(super) fn change(&mut self, at: usize, change: impl Fn(&mut u8)) -> bool {
        let cached = self.cached.get_mut(at).map(&change).is_some();
        if let Some(byte) = self.durable.get_mut(at) {
            *byte = self.cached.get(at).copied().unwrap_or(*byte);
        }
        cached
    }
}

impl Write {
    /// The same in sectors.
    fn sectors(&self) -> Vec<Write> {
        let Write { start, grown, fate, .. } = *self;
        let mut parts = Vec::new();
        let mut done = 0;
        while done < self.bytes.len() || parts.is_empty() {
            let at = self.at + done;
            let part = (SECTOR_BYTES - at % SECTOR_BYTES).min(self.bytes.len() - done);
            let bytes = self.bytes[done..done + part].to_vec();
            parts.push(Write { start, grown, at, bytes, fate });
            done += part;
        }
        parts
    }

    fn apply(&self, to: &mut Vec<u8>) {
        let end = if self.bytes.is_empty() { 0 } else { self.at + self.bytes.len() };
        apply(to, self.grown.max(end), self.at, &self.bytes);
    }

    /// Whether both write to one sector.
    fn overlaps(&self, other: &Write) -> bool {
        let sectors = |write: &Write| {
            let end = write.at + write.bytes.len();
            (write.at / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES))
        };
        let ((a, a_end), (b, b_end)) = (sectors(self), sectors(other));
        a < b_end && b < a_end && !self.bytes.is_empty() && !other.bytes.is_empty()
    }
}

fn apply(to: &mut Vec<u8>, grown: usize, at: usize, bytes: &[u8]) {
    if to.len() < grown {
        to.resize(grown, 0);
    }
    if !bytes.is_empty() {
        to[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
