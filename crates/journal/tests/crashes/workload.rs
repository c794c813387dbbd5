//! Random work on a journal over a simulated disk, with a model beside it.

use petasos_base::Rng;
use petasos_journal::{
    Config, Error, Files, HardState, Identity, Journal, OwnedRecord, Receipt, Record, SnapshotHead,
    SnapshotReader, SnapshotWriter, snapshot, verify,
};
use petasos_sim::disk::SimDisk;

use crate::model::{Doing, Model};

pub const OURS: Identity = Identity { group: 0x6702, member: 3 };

/// Segments for a few records, so that they change often.
pub const CONFIG: Config = Config { segment_bytes: 8192, snapshots_kept: 2 };

/// How work has ended.
#[derive(Debug)]
pub enum End {
    /// The disk has failed, or the host has gone down.
    Stopped,
    /// The journal has broken a promise.
    Broken(String),
}

impl From<String> for End {
    fn from(broken: String) -> End {
        End::Broken(broken)
    }
}

/// A journal, and what it should be.
pub struct Work<F: Files> {
    pub rng: Rng,
    pub model: Model,
    pub journal: Journal<F>,
}

/// Makes the journal on an empty disk.
pub fn create<F: Files>(files: F, seed: u64) -> Work<F> {
    let journal = Journal::create(files, OURS, CONFIG).expect("the disk has no faults yet");
    Work { rng: Rng::new(seed), model: Model::new(), journal }
}

/// Opens what the last process has left, and checks that. If that is stopped, `model` says what
/// may be there then.
pub fn reopen<F: Files>(files: F, rng: Rng, model: &mut Model) -> Result<Work<F>, End> {
    let report = verify(&files).map_err(|error| format!("verify: {error}"))?;
    if let Some(damage) = report.damage.first() {
        return Err(format!("verify: {damage}").into());
    }
    let journal = match Journal::open(files, OURS, CONFIG) {
        Err(Error::Failed(_) | Error::File(_)) => return Err(End::Stopped),
        journal => journal.map_err(|error| error.to_string())?,
    };
    let mut work = Work { rng, model: model.clone(), journal };
    work.model.reopened(&work.journal)?;
    if report.last_place() != Some(work.journal.next_place() - 1) {
        return Err(format!("verify says that {:?} is the last", report.last_place()).into());
    }
    let checked = work.check_snapshots();
    *model = work.model.clone();
    checked.map(|()| work)
}

