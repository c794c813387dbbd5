//! Taking records away: conflicting ones at the end, those that a snapshot has at the beginning.

use super::Journal;
use crate::error::Doing;
use crate::snapshot;
use crate::{Error, Files};

impl<F: Files> Journal<F> {
    /// Takes the records from `place` on away. When it returns, they do not come back; a crash
    /// meanwhile leaves some of the first of them, or none.
    ///
    /// # Errors
    /// [`Error::NotThere`] if the log begins behind `place`, or ends before it;
    /// [`Error::Failed`] is final.
    pub fn truncate(&mut self, place: u64) -> Result<(), Error> {
        self.working(|journal| {
            let (first, next) = (journal.first_place(), journal.next_place());
            if !(first..=next).contains(&place) {
                return Err(Error::NotThere { place, first, last: next - 1 });
            }
            let keep = journal.segments.partition_point(|one| one.header.first_place <= place);
            if keep < journal.segments.len() {
                let number = journal.segments[keep - 1].header.number;
                journal.state.set_last_segment(number)?;
            }
            // From the last one on: a crash leaves no gap.
            while journal.segments.len() > keep {
                journal.remove_segment(journal.segments.len() - 1)?;
            }
            journal.last_mut().truncate(place)?;
            journal.durable = journal.durable.min(place - 1);
            Ok(())
        })
    }

    /// Removes segments whose records are all at or before `upto`, which a snapshot has. The
    /// segment that is written stays.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::Failed`] is final.
    pub fn compact(&mut self, upto: u64) -> Result<(), Error> {
        self.working(|journal| {
            if snapshot::newest_index(&journal.files)? < upto {
                return Err(Error::NoSnapshot { upto });
            }
            while journal.segments.len() > 1 && journal.segments[0].next_place() <= upto + 1 {
                journal.remove_segment(0)?;
            }
            Ok(())
        })
    }

    /// Empties the log: it goes on at `place`, behind the newest snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`] if the newest one does not end before `place`; [`Error::Full`];
    /// [`Error::Failed`] is final.
    pub fn reset(&mut self, place: u64) -> Result<(), Error> {
        self.working(|journal| {
            if snapshot::newest_index(&journal.files)?.checked_add(1) != Some(place) {
                return Err(Error::NoSnapshot { upto: place.saturating_sub(1) });
            }
            journal.make_spares(1)?;
            journal.begin_segment(place, true)?;
            while journal.segments.len() > 1 {
                journal.remove_segment(0)?;
            }
            journal.durable = place - 1;
            Ok(())
        })
    }

    /// Removes the file, durably: the next one is not removed before.
    fn remove_segment(&mut self, index: usize) -> Result<(), Error> {
        let segment = self.segments.remove(index).expect("the caller has counted");
        self.files.remove(&segment.name).or_failed("removing", &segment.name)?;
        self.files.sync_directory().or_failed("syncing", ".")
    }
}
