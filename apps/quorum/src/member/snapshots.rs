//! Snapshots: when they are taken, who gets them, and those that come (QR21).

use std::collections::BTreeMap;

use petasos_journal::{SnapshotHead, SnapshotId};
use petasos_raft::{Diverged, MemberId};

use super::keeper::{Job, Kept};
use super::{Action, Member};
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};

/// Bytes of a part that is written.
const PART_BYTES: usize = 64 << 10;
/// Pieces in a row that bring nothing new, after which a transfer begins anew.
const STALLS_MAX: u32 = 8;

/// What a member does with snapshots.
pub(super) struct Snapshots<C> {
    group: u128,
    /// One is taken after so many bytes of entries.
    every_bytes: usize,
    applied_bytes: usize,
    is_wanted: bool,
    writing: Option<Writing>,
    /// The newest that is durable.
    saved: Option<u64>,
    /// Members that get one, and those that wait until there is one.
    transfers: Vec<Transfer>,
    /// Calls that brought a piece.
    receiving: BTreeMap<u64, (C, u64)>,
    tokens: u64,
}

/// A snapshot that is being written.
struct Writing {
    /// What the thread had no room for.
    job: Option<Job>,
    has_more: bool,
}

/// A snapshot on its way.
struct Transfer {
    to: MemberId,
    /// Which one, once there is one.
    index: Option<u64>,
    at: u64,
    stalls: u32,
}

impl<C> Snapshots<C> {
    pub fn new(group: u128, every_bytes: usize, saved: Option<u64>) -> Snapshots<C> {
        Snapshots {
            group,
            every_bytes,
            applied_bytes: 0,
            is_wanted: false,
            writing: None,
            saved,
            transfers: Vec::new(),
            receiving: BTreeMap::new(),
            tokens: 0,
        }
    }

    /// One is to be taken, although there is no need yet.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// An entry of so many bytes is applied.
    pub fn applied(&mut self, bytes: usize) {
        self.applied_bytes += bytes;
        self.is_wanted |= self.applied_bytes >= self.every_bytes;
    }

    /// The newest that is durable.
    pub fn saved(&self) -> Option<u64> {
        self.saved
    }

    /// Whether a part can be written at once.
    pub fn has_more(&self) -> bool {
        match &self.writing {
            Some(writing) => writing.job.is_none(),
            None => self.is_wanted,
        }
    }

    /// The member does not lead any more: others send snapshots.
    pub fn give_up(&mut self) {
        self.transfers.clear();
    }
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// Begins a snapshot if one is wanted, or writes the next part.
    pub(super) fn write_snapshot(&mut self) {
        if self.snapshots.writing.is_none() {
            if !self.snapshots.is_wanted {
                return;
            }
            self.begin_snapshot();
        }
        let Some(writing) = &mut self.snapshots.writing else { return };
        let job = writing.job.take().unwrap_or_else(|| {
            if !writing.has_more {
                return Job::Finish;
            }
            let mut part = Vec::with_capacity(2 * PART_BYTES);
            writing.has_more = self.state.frozen(PART_BYTES, &mut part);
            Job::Part(part)
        });
        let is_last = matches!(job, Job::Finish);
        match self.keeper.give(job) {
            Ok(()) if is_last => self.snapshots.writing = None,
            Ok(()) => {}
            Err(job) => writing.job = Some(job),
        }
    }

    fn begin_snapshot(&mut self) {
        let index = self.state.applied();
        self.snapshots.is_wanted = false;
        self.snapshots.applied_bytes = 0;
        let Some(position) = self.replica.position(index).filter(|_| index > 0) else { return };
        let mut configuration = Vec::new();
        self.replica.membership_at(index).encode(&mut configuration);
        let group = self.snapshots.group;
        let head = SnapshotHead { group, index, term: position.term, configuration };
        self.state.freeze();
        self.snapshots.writing = Some(Writing { job: Some(Job::Begin(head)), has_more: true });
    }

