//! A log in a journal, written by its thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, channel};

use petasos_journal::{
    Committer, Config, Error, Event, Files, HardState, Identity, Journal, NotTaken, QueueLimits,
    Record, SnapshotReader, snapshot,
};
use petasos_raft::{
    Entry, Kind, MemberId, Membership, NotAnEntry, Position, Replica, Restored, Write,
};

use super::{Ended, Log};

/// Bytes that are read at once for a follower.
const FETCH_BYTES: usize = 128 << 10;

/// A log in a journal.
pub struct DiskLog<F: Files> {
    committer: Committer<F>,
    events: Receiver<Event>,
    /// Writes that the journal's queue had no room for.
    waiting: VecDeque<Write>,
    /// Entries from here on were refused, as there was no space.
    refused: Option<u64>,
    is_full: bool,
    /// Tokens of reads, with the followers that wait for them.
    reads: BTreeMap<u64, MemberId>,
    reads_begun: u64,
    ended: VecDeque<Ended>,
}

/// What is in a member's directory.
pub struct Opened<F: Files> {
    /// The log.
    pub log: DiskLog<F>,
    /// What the replica goes on from.
    pub restored: Restored,
    /// The newest snapshot, from which the state is read.
    pub snapshot: Option<SnapshotReader<F>>,
}

