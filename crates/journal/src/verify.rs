//! What is in a directory, for operators. Nothing is changed, and everything is read.

use crate::error::{Damage, Doing};
use crate::identity::LOCK;
use crate::segment::{self, scan};
use crate::snapshot::{self, SnapshotId, SnapshotReader};
use crate::survey::{judge, numbers};
use crate::{Error, Files, HardState, Identity, state};

/// A directory's contents, as far as they could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose it is.
    pub identity: Identity,
    /// Whether a process has it open. What is being written meanwhile may then look torn.
    pub is_in_use: bool,
    /// The hard state, if it is good.
    pub hard_state: Option<HardState>,
    /// All segments that are good, by number.
    pub segments: Vec<SegmentReport>,
    /// All snapshots that are good, the newest first.
    pub snapshots: Vec<SnapshotId>,
    /// Files that were not finished, or were to be removed: they have nothing that was promised.
    pub leftovers: Vec<String>,
    /// Everything durable that is not as it was written.
    pub damage: Vec<Damage>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub name: String,
    /// The place of its first record.
    pub first_place: u64,
    /// How many records it has.
    pub records: u64,
    /// Where the last of them ends in the file.
    pub end: u64,
    /// Up to this place records are marked as durable, if any are.
    pub durable_place: Option<u64>,
    /// Whether a torn record follows, which the next start cuts off. In all but the last segment
    /// that is damage.
    pub is_torn: bool,
}

/// Reads everything in the directory, and says what is there.
///
/// # Errors
/// [`crate::IdentityError`] if it is nobody's; errors of files. Damage is no error here.
pub fn verify<F: Files>(files: &F) -> Result<Report, Error> {
    let identity = Identity::read(files)?;
    let is_in_use = files.is_locked(LOCK).doing("locking", LOCK)?;
    let mut report = Report {
        identity,
        is_in_use,
        hard_state: None,
        segments: Vec::new(),
        snapshots: Vec::new(),
        leftovers: Vec::new(),
        damage: Vec::new(),
    };
    let stored = report.note(state::read_only(files))?;
    report.hard_state = stored.map(|stored| stored.hard);
    report.add_snapshots(files)?;
    report.add_segments(files, stored.map_or(0, |stored| stored.last_segment))?;
    report.add_leftovers(files)?;
    Ok(report)
}

impl Report {
    /// The last place of the log, if it has one.
    pub fn last_place(&self) -> Option<u64> {
        let last = self.segments.last()?;
        (last.first_place + last.records).checked_sub(1)
    }

    /// Puts damage aside.
    fn note<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damage(damage)) => {
                self.damage.push(damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn add_snapshots<F: Files>(&mut self, files: &F) -> Result<(), Error> {
        for index in snapshot::indices(files)? {
            let read = SnapshotReader::open(files, self.identity.group, index);
            let verified = read.and_then(|mut reader| reader.verify());
            let good = self.note(verified)?;
            self.snapshots.extend(good);
        }
        Ok(())
    }

    /// As a start does, but it goes on behind damage. What lies before the segment in which the
    /// log begins is a leftover.
    fn add_segments<F: Files>(&mut self, files: &F, last_segment: u64) -> Result<(), Error> {
        let mut stale = numbers(files)?;
        let (mut scans, mut is_whole) = (Vec::new(), true);
        while let Some(number) = stale.pop() {
            let name = segment::name(number);
            let file = files.open_read_only(&name).doing("opening", &name)?;
            match self.note(scan(&file, &name, self.identity))? {
                Some(scan) => scans.push(scan),
                None => is_whole = false,
            }
            if scans.last().is_some_and(|scan| scan.header.begins && scan.name == name) {
                break;
            }
        }
        self.leftovers.extend(stale.into_iter().map(segment::name));
        scans.reverse();
        if is_whole {
            let snapshot = snapshot::newest_index(files)?;
            let judged = judge(scans.iter(), last_segment, snapshot);
            self.note(judged.map_err(Error::from))?;
        }
        self.segments = scans.iter().map(SegmentReport::of).collect();
        Ok(())
    }

    fn add_leftovers(&mut self, files: &impl Files) -> Result<(), Error> {
        let names = files.list().doing("listing", ".")?;
        let unused = |name: &String| crate::spare::is_spare(name) || snapshot::is_unfinished(name);
        self.leftovers.extend(names.into_iter().filter(unused));
        self.leftovers.sort_unstable();
        Ok(())
    }
}

impl SegmentReport {
    fn of(scan: &segment::Scan) -> SegmentReport {
        SegmentReport {
            name: scan.name.clone(),
            first_place: scan.header.first_place,
            records: scan.entries.len() as u64,
            end: u64::from(scan.end),
            durable_place: scan.mark().map(|mark| mark.place),
            is_torn: scan.is_torn,
        }
    }
}
