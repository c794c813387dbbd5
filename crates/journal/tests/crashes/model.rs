//! What the journal has promised, and what it may be after a crash.

use petasos_journal::{Files, HardState, Journal, OwnedRecord};

/// What the journal should be. Everything in `records[..durable]` was said to be durable.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The log's first place is at most this, and at least `first_min`: segments go as a whole.
    pub first_max: u64,
    pub first_min: u64,
    /// All records from place `base + 1` on, those that may not be in the log any more included.
    pub base: u64,
    pub records: Vec<OwnedRecord>,
    /// Up to this place they are durable.
    pub durable: u64,
    pub hard: HardState,
    /// The index of the newest snapshot.
    pub snapshot: u64,
    /// Of one that was begun, and may be there.
    pub begun: Option<u64>,
    /// What was under way.
    pub doing: Doing,
}

/// A change that had not returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Doing {
    #[default]
    Nothing,
    Truncate(u64),
    Compact(u64),
    Reset(u64),
    Hard(HardState),
}

impl Model {
    pub fn new() -> Model {
        Model { first_min: 1, first_max: 1, ..Model::default() }
    }

    pub fn next(&self) -> u64 {
        self.base + self.records.len() as u64 + 1
    }

    pub fn record(&self, place: u64) -> &OwnedRecord {
        &self.records[(place - self.base - 1) as usize]
    }

    pub fn cut(&mut self, place: u64) {
        self.records.truncate((place - self.base - 1) as usize);
        self.durable = self.durable.min(place - 1);
    }

    /// The log is empty, and goes on at `place`.
    pub fn reset(&mut self, place: u64) {
        self.records.clear();
        (self.base, self.durable) = (place - 1, place - 1);
        (self.first_min, self.first_max) = (place, place);
    }

    /// Checks what a start has found, and takes it.
    pub fn reopened<F: Files>(&mut self, journal: &Journal<F>) -> Result<(), String> {
        self.check_hard(journal.hard_state())?;
        let (first, next) = (journal.first_place(), journal.next_place());
        match self.doing {
            Doing::Reset(place) if first == place => self.reset(place),
            Doing::Compact(upto) => self.first_max = self.first_max.max(upto + 1),
            _ => {}
        }
        if !(self.first_min..=self.first_max).contains(&first) {
            let (min, max) = (self.first_min, self.first_max);
            return Err(format!("the log begins at {first}, not {min} to {max}"));
        }
        let next_min = match self.doing {
            Doing::Truncate(place) => place.min(self.durable + 1),
            _ => self.durable + 1,
        };
        if !(next_min..=self.next()).contains(&next) {
            let max = self.next();
            return Err(format!("the log ends before {next}, not {next_min} to {max}"));
        }
        self.cut(next);
        self.check_records(journal, first)?;
        (self.first_min, self.first_max, self.durable) = (first, first, next - 1);
        self.doing = Doing::Nothing;
        Ok(())
    }

    fn check_hard(&mut self, hard: HardState) -> Result<(), String> {
        if hard != self.hard && self.doing != Doing::Hard(hard) {
            return Err(format!("the hard state is {hard:?}, not {:?}", self.hard));
        }
        self.hard = hard;
        Ok(())
    }

    /// All records are as they were written.
    fn check_records<F: Files>(&self, journal: &Journal<F>, from: u64) -> Result<(), String> {
        let mut place = from;
        while place < journal.next_place() {
            let read = journal.read(place, 4000).map_err(|error| format!("{place}: {error}"))?;
            for record in read {
                if record != *self.record(place) {
                    let expected = self.record(place);
                    return Err(format!("place {place} is {record:?}, not {expected:?}"));
                }
                place += 1;
            }
        }
        Ok(())
    }
}
