//! A disk that does writes in order, later, and loses those that were not done when its host
//! crashes.

use std::collections::VecDeque;

use petasos_base::Rng;
use petasos_raft::{Kind, MemberId, Membership, Position, Write};

/// An entry on disk.
#[derive(Clone, Debug)]
pub struct Stored {
    pub term: u64,
    pub kind: Kind,
    pub data: Vec<u8>,
}

/// What a snapshot has.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub position: Position,
    pub membership: Membership,
    /// The commands that were applied.
    pub state: Vec<u64>,
}

/// What is durable.
#[derive(Clone, Debug)]
pub struct Durable {
    pub hard_state: (u64, Option<MemberId>),
    pub snapshot: Snapshot,
    /// The index of the first of `log`.
    pub first: u64,
    pub log: Vec<Stored>,
}

impl Durable {
    /// Of a member that has `entries`, or nothing.
    pub fn new(entries: Vec<Stored>) -> Durable {
        let (position, membership) = (Position::ZERO, Membership::default());
        let snapshot = Snapshot { position, membership, state: Vec::new() };
        Durable { hard_state: (0, None), snapshot, first: 1, log: entries }
    }

    pub fn next(&self) -> u64 {
        self.first + self.log.len() as u64
    }

    /// If the process ended between a snapshot that it was sent and the reset of its log, the log
    /// may not be the snapshot's: then it goes.
    pub fn forget_contradicted(&mut self) {
        let Position { term, index } = self.snapshot.position;
        let follows = self.first == index + 1
            || index.checked_sub(self.first).is_some_and(|at| {
                let entry = self.log.get(usize::try_from(at).unwrap());
                entry.is_some_and(|entry| entry.term == term)
            });
        if !follows {
            self.log.clear();
            self.first = index + 1;
        }
    }

    fn keep_below(&mut self, index: u64) {
        let keep = usize::try_from(index.saturating_sub(self.first)).unwrap();
        self.log.truncate(keep);
    }

    /// Entries up to the snapshot's are not needed any longer.
    pub fn compact(&mut self, index: u64) {
        let gone = usize::try_from((index + 1).saturating_sub(self.first)).unwrap();
        self.log.drain(..gone.min(self.log.len()));
        self.first = index + 1;
    }
}

/// A write with its data.
#[derive(Clone, Debug)]
enum Pending {
    Plain(Write),
    Entries(u64, Vec<Stored>),
}

/// What the disk says of a write that is done.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    Token(u64),
    Entries(u64),
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub durable: Durable,
    pending: VecDeque<(u64, Pending)>,
    /// The longest time that a write takes.
    pub slowness_us: u64,
}

impl Disk {
    pub fn new(durable: Durable) -> Disk {
        let (pending, slowness_us) = (VecDeque::new(), 200);
        Disk { durable, pending, slowness_us }
    }

    /// Begins a write: when it will be done.
    pub fn begin(
        &mut self,
        now_us: u64,
        write: Write,
        entries: impl Iterator<Item = Stored>,
        rng: &mut Rng,
    ) -> u64 {
        // Those that wait are synced together.
        let last_us = self.pending.back().map_or(0, |(at_us, _)| *at_us);
        let at_us = (now_us + rng.below(self.slowness_us + 1)).max(last_us);
        let pending = match write {
            Write::Append { first, .. } => Pending::Entries(first, entries.collect()),
            _ => Pending::Plain(write),
        };
        self.pending.push_back((at_us, pending));
        at_us
    }

    /// The next write that is done by now.
    pub fn end(&mut self, now_us: u64) -> Option<Done> {
        let (_, pending) = self.pending.pop_front_if(|(at_us, _)| *at_us <= now_us)?;
        Some(self.apply(pending))
    }

    fn apply(&mut self, pending: Pending) -> Done {
        let durable = &mut self.durable;
        match pending {
            Pending::Entries(first, entries) => {
                assert_eq!(first, durable.next(), "entries are appended without a gap");
                durable.log.extend(entries);
                Done::Entries(durable.next() - 1)
            }
            Pending::Plain(Write::HardState { token, term, vote }) => {
                durable.hard_state = (term, vote);
                Done::Token(token)
            }
            Pending::Plain(Write::Truncate { token, index }) => {
                durable.keep_below(index);
                Done::Token(token)
            }
            Pending::Plain(Write::Reset { token, index }) => {
                durable.log.clear();
                durable.first = index;
                Done::Token(token)
            }
            Pending::Plain(Write::Append { .. }) => unreachable!("appends have entries"),
        }
    }

    /// The host crashes: some of the first writes under way were done, or none.
    pub fn crash(&mut self, rng: &mut Rng) {
        let done = rng.below(self.pending.len() as u64 + 1);
        let pending = std::mem::take(&mut self.pending);
        for (_, pending) in pending.into_iter().take(usize::try_from(done).unwrap()) {
            self.apply(pending);
        }
    }
}
