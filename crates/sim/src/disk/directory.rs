//! The names of files: what the page cache shows, what the disk has, and changes on their way.

use std::collections::BTreeMap;

use petasos_base::{Rng, Time};

use super::inode::Survival;

/// Names and the numbers of their files.
type Names = BTreeMap<String, usize>;

/// See the module.
#[derive(Default)]
pub(super) struct Directory {
    pub(super) cached: Names,
    durable: Names,
    changes: Vec<Change>,
}

struct Change {
    start: Time,
    durable_at: Option<Time>,
    what: What,
}

/// One change is made as a whole or not at all.
pub(super) enum What {
    /// A file has a name.
    Link(String, usize),
    /// A name is gone.
    Unlink(String),
    /// A file has another name, whose file is gone.
    Rename(String, String, usize),
}

impl What {
    fn apply(&self, names: &mut Names) {
        match self {
            What::Link(name, inode) => drop(names.insert(name.clone(), *inode)),
            What::Unlink(name) => drop(names.remove(name)),
            What::Rename(from, to, inode) => {
                // The file may have its old name from another change, or not at all.
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }
}

impl Directory {
    pub(super) fn change(&mut self, start: Time, what: What) {
        what.apply(&mut self.cached);
        self.changes.push(Change { start, durable_at: None, what });
    }

    /// A sync that is done at `finish`.
    pub(super) fn sync(&mut self, finish: Time, now: Time) {
        for change in &mut self.changes {
            change.durable_at = change.durable_at.or(Some(finish));
        }
        self.advance(now);
    }

    /// What has become durable is moved to the disk.
    pub(super) fn advance(&mut self, now: Time) {
        let is_due = |change: &Change| change.durable_at.is_some_and(|at| at <= now);
        for change in self.changes.iter().filter(|change| is_due(change)) {
            change.what.apply(&mut self.durable);
        }
        self.changes.retain(|change| !is_due(change));
    }

    /// After a crash of the host at `now`.
    pub(super) fn crash_host(&mut self, now: Time, survival: Survival, rng: &mut Rng) {
        self.advance(now);
        let begun: Vec<Change> =
            std::mem::take(&mut self.changes).into_iter().filter(|c| c.start <= now).collect();
        for (index, change) in begun.iter().enumerate() {
            let survives = match survival {
                Survival::None => false,
                Survival::All => true,
                Survival::Prefix(share) => index as u64 * 1_000_000 < share * begun.len() as u64,
                Survival::Any => rng.chance(0.5),
            };
            if survives {
                change.what.apply(&mut self.durable);
            }
        }
        self.cached = self.durable.clone();
    }

    /// After a crash of the process at `now`.
    pub(super) fn crash_process(&mut self, now: Time) {
        self.advance(now);
        self.changes.retain(|change| change.start <= now);
        self.cached = self.durable.clone();
        self.changes.iter().for_each(|change| change.what.apply(&mut self.cached));
    }

    /// Whether any name, on the disk or on its way, is of that file.
    pub(super) fn refers_to(&self, number: usize) -> bool {
        let is_changed = |change: &Change| match change.what {
            What::Link(_, inode) | What::Rename(_, _, inode) => inode == number,
            What::Unlink(_) => false,
        };
        self.cached.values().chain(self.durable.values()).any(|inode| *inode == number)
            || self.changes.iter().any(is_changed)
    }

    /// Makes `what` durable at once.
    pub(super) fn force(&mut self, what: &What) {
        what.apply(&mut self.cached);
        what.apply(&mut self.durable);
    }
}
