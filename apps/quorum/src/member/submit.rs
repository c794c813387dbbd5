//! Commands: collected for a turn, and proposed as one entry.

use petasos_raft::{NotProposed, Position};

use super::Member;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};
use crate::state::{COMMANDS_MAX, Command, begin_entry};

/// A turn's entry is proposed early once it has so many bytes.
const ENTRY_BYTES: usize = 1 << 20;
/// Own entries that are not committed at most, before the next commands wait for one of them: then
/// they are one entry. Each entry costs all members a turn, a write and messages.
const ENTRIES_MAX: usize = 2;
/// How often a leader proposes an entry without commands, so that the replicated clock goes on,
/// in microseconds. Only while there are sessions.
const CLOCK_US: u64 = 500_000;

/// The commands of a turn.
pub(super) struct Batch<C> {
    entry: Vec<u8>,
    calls: Vec<C>,
    /// What they may add to the state at most.
    growth: usize,
    /// The same of what is proposed and not applied.
    growth_proposed: usize,
    /// Lists of calls whose memory is used again.
    spare: Vec<Vec<C>>,
}

impl<C> Default for Batch<C> {
    fn default() -> Batch<C> {
        Batch {
            entry: Vec::new(),
            calls: Vec::new(),
            growth: 0,
            growth_proposed: 0,
            spare: Vec::new(),
        }
    }
}

/// An entry that is not committed.
pub(super) struct Proposed<C> {
    pub position: Position,
    pub growth: usize,
    pub calls: Vec<C>,
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// A client's command. It is answered when it is done, or will not be.
    pub fn submit(&mut self, now_us: u64, call: C, bytes: &[u8]) {
        self.now_us = now_us;
        if self.leads_since_us.is_none() {
            return self.answer_not_leader(call);
        }
        let command = Command::decode(bytes);
        let growth = command.and_then(|command| self.state.check(&command).ok());
        let Some((command, growth)) = command.zip(growth) else {
            return self.answer(call, &Reply::of(Status::Malformed));
        };
        let growing = self.batch.growth + self.batch.growth_proposed + growth;
        if self.is_full || (growth > 0 && growing > self.state.room()) {
            return self.answer(call, &Reply::of(Status::Full));
        }
        if self.batch.entry.is_empty() {
            // The time is written when the entry is proposed.
            begin_entry(&mut self.batch.entry, 0);
        }
        command.encode(&mut self.batch.entry);
        self.batch.growth += growth;
        self.batch.calls.push(call);
        if self.batch.entry.len() >= ENTRY_BYTES || self.batch.calls.len() >= COMMANDS_MAX {
            self.propose_batch();
        }
    }

    /// Whether commands wait to be proposed.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.calls.is_empty()
    }

    /// Proposes the commands that have come, unless enough is on its way.
    pub(super) fn propose_if_few(&mut self) {
        if self.proposed.len() < ENTRIES_MAX {
            self.propose_batch();
        }
    }

    /// Proposes the commands that have come.
    pub(super) fn propose_batch(&mut self) {
        if self.batch.calls.is_empty() {
            return;
        }
        let spare = self.batch.spare.pop().unwrap_or_default();
        let calls = std::mem::replace(&mut self.batch.calls, spare);
        let growth = std::mem::take(&mut self.batch.growth);
        let proposed = self.propose_entry();
        match proposed {
            Ok(position) => {
                self.counters.commands += calls.len() as u64;
                self.batch.growth_proposed += growth;
                self.proposed.push_back(Proposed { position, growth, calls });
            }
            Err(refused) => {
                for call in calls {
                    match refused {
                        NotProposed::NotLeader { .. } => self.answer_not_leader(call),
                        NotProposed::HandingOver | NotProposed::Busy => {
                            self.answer(call, &Reply::of(Status::Busy));
                        }
                        NotProposed::TooLong => self.answer(call, &Reply::of(Status::Malformed)),
                    }
                }
            }
        }
    }

    /// Proposes the entry that was begun, with the time.
    fn propose_entry(&mut self) -> Result<Position, NotProposed> {
        let led_us = self.now_us - self.leads_since_us.unwrap_or(self.now_us);
        let mut entry = std::mem::take(&mut self.batch.entry);
        entry[8..16].copy_from_slice(&(led_us / 1000).to_le_bytes());
        let proposed = self.replica.propose(self.now_us, &entry);
        entry.clear();
        self.batch.entry = entry;
        self.proposed_us = self.now_us;
        self.counters.entries += u64::from(proposed.is_ok());
        proposed
    }

    /// When an entry without commands is due.
    pub(super) fn next_entry_us(&self) -> u64 {
        let is_needed = self.leads_since_us.is_some() && self.state.needs_clock();
        if is_needed { self.proposed_us + CLOCK_US } else { u64::MAX }
    }

    /// Lets the replicated clock go on.
    pub(super) fn propose_clock(&mut self) {
        if self.now_us >= self.next_entry_us() && self.batch.calls.is_empty() {
            begin_entry(&mut self.batch.entry, 0);
            if let Ok(position) = self.propose_entry() {
                let calls = self.batch.spare.pop().unwrap_or_default();
                self.proposed.push_back(Proposed { position, growth: 0, calls });
            }
        }
    }

    /// An entry is applied: gives the memory of its list of calls back.
    pub(super) fn spare(&mut self, growth: usize, mut calls: Vec<C>) {
        self.batch.growth_proposed -= growth;
        calls.clear();
        if self.batch.spare.len() < 16 {
            self.batch.spare.push(calls);
        }
    }

    /// This member does not lead any more: what it has proposed may be committed, or not (QR4).
    pub(super) fn give_up(&mut self) {
        let batch = std::mem::take(&mut self.batch.calls);
        (self.batch.growth, self.batch.growth_proposed) = (0, 0);
        self.batch.entry.clear();
        batch.into_iter().for_each(|call| self.answer_not_leader(call));
        while let Some(Proposed { calls, .. }) = self.proposed.pop_front() {
            for call in calls {
                self.counters.unknown += 1;
                self.answer(call, &Reply::of(Status::Unknown));
            }
        }
    }
}
