//! Opens a journal after whatever has ended the last process (QR19).

use std::collections::VecDeque;

use super::create::lock;
use super::{Config, Journal};
use crate::error::Doing;
use crate::segment::{self, Segment};
use crate::spare::is_spare;
use crate::state::StateFile;
use crate::survey::{Survey, judge, survey};
use crate::{Error, Files, Identity, snapshot};

impl<F: Files> Journal<F> {
    /// Opens the journal of this member. What it has then is durable: a record behind the durable
    /// mark that is not whole is cut off, with what follows it.
    ///
    /// # Errors
    /// [`crate::IdentityError`] if the directory is another's, in use, newer or unreadable;
    /// [`Error::Damage`] if something durable is not as it was; errors of files.
    ///
    /// # Panics
    /// If `config` is not possible: the caller's fault.
    pub fn open(files: F, identity: Identity, config: Config) -> Result<Journal<F>, Error> {
        config.check();
        identity.check(&files)?;
        let lock = lock(&files)?;
        let state = StateFile::open(&files)?;
        let Survey { segments, stale } = survey(&files, identity, |name| files.open(name))?;
        let snapshot = snapshot::newest_index(&files)?;
        let scans = segments.iter().map(|(_, scan)| scan);
        judge(scans, state.stored.last_segment, snapshot)?;
        let segments = segments.into_iter().map(|(file, scan)| Segment::scanned(file, scan));
        let mut journal = Journal {
            files,
            identity,
            config,
            segments: segments.collect::<VecDeque<_>>(),
            spares: VecDeque::new(),
            spares_begun: 0,
            state,
            failed: None,
            durable: 0,
            buffer: Vec::new(),
            _lock: lock,
        };
        journal.remove_leftovers(&stale)?;
        journal.last_mut().repair()?;
        let last = journal.last().header.number;
        if journal.state.stored.last_segment < last {
            journal.state.set_last_segment(last)?;
        }
        journal.durable = journal.next_place() - 1;
        Ok(journal)
    }

    /// Removes what the last process was not done with: segments that were to be removed, spares,
    /// unfinished and old snapshots. What it has renamed and not synced is made durable.
    fn remove_leftovers(&mut self, stale: &[u64]) -> Result<(), Error> {
        self.files.sync_directory().or_failed("syncing", ".")?;
        for number in stale {
            let name = segment::name(*number);
            self.files.remove(&name).or_failed("removing", &name)?;
            self.files.sync_directory().or_failed("syncing", ".")?;
        }
        for name in self.files.list().doing("listing", ".")? {
            if is_spare(&name) {
                self.files.remove(&name).doing("removing", &name)?;
            }
        }
        snapshot::remove_leftovers(&self.files)?;
        snapshot::remove_old(&self.files, self.config.snapshots_kept)
    }
}