    /// What the thread has done.
    pub(super) fn hear_keeper(&mut self) -> Result<(), Diverged> {
        while let Some(kept) = self.keeper.next() {
            match kept {
                Kept::Saved(index) => self.saved(index),
                // The next one may have more room. Who waits for one asks again.
                Kept::NotSaved => self.snapshots.writing = None,
                Kept::Piece { to, id, at, bytes } => {
                    let piece = Action::Piece { to, id, at };
                    self.push(piece, |all| all.extend_from_slice(&bytes));
                }
                Kept::NoPiece { to } => self.end_transfer(to),
                Kept::Received { token, next } => self.answer_piece(token, next),
                Kept::Failed(error) => self.fail(error),
                Kept::Loaded { token, position, membership, state } => {
                    let now_us = self.now_us;
                    if self.replica.snapshot_installed(now_us, position, membership)? {
                        self.counters.installed += 1;
                        self.snapshots.saved = Some(position.index);
                        self.snapshots.writing = None;
                        self.state = *state;
                    }
                    let whole = self.snapshots.receiving.get(&token).map_or(0, |(_, bytes)| *bytes);
                    self.answer_piece(token, whole);
                }
            }
        }
        Ok(())
    }

    /// A snapshot is durable. The log keeps what has come since the one before, for followers that
    /// are a little behind.
    fn saved(&mut self, index: u64) {
        self.counters.snapshots += 1;
        if let Some(before) = self.snapshots.saved.replace(index)
            && self.replica.compact(before)
        {
            self.log.compact(before);
        }
        let waiting = self.snapshots.transfers.iter_mut().filter(|one| one.index.is_none());
        let members: Vec<MemberId> = waiting.map(|transfer| transfer.to).collect();
        members.into_iter().for_each(|to| self.begin_to_send(to));
    }

    /// A follower needs a snapshot.
    pub(super) fn begin_to_send(&mut self, to: MemberId) {
        self.snapshots.transfers.retain(|transfer| transfer.to != to);
        let index = self.snapshots.saved;
        self.snapshots.transfers.push(Transfer { to, index, at: 0, stalls: 0 });
        match index {
            Some(index) => self.read_piece(to, index, 0),
            None => self.snapshots.is_wanted |= self.snapshots.writing.is_none(),
        }
    }

    fn read_piece(&mut self, to: MemberId, index: u64, at: u64) {
        if self.keeper.give(Job::Read { to, index, at }).is_err() {
            self.end_transfer(to);
        }
    }

    /// A transfer has ended, well or not: the replica asks again if it has to.
    fn end_transfer(&mut self, to: MemberId) {
        self.snapshots.transfers.retain(|transfer| transfer.to != to);
        self.replica.snapshot_sent(self.now_us, to);
    }

    /// What a member has answered to a piece: where the next one begins. [`None`] if it did not
    /// answer.
    pub fn piece_answered(&mut self, now_us: u64, to: MemberId, id: SnapshotId, next: Option<u64>) {
        self.now_us = now_us;
        let transfers = &mut self.snapshots.transfers;
        let is_it =
            |transfer: &&mut Transfer| transfer.to == to && transfer.index == Some(id.index);
        let Some(transfer) = transfers.iter_mut().find(is_it) else { return };
        let next = next.filter(|next| *next < id.bytes);
        transfer.stalls = match next {
            Some(next) if next > transfer.at => 0,
            _ => transfer.stalls + 1,
        };
        match next.filter(|_| transfer.stalls <= STALLS_MAX) {
            Some(next) => {
                transfer.at = next;
                self.read_piece(to, id.index, next);
            }
            None => self.end_transfer(to),
        }
    }

    /// A piece of a snapshot has come from the leader.
    pub fn piece(&mut self, now_us: u64, call: C, id: SnapshotId, at: u64, bytes: &[u8]) {
        self.now_us = now_us;
        if id.index <= self.state.applied() {
            // It is not needed any more.
            let reply = Reply { number: id.bytes, ..Reply::of(Status::Done) };
            return self.answer(call, &reply);
        }
        self.snapshots.tokens += 1;
        let token = self.snapshots.tokens;
        let job = Job::Receive { token, id, at, bytes: bytes.to_vec() };
        match self.keeper.give(job) {
            Ok(()) => drop(self.snapshots.receiving.insert(token, (call, id.bytes))),
            Err(_) => self.answer(call, &Reply::of(Status::Busy)),
        }
    }

    fn answer_piece(&mut self, token: u64, next: u64) {
        // Earlier ones whose piece has failed are not answered otherwise.
        let later = self.snapshots.receiving.split_off(&(token + 1));
        let earlier = std::mem::replace(&mut self.snapshots.receiving, later);
        for (of, (call, _)) in earlier {
            let number = if of == token { next } else { 0 };
            self.answer(call, &Reply { number, ..Reply::of(Status::Done) });
        }
    }
}
