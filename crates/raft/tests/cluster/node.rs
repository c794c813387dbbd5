//! A member: a replica with a disk, a clock of its own, and a state that it applies commands to.

use std::collections::BTreeMap;

use petasos_base::Rng;
use petasos_raft::{
    Entry, Kind, MemberId, NotProposed, Output, Position, Replica, Restored, Settings, Write,
};

use crate::disk::{Disk, Done, Snapshot, Stored};

/// What a member wants the world to do.
pub enum Act {
    Send(MemberId, Vec<u8>),
    Snapshot(MemberId, Snapshot),
    /// A disk's write will be done then, in the world's time.
    Disk(u64),
    /// A command is applied at an index.
    Applied(Position, Kind, Vec<u8>),
    /// A client's command is done.
    Acknowledged(u64, u64),
    /// A client's read may be answered with the state at an index.
    Read(u64, u64),
    Leads(u64),
}

/// Planted faults of a member (see the disk's, too).
#[derive(Clone, Copy, Debug, Default)]
pub struct Plants {
    /// Entries count as durable before they are.
    pub durable_early: bool,
    /// Reads are answered at once by who believes to lead.
    pub reads_unasked: bool,
    /// A part of the log's durable end is cut off at a start.
    pub truncates_damage: bool,
    /// Commands are acknowledged as they are proposed.
    pub acknowledges_unasked: bool,
}

pub struct Node {
    pub id: MemberId,
    pub replica: Option<Replica>,
    pub disk: Disk,
    pub plants: Plants,
    /// The clock counts so many thousandths of the world's time, beginning somewhere.
    rate: u64,
    offset_us: u64,
    pub paused_until_us: u64,
    pub applied: u64,
    pub state: Vec<u64>,
    settings: Settings,
    /// Commands that wait for their entries, with the position they have.
    waiting: BTreeMap<u64, (Position, u64)>,
    /// Reads that wait for a round, and those that wait for an entry.
    reads: Vec<(u64, u64)>,
    read_at: Vec<(u64, u64)>,
}

impl Node {
    pub fn new(id: MemberId, disk: Disk, settings: Settings, rng: &mut Rng) -> Node {
        Node {
            id,
            replica: None,
            disk,
            plants: Plants::default(),
            rate: 1000,
            offset_us: (1 << 40) + rng.below(1 << 40),
            paused_until_us: 0,
            applied: 0,
            state: Vec::new(),
            settings,
            waiting: BTreeMap::new(),
            reads: Vec::new(),
            read_at: Vec::new(),
        }
    }

    /// The member's time.
    pub fn clock(&self, now_us: u64) -> u64 {
        self.offset_us + now_us * self.rate / 1000
    }

    /// From now on, its clock runs at another rate.
    pub fn set_rate(&mut self, now_us: u64, rate: u64) {
        let clock = self.clock(now_us);
        self.rate = rate;
        self.offset_us = clock - now_us * rate / 1000;
    }

    /// When its clock shows `local_us`, in the world's time.
    pub fn world(&self, local_us: u64) -> u64 {
        (local_us.saturating_sub(self.offset_us) * 1000).div_ceil(self.rate)
    }

    /// Starts the process, from what the disk has.
    pub fn start(&mut self, now_us: u64, rng: &mut Rng) {
        if self.plants.truncates_damage {
            let keep = self.disk.durable.log.len().saturating_sub(rng.below(3) as usize);
            self.disk.durable.log.truncate(keep);
        }
        self.disk.durable.forget_contradicted();
        let durable = &self.disk.durable;
        let Snapshot { position, membership, state } = durable.snapshot.clone();
        let mut restored = Restored::new(durable.hard_state, position, membership);
        for (index, stored) in (durable.first..).zip(&durable.log) {
            if index > position.index {
                let position = Position { term: stored.term, index };
                let entry = Entry { position, kind: stored.kind, data: &stored.data };
                restored.entry(entry).expect("a disk has what was written");
            }
        }
        (self.applied, self.state) = (position.index, state);
        let seed = rng.next_u64();
        let clock = self.clock(now_us);
        self.replica = Some(Replica::new(self.settings.clone(), restored, clock, seed));
    }

    pub fn crash(&mut self, rng: &mut Rng) {
        self.replica = None;
        self.disk.crash(rng);
        self.waiting.clear();
        self.reads.clear();
        self.read_at.clear();
    }

    /// A client's command.
    pub fn propose(
        &mut self,
        now_us: u64,
        command: u64,
        length: usize,
        acts: &mut Vec<Act>,
    ) -> Result<(), NotProposed> {
        let clock = self.clock(now_us);
        let replica = self.replica.as_mut().ok_or(NotProposed::NotLeader { leader: None })?;
        let mut data = command.to_le_bytes().to_vec();
        data.resize(length.max(8), 0);
        let position = replica.propose(clock, &data)?;
        if self.plants.acknowledges_unasked {
            acts.push(Act::Acknowledged(command, position.index));
        }
        self.waiting.insert(position.index, (position, command));
        Ok(())
    }

    /// A client's read: whether this member takes it.
    pub fn read(&mut self, now_us: u64, read: u64, acts: &mut Vec<Act>) -> bool {
        let clock = self.clock(now_us);
        let Some(replica) = &mut self.replica else { return false };
        if self.plants.reads_unasked && replica.leader() == Some(self.id) {
            acts.push(Act::Read(read, self.applied));
            return true;
        }
        if let Some(index) = replica.read_by_lease(clock) {
            self.read_at.push((index, read));
            return true;
        }
        replica.read().map(|round| self.reads.push((round, read))).is_ok()
    }