/// Why a member cannot start with its directory.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal's: damage, another member's directory, one that is in use.
    #[error(transparent)]
    Journal(#[from] Error),
    /// The log has something that no replica has written.
    #[error("{0}: the directory is damaged; this member has to join anew")]
    Entry(#[from] NotAnEntry),
    /// A snapshot's configuration is not one.
    #[error("a snapshot's configuration cannot be read: this member has to join anew")]
    Configuration,
    /// The system gives no thread.
    #[error("cannot start the journal's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Tokens of what the member itself begins, which the replica does not know.
const OWN: u64 = 1 << 63;

impl<F: Files> DiskLog<F> {
    /// Makes the directory of a member of a new group, whose first entry is `membership`, or of a
    /// member that joins a group and has no entries yet.
    ///
    /// # Errors
    /// See [`Journal::create`].
    pub fn create(
        files: F,
        identity: Identity,
        config: Config,
        membership: Option<&Membership>,
    ) -> Result<(), Error> {
        let mut journal = Journal::create(files, identity, config)?;
        if let Some(membership) = membership {
            let mut data = Vec::new();
            membership.encode(&mut data);
            let kind = Kind::Configuration as u8;
            journal.append(&[Record { place: 1, term: 0, kind, data: &data }])?;
        }
        journal.close()
    }

    /// Opens a member's directory. `wake` is called when there is something to hear of.
    ///
    /// # Errors
    /// Why the member cannot start.
    pub fn open(
        files: F,
        identity: Identity,
        config: Config,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Opened<F>, OpenError> {
        let mut journal = Journal::open(files.clone(), identity, config)?;
        let newest = snapshot::indices(&files)?.first().copied();
        let snapshot = newest.map(|index| SnapshotReader::open(&files, identity.group, index));
        let snapshot = snapshot.transpose()?;
        let restored = restore(&mut journal, snapshot.as_ref())?;
        let (tell, events) = channel();
        let limits = QueueLimits::default();
        let committer = Committer::start(journal, limits, move |event| {
            // Who does not listen any more has ended.
            let _ = tell.send(event);
            wake();
        })?;
        let log = DiskLog {
            committer,
            events,
            waiting: VecDeque::new(),
            refused: None,
            is_full: false,
            reads: BTreeMap::new(),
            reads_begun: 0,
            ended: VecDeque::new(),
        };
        Ok(Opened { log, restored, snapshot })
    }

    fn begin(&self, write: Write, replica: &Replica) -> Result<(), NotTaken> {
        match write {
            Write::HardState { token, term, vote } => {
                let vote = vote.map_or(0, |member| member.0);
                self.committer
                    .set_hard_state(token, HardState { fields: [term, vote, 0, 0], since: 0 })
            }
            Write::Truncate { token, index } => self.committer.truncate(token, index),
            Write::Reset { token, index } => self.committer.reset(token, index),
            Write::Append { first, last } => {
                // A log that was cut meanwhile is written as it is now: that is said next.
                let entries = (first..=last).map_while(|index| replica.entry(index));
                let records = entries.map(|entry| Record {
                    place: entry.position.index,
                    term: entry.position.term,
                    kind: entry.kind as u8,
                    data: entry.data,
                });
                self.committer.append(&records.collect::<Vec<_>>())
            }
        }
    }

    /// Tries again what had no room in the queue, and, if there is space again, what was refused.
    fn try_again(&mut self, replica: &Replica) {
        if let Some(first) = self.refused.filter(|_| !self.is_full) {
            let last = replica.last().index;
            let taken = first > last || self.begin(Write::Append { first, last }, replica).is_ok();
            if taken {
                self.refused = None;
            }
        }
        while let Some(write) = self.waiting.front().copied() {
            if self.begin(write, replica).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn hear(&mut self, event: Event) -> Option<Ended> {
        match event {
            Event::Durable { upto } => Some(Ended::Appended(upto)),
            Event::Done { token, result: Ok(()) } => (token < OWN).then_some(Ended::Done(token)),
            // Entries that were refused are not there to be cut off: the log ends before them.
            Event::Done { token, result: Err(Error::NotThere { place, last, .. }) }
                if last < place && token < OWN =>
            {
                Some(Ended::Done(token))
            }
            Event::Done { token, result: Err(error) } => {
                // Of a compaction nothing depends; anything else is expected to be possible.
                (token < OWN).then_some(Ended::Failed(error))
            }
            Event::Refused { place, error: Error::OutOfOrder { next, .. } } => {
                // What came behind a refused entry.
                if next < place {
                    self.refuse(next);
                }
                None
            }
            Event::Refused { place, error: Error::Full } => {
                self.refuse(place);
                None
            }
            Event::Refused { error, .. } => Some(Ended::Failed(error)),
            Event::Read { token, result } => {
                let to = self.reads.remove(&token)?;
                Some(Ended::Fetched(to, result.unwrap_or_default()))
            }
            Event::Space { is_full } => {
                self.is_full = is_full;
                Some(Ended::Full(is_full))
            }
            Event::Ended { result: Err(error) } => Some(Ended::Failed(error)),
            Event::Ended { result: Ok(()) } => None,
        }
    }

    fn refuse(&mut self, place: u64) {
        self.refused = Some(self.refused.map_or(place, |refused| refused.min(place)));
    }
}

impl<F: Files> Log for DiskLog<F> {
    fn write(&mut self, write: Write, replica: &Replica) {
        match write {
            // What was refused in front of the cut is still missing.
            Write::Truncate { index, .. } => {
                self.refused = self.refused.filter(|refused| *refused < index);
            }
            Write::Reset { .. } => self.refused = None,
            Write::HardState { .. } | Write::Append { .. } => {}
        }
        // Behind a gap, nothing can be appended: it is closed first.
        let is_behind = matches!(write, Write::Append { .. }) && self.refused.is_some();
        if is_behind {
            return;
        }
        if !self.waiting.is_empty() || self.begin(write, replica).is_err() {
            self.waiting.push_back(write);
        }
    }

    fn can_fetch(&self) -> bool {
        true
    }

    fn fetch(&mut self, to: MemberId, index: u64) {
        self.reads_begun += 1;
        let token = OWN + self.reads_begun;
        match self.committer.read(token, index, FETCH_BYTES) {
            Ok(()) => drop(self.reads.insert(token, to)),
            Err(_) => self.ended.push_back(Ended::Fetched(to, Vec::new())),
        }
    }

    fn compact(&mut self, index: u64) {
        // If there is no room for that now, the next snapshot does it.
        let _ = self.committer.compact(OWN, index);
    }

    fn next(&mut self, replica: &Replica) -> Option<Ended> {
        self.try_again(replica);
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        while let Ok(event) = self.events.try_recv() {
            if let Some(ended) = self.hear(event) {
                return Some(ended);
            }
        }
        None
    }
}

/// What a replica goes on from: the snapshot, and the entries behind it.
fn restore<F: Files>(
    journal: &mut Journal<F>,
    snapshot: Option<&SnapshotReader<F>>,
) -> Result<Restored, OpenError> {
    let HardState { fields: [term, vote, ..], .. } = journal.hard_state();
    let vote = (vote != 0).then_some(MemberId(vote));
    let (position, membership) = match snapshot.map(SnapshotReader::head) {
        Some(head) => {
            let membership = Membership::decode(&head.configuration);
            let position = Position { term: head.term, index: head.index };
            (position, membership.ok_or(OpenError::Configuration)?)
        }
        None => (Position::ZERO, Membership::default()),
    };
    forget_contradicted(journal, position)?;
    let mut restored = Restored::new((term, vote), position, membership);
    let mut place = journal.first_place().max(position.index + 1);
    while place < journal.next_place() {
        for record in journal.read(place, 1 << 20)? {
            let index = record.place;
            let kind = Kind::of(record.kind).ok_or(NotAnEntry { index })?;
            let position = Position { term: record.term, index };
            restored.entry(Entry { position, kind, data: &record.data })?;
            place = index + 1;
        }
    }
    Ok(restored)
}

/// If the process ended between a snapshot that it was sent and the reset of its log, the log may
/// be another one than the snapshot's: then it goes.
fn forget_contradicted<F: Files>(journal: &mut Journal<F>, at: Position) -> Result<(), Error> {
    let next = at.index + 1;
    let follows = journal.first_place() == next
        || match journal.read(at.index, 0) {
            Ok(records) => records.first().is_some_and(|record| record.term == at.term),
            Err(Error::NotThere { .. }) => at.index == 0,
            Err(error) => return Err(error),
        };
    if follows { Ok(()) } else { journal.reset(next) }
}
