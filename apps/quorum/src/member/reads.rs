//! Reads (QR14 to QR16).

use std::collections::VecDeque;

use super::Member;
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};

/// How old the state may be that a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It sees everything that was acknowledged before the read began.
    Latest,
    /// It sees what this member has applied, whenever that was (QR16).
    Stale,
}

/// Reads that wait.
pub(super) struct Reads<C> {
    /// For a round.
    asking: VecDeque<(u64, C, Vec<u8>)>,
    /// For an entry to be applied.
    ready: VecDeque<(u64, C, Vec<u8>)>,
    /// Memory for queries.
    spare: Vec<Vec<u8>>,
    answer: Vec<u8>,
    following: Vec<Following<C>>,
}

/// A read that waits for news.
struct Following<C> {
    /// It is answered once more than this entry is applied,
    index: u64,
    /// or at this time.
    until_us: u64,
    call: C,
    query: Vec<u8>,
}

/// How long a read waits for news, in microseconds. Then it is answered with what there is: a
/// client that has gone is not kept for longer.
const FOLLOW_US: u64 = 1_000_000;
/// Reads that wait for news at most.
const FOLLOWING_MAX: usize = 1024;

impl<C> Default for Reads<C> {
    fn default() -> Reads<C> {
        let (asking, ready) = (VecDeque::new(), VecDeque::new());
        let following = Vec::new();
        Reads { asking, ready, spare: Vec::new(), answer: Vec::new(), following }
    }
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// A client's read. `now_us` has to be taken after it came.
    pub fn read(&mut self, now_us: u64, call: C, freshness: Freshness, query: &[u8]) {
        self.now_us = now_us;
        if freshness == Freshness::Stale {
            return self.answer_read(call, query);
        }
        let by_lease = self.replica.read_by_lease(now_us);
        if by_lease.is_some() {
            self.counters.reads_by_lease += 1;
        }
        match by_lease {
            Some(index) if index <= self.state.applied() => self.answer_read(call, query),
            Some(index) => {
                let query = self.reads.keep(query);
                self.reads.ready.push_back((index, call, query));
            }
            None => match self.replica.read() {
                Ok(round) => {
                    let query = self.reads.keep(query);
                    self.reads.asking.push_back((round, call, query));
                }
                Err(_) => self.answer_not_leader(call),
            },
        }
    }

    /// A client's read of what this member has applied, once that is more than the entry at
    /// `index`, or after a second (QR16).
    pub fn follow(&mut self, now_us: u64, call: C, index: u64, query: &[u8]) {
        self.now_us = now_us;
        if self.state.applied() > index {
            return self.answer_read(call, query);
        }
        if self.reads.following.len() >= FOLLOWING_MAX {
            return self.answer(call, &Reply::of(Status::Busy));
        }
        let query = self.reads.keep(query);
        let until_us = now_us + FOLLOW_US;
        self.reads.following.push(Following { index, until_us, call, query });
    }

    /// Answers reads that have waited for news.
    pub(super) fn answer_following(&mut self) {
        let (applied, now_us) = (self.state.applied(), self.now_us);
        let is_due = |of: &Following<C>| applied > of.index || now_us >= of.until_us;
        while let Some(at) = self.reads.following.iter().position(is_due) {
            let Following { call, query, .. } = self.reads.following.swap_remove(at);
            self.answer_read(call, &query);
            self.reads.spare(query);
        }
    }

    /// When the first of them is due without news.
    pub(super) fn next_following_us(&self) -> u64 {
        self.reads.following.iter().map(|of| of.until_us).min().unwrap_or(u64::MAX)
    }

    /// Reads that wait for `round` may be answered from the state at `index` on.
    pub(super) fn reads_confirmed(&mut self, round: u64, index: u64) {
        let reads = &mut self.reads;
        while let Some((_, call, query)) = reads.asking.pop_front_if(|(of, ..)| *of <= round) {
            reads.ready.push_back((index, call, query));
        }
    }

    /// Answers reads for which enough is applied.
    pub(super) fn answer_reads(&mut self) {
        let applied = self.state.applied();
        while let Some((_, call, query)) =
            self.reads.ready.pop_front_if(|(index, ..)| *index <= applied)
        {
            self.answer_read(call, &query);
            self.reads.spare(query);
        }
    }

    /// This member does not lead any more: others answer.
    pub(super) fn give_up_reads(&mut self) {
        let asking = std::mem::take(&mut self.reads.asking);
        for (_, call, query) in asking {
            self.answer_not_leader(call);
            self.reads.spare(query);
        }
    }

    fn answer_read(&mut self, call: C, query: &[u8]) {
        let mut answer = std::mem::take(&mut self.reads.answer);
        answer.clear();
        self.counters.reads += 1;
        match self.state.read(query, &mut answer) {
            Ok(()) => {
                let number = self.state.applied();
                self.answer(call, &Reply { status: Status::Done, number, bytes: &answer });
            }
            Err(_) => self.answer(call, &Reply::of(Status::Malformed)),
        }
        self.reads.answer = answer;
    }
}

impl<C> Reads<C> {
    fn keep(&mut self, query: &[u8]) -> Vec<u8> {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(query);
        kept
    }

    fn spare(&mut self, mut query: Vec<u8>) {
        query.clear();
        if self.spare.len() < 64 {
            self.spare.push(query);
        }
    }
}