    /// Does what the replica wants, until it wants no more.
    pub fn drain(&mut self, now_us: u64, rng: &mut Rng, acts: &mut Vec<Act>) {
        let mut bytes = Vec::new();
        let clock = self.clock(now_us);
        while let Some(output) = self.replica.as_mut().and_then(|replica| replica.poll(&mut bytes))
        {
            self.output(now_us, clock, output, &bytes, rng, acts);
        }
        self.apply(acts);
    }

    fn output(
        &mut self,
        now_us: u64,
        clock: u64,
        output: Output,
        bytes: &[u8],
        rng: &mut Rng,
        acts: &mut Vec<Act>,
    ) {
        let replica = self.replica.as_mut().expect("it has said something");
        match output {
            Output::Write(write) => {
                let (first, last) = match write {
                    Write::Append { first, last } => (first, last),
                    _ => (1, 0),
                };
                let entries = (first..=last).map(|index| {
                    let entry = replica.entry(index).expect("entries to write are in memory");
                    let data = entry.data.to_vec();
                    Stored { term: entry.position.term, kind: entry.kind, data }
                });
                acts.push(Act::Disk(self.disk.begin(now_us, write, entries, rng)));
                if self.plants.durable_early && last > 0 {
                    replica.appended(clock, last).unwrap();
                }
            }
            Output::Send { to } => acts.push(Act::Send(to, bytes.to_vec())),
            Output::Fetch { to, index } => self.fetch(clock, to, index),
            Output::SendSnapshot { to } => {
                acts.push(Act::Snapshot(to, self.disk.durable.snapshot.clone()));
            }
            Output::Leader { term, leader } => {
                if leader == Some(self.id) {
                    acts.push(Act::Leads(term));
                } else {
                    self.reads.clear();
                }
            }
            Output::Read { round, index } => {
                let (ready, wait) = self.reads.iter().partition(|(of, _)| *of <= round);
                self.reads = wait;
                let ready: Vec<(u64, u64)> = ready;
                self.read_at.extend(ready.into_iter().map(|(_, read)| (index, read)));
            }
        }
    }

    fn fetch(&mut self, clock: u64, to: MemberId, index: u64) {
        let durable = &self.disk.durable;
        let skip = index.checked_sub(durable.first).map(|skip| usize::try_from(skip).unwrap());
        let entries = skip.into_iter().flat_map(|skip| durable.log.iter().skip(skip).take(5));
        let entries = (index..).zip(entries).map(|(index, stored)| Entry {
            position: Position { term: stored.term, index },
            kind: stored.kind,
            data: &stored.data,
        });
        let replica = self.replica.as_mut().expect("it has asked");
        replica.fetched(clock, to, entries);
    }

    /// Applies what is committed, and answers who waits for it.
    fn apply(&mut self, acts: &mut Vec<Act>) {
        let Some(replica) = &mut self.replica else { return };
        while self.applied < replica.committed() {
            let index = self.applied + 1;
            let entry = replica.entry(index).expect("what is not applied is in memory");
            acts.push(Act::Applied(entry.position, entry.kind, entry.data.to_vec()));
            if entry.kind == Kind::Command {
                let command = entry.data.first_chunk().expect("commands have 8 bytes");
                self.state.push(u64::from_le_bytes(*command));
            }
            self.applied = index;
            if let Some((position, command)) = self.waiting.remove(&index)
                && position == entry.position
                && !self.plants.acknowledges_unasked
            {
                acts.push(Act::Acknowledged(command, index));
            }
        }
        let applied = self.applied;
        replica.release(applied);
        for (_, read) in self.read_at.extract_if(.., |(index, _)| *index <= applied) {
            acts.push(Act::Read(read, applied));
        }
    }

    /// Takes a snapshot of what is applied, and lets the log forget what is well before it.
    pub fn snapshot(&mut self) {
        let Some(replica) = &mut self.replica else { return };
        let index = self.applied.min(self.disk.durable.next().saturating_sub(1));
        let Some(position) = replica.position(index).filter(|_| index == self.applied) else {
            return;
        };
        let (membership, state) = (replica.membership_at(index).clone(), self.state.clone());
        self.disk.durable.snapshot = Snapshot { position, membership, state };
        if replica.compact(index) {
            self.disk.durable.compact(index);
        }
    }

    /// A snapshot from the leader has come.
    pub fn install(&mut self, now_us: u64, snapshot: Snapshot) {
        let clock = self.clock(now_us);
        let Some(replica) = &mut self.replica else { return };
        let Snapshot { position, membership, state } = snapshot.clone();
        if replica.snapshot_installed(clock, position, membership).unwrap() {
            self.disk.durable.snapshot = snapshot;
            (self.applied, self.state) = (position.index, state);
        }
    }

    /// The disk has done something.
    pub fn disk_done(&mut self, now_us: u64) {
        let clock = self.clock(now_us);
        while let Some(done) = self.disk.end(now_us) {
            let Some(replica) = &mut self.replica else { return };
            match done {
                Done::Token(token) => replica.done(clock, token).unwrap(),
                Done::Entries(upto) => replica.appended(clock, upto).unwrap(),
            }
        }
    }
}