impl<F: Files> Work<F> {
    /// Does `steps` steps.
    pub fn run(&mut self, steps: usize) -> Result<(), End> {
        for _ in 0..steps {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), End> {
        match self.rng.below(16) {
            0..=6 => self.append(),
            7..=9 => self.sync(),
            10 => self.truncate(),
            11 => self.set_hard(),
            12 => self.take_snapshot(),
            13 => self.compact(),
            14 => self.receive_snapshot(),
            _ => {
                self.end(|journal| journal.settle())?;
                self.synced()
            }
        }
    }

    /// What the journal says, as an end of the work. After a failure it says nothing else (QR20).
    fn end<T>(&mut self, act: impl FnOnce(&mut Journal<F>) -> Result<T, Error>) -> Result<T, End> {
        let done = act(&mut self.journal);
        if let Err(error @ Error::Failed(_)) = &done {
            let again = [self.journal.sync().map(drop), self.journal.append(&[])];
            if again.iter().any(|again| again.as_ref() != Err(error)) {
                return Err(End::Broken(format!("after a failure ({error}): {again:?}")));
            }
        }
        done.map_err(stopped)
    }

    fn append(&mut self) -> Result<(), End> {
        let count = self.rng.below(6);
        let records: Vec<OwnedRecord> =
            (0..count).map(|index| self.record(self.model.next() + index)).collect();
        // They may get to the disk before the call returns.
        self.model.records.extend(records.iter().cloned());
        let records: Vec<Record<'_>> = records.iter().map(OwnedRecord::borrow).collect();
        self.end(|journal| journal.append(&records))?;
        self.model.durable = self.model.durable.max(self.journal.durable_place());
        Ok(())
    }

    fn record(&mut self, place: u64) -> OwnedRecord {
        let rng = &mut self.rng;
        let long = rng.chance(0.1);
        let bytes = if long { rng.below(3500) } else { rng.below(200) };
        let (term, kind) = (rng.next_u64(), rng.below(256) as u8);
        OwnedRecord { place, term, kind, data: contents(rng.next_u64(), bytes as usize) }
    }

    fn sync(&mut self) -> Result<(), End> {
        self.end(Journal::sync)?;
        self.synced()
    }

    fn synced(&mut self) -> Result<(), End> {
        self.model.durable = self.model.next() - 1;
        let durable = self.journal.durable_place();
        if durable != self.model.durable {
            return Err(format!("{durable} is durable, not {}", self.model.durable).into());
        }
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), End> {
        // What a snapshot has is not in conflict with anything.
        let first = self.journal.first_place().max(self.model.snapshot + 1);
        let next = self.journal.next_place();
        let first = if self.rng.chance(0.7) { first.max(next.saturating_sub(5)) } else { first };
        let place = first + self.rng.below(next - first + 1);
        self.model.doing = Doing::Truncate(place);
        self.end(|journal| journal.truncate(place))?;
        self.model.cut(place);
        self.model.doing = Doing::Nothing;
        Ok(())
    }

    fn set_hard(&mut self) -> Result<(), End> {
        let fields = [self.rng.next_u64(), self.rng.next_u64(), 0, u64::MAX];
        let hard = HardState { fields, since: self.rng.next_u64() };
        self.model.doing = Doing::Hard(hard);
        self.end(|journal| journal.set_hard_state(hard))?;
        (self.model.hard, self.model.doing) = (hard, Doing::Nothing);
        Ok(())
    }

    /// Of what is durable, as a state machine would.
    fn take_snapshot(&mut self) -> Result<(), End> {
        let index = self.model.durable;
        if index <= self.model.snapshot {
            return Ok(());
        }
        self.model.begun = Some(index);
        let files = self.journal.files().clone();
        write_snapshot(files.clone(), index).map_err(stopped)?;
        (self.model.snapshot, self.model.begun) = (index, None);
        snapshot::remove_old(&files, CONFIG.snapshots_kept).map_err(stopped)
    }

    fn compact(&mut self) -> Result<(), End> {
        let upto = self.model.snapshot;
        self.model.doing = Doing::Compact(upto);
        self.end(|journal| journal.compact(upto))?;
        let first = self.journal.first_place();
        if first > upto + 1 {
            return Err(format!("places from {upto} on are gone: {first}").into());
        }
        (self.model.first_min, self.model.first_max) = (first, first);
        self.model.doing = Doing::Nothing;
        Ok(())
    }

    /// Of a leader that is far ahead: in pieces, and then the log goes on behind it.
    fn receive_snapshot(&mut self) -> Result<(), End> {
        if !self.rng.chance(0.3) {
            return Ok(());
        }
        let index = self.model.next() + self.rng.below(10);
        let theirs = SimDisk::new(0);
        let id = write_snapshot(theirs.files(), index).expect("that disk has no faults");
        let reader = SnapshotReader::open(&theirs.files(), OURS.group, index).expect("it is whole");
        self.model.begun = Some(index);
        let files = self.journal.files().clone();
        let receive = || {
            let mut receipt = Receipt::begin(files, OURS.group, id)?;
            while !receipt.is_whole() {
                let at = receipt.received();
                receipt.piece(at, &reader.piece(at, 40_000)?)?;
            }
            receipt.finish()
        };
        receive().map_err(stopped)?;
        (self.model.snapshot, self.model.begun) = (index, None);
        self.reset(index + 1)
    }

    fn reset(&mut self, place: u64) -> Result<(), End> {
        self.model.doing = Doing::Reset(place);
        self.end(|journal| journal.reset(place))?;
        self.model.reset(place);
        self.model.doing = Doing::Nothing;
        Ok(())
    }

    /// The newest snapshot is the one that was finished last, and is whole; a log that begins
    /// behind it is not left.
    fn check_snapshots(&mut self) -> Result<(), End> {
        let files = self.journal.files().clone();
        let indices = snapshot::indices(&files).map_err(|error| error.to_string())?;
        let newest = indices.first().copied().unwrap_or(0);
        let expected = self.model.snapshot;
        if newest != expected && self.model.begun != Some(newest) {
            return Err(format!("the newest snapshot is {newest}, not {expected}").into());
        }
        for index in indices {
            check_snapshot(&files, index)?;
        }
        (self.model.snapshot, self.model.begun) = (newest, None);
        if newest >= self.journal.next_place() {
            // It was received, and the log was not reset any more.
            self.reset(newest + 1)?;
        }
        Ok(())
    }
}

fn stopped(error: Error) -> End {
    match error {
        Error::Damage(_) | Error::Full => End::Broken(error.to_string()),
        _ => End::Stopped,
    }
}

/// A snapshot whose contents follow from its place.
fn write_snapshot<F: Files>(files: F, index: u64) -> Result<petasos_journal::SnapshotId, Error> {
    let configuration = contents(index ^ 1, index as usize % 300);
    let head = SnapshotHead { group: OURS.group, index, term: index * 3, configuration };
    let mut writer = SnapshotWriter::begin(files, head)?;
    let state = state(index);
    for part in state.chunks(50_000) {
        writer.write(part)?;
    }
    writer.finish()
}

fn check_snapshot<F: Files>(files: &F, index: u64) -> Result<(), String> {
    let read = || {
        let mut reader = SnapshotReader::open(files, OURS.group, index)?;
        let (mut state, mut part) = (Vec::new(), Vec::new());
        while reader.next(&mut part)? {
            state.extend_from_slice(&part);
        }
        Ok((reader.head().clone(), state))
    };
    let (head, found) = read().map_err(|error: Error| format!("snapshot {index}: {error}"))?;
    if head.term != index * 3 || found != state(index) {
        return Err(format!("snapshot {index} is another"));
    }
    Ok(())
}

fn state(index: u64) -> Vec<u8> {
    contents(index, (index as usize * 7919) % 200_000)
}

/// Bytes that follow from a seed.
fn contents(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut contents = Vec::with_capacity(bytes + 8);
    while contents.len() < bytes {
        contents.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    contents.truncate(bytes);
    contents
}
