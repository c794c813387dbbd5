//! A member: a replica, its log, the state, and clients that wait (QR1, QR2, QR3, QR4).
//!
//! It has no sockets and no clock: whoever drives it says what time it is and what has come, ends
//! each turn with [`Member::end_turn`], and does what [`Member::act`] gives it. All commands of a
//! turn are one entry, and all reads of a turn one round.

mod admin;
mod apply;
mod keeper;
mod open;
mod reads;
mod snapshots;
mod submit;
mod turn;

use std::collections::VecDeque;
use std::ops::Range;

use petasos_journal::{Error, SnapshotId};
use petasos_raft::{MemberId, Membership, Refused, Replica};

pub use self::admin::Admin;
use self::admin::Waiting;
use self::keeper::Keeper;
pub use self::keeper::read_state;
pub use self::open::{MemberConfig, Parts};
pub use self::reads::Freshness;
use self::reads::Reads;
use self::snapshots::Snapshots;
use self::submit::{Batch, Proposed};
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};
use crate::state::Replicated;

/// What whoever drives a member has to do. The bytes come with it.
#[derive(Debug)]
pub enum Action<C> {
    /// The bytes are a message for a member.
    Send(MemberId),
    /// The bytes are a piece of a snapshot for a member. What comes of it is told by
    /// [`Member::piece_answered`].
    Piece {
        /// The member.
        to: MemberId,
        /// The snapshot.
        id: SnapshotId,
        /// Where the piece begins.
        at: u64,
    },
    /// The bytes are the response to a call.
    Answer(C),
    /// The member's files have failed: it ends (QR20).
    Failed(Error),
}

/// A member. `C` names a call of a client: what the driver needs to answer it.
pub struct Member<M, L, C> {
    replica: Replica,
    log: L,
    state: Replicated<M>,
    batch: Batch<C>,
    /// Entries that are not committed, in order, with the calls of their commands.
    proposed: VecDeque<Proposed<C>>,
    reads: Reads<C>,
    waiting: Vec<Waiting<C>>,
    snapshots: Snapshots<C>,
    keeper: Keeper<M>,
    actions: VecDeque<(Action<C>, Range<usize>)>,
    /// The bytes of actions.
    bytes: Vec<u8>,
    /// Kept for its memory.
    message: Vec<u8>,
    now_us: u64,
    /// Since when it leads.
    leads_since_us: Option<u64>,
    /// When it proposed last.
    proposed_us: u64,
    /// Whether its disk has no space for more.
    is_full: bool,
    counters: MemberCounters,
}

/// What a member has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounters {
    /// Commands that were proposed.
    pub commands: u64,
    /// Entries that they were in.
    pub entries: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Those that were answered by a lease.
    pub reads_by_lease: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Commands that ended as *unknown*.
    pub unknown: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Snapshots that were taken over from a leader.
    pub installed: u64,
}

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// The replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The state.
    pub fn state(&self) -> &Replicated<M> {
        &self.state
    }

    /// Who belongs to the group, as far as this member knows.
    pub fn membership(&self) -> &Membership {
        self.replica.membership()
    }

    /// What it has counted.
    pub fn counters(&self) -> MemberCounters {
        self.counters
    }

    /// Whether its disk has no space for more commands.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// A message from a member has come.
    ///
    /// # Errors
    /// See [`Replica::receive`].
    pub fn message(&mut self, now_us: u64, bytes: &[u8]) -> Result<(), Refused> {
        self.now_us = now_us;
        self.replica.receive(now_us, bytes)
    }

    /// A connection to a member has ended.
    pub fn disconnected(&mut self, now_us: u64, member: MemberId) {
        self.now_us = now_us;
        self.replica.disconnected(now_us, member);
    }

    /// The member is about to end: if it leads, it hands over to the voter that has the most (QR7).
    pub fn leave(&mut self, now_us: u64) {
        self.now_us = now_us;
        self.propose_batch();
        let mut followers = self.replica.status().followers;
        followers.sort_unstable_by_key(|(_, acknowledged)| *acknowledged);
        let is_done = |id: &MemberId| self.replica.hand_over(now_us, *id).is_ok();
        // Learners are refused. Without another voter, nobody can lead.
        let _ = followers.iter().rev().map(|(id, _)| *id).find(is_done);
    }

    /// When the next turn is due if nothing comes, in microseconds.
    pub fn next_turn_us(&self) -> u64 {
        let tick_us = self.replica.next_tick_us().min(self.next_entry_us());
        if self.has_more() { 0 } else { tick_us.min(self.next_following_us()) }
    }

    /// Gives all actions, with their bytes.
    pub fn act(&mut self, mut act: impl FnMut(Action<C>, &[u8])) {
        while let Some((action, range)) = self.actions.pop_front() {
            act(action, &self.bytes[range]);
        }
        self.bytes.clear();
    }

    fn push(&mut self, action: Action<C>, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        self.actions.push_back((action, begin..self.bytes.len()));
    }

    fn answer(&mut self, call: C, reply: &Reply<'_>) {
        if reply.status.is_not_done() {
            self.counters.refused += 1;
        }
        self.push(Action::Answer(call), |to| reply.append(to));
    }

    /// The answer of a member that does not lead: who does, if it knows (QR13).
    fn answer_not_leader(&mut self, call: C) {
        let leader = self.replica.leader().and_then(|leader| self.membership().get(leader));
        let contact = leader.and_then(|leader| crate::contact::Contact::decode(&leader.context));
        let address = contact.map(|contact| contact.address.to_string()).unwrap_or_default();
        let reply = Reply { bytes: address.as_bytes(), ..Reply::of(Status::NotLeader) };
        self.answer(call, &reply);
    }

    fn fail(&mut self, error: Error) {
        self.push(Action::Failed(error), |_| {});
    }
}
