//! Applies what is committed, and answers who waits for it.

use petasos_raft::Kind;

use super::submit::Proposed;
use super::{Action, Member};
use crate::log::Log;
use crate::machine::StateMachine;
use crate::reply::{Reply, Status};

/// Bytes of entries that are applied in a turn at most, so that others are heard meanwhile.
const TURN_BYTES: usize = 1 << 20;

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// Applies entries that are committed.
    pub(super) fn apply(&mut self) {
        let (committed, mut bytes) = (self.replica.committed(), 0);
        while self.state.applied() < committed && bytes < TURN_BYTES {
            bytes += self.apply_next();
        }
        if self.log.can_fetch() {
            self.replica.release(self.state.applied());
        }
    }

    /// Applies the next entry, and says how many bytes it had.
    fn apply_next(&mut self) -> usize {
        let index = self.state.applied() + 1;
        let entry = self.replica.entry(index).expect("what is not applied is in memory");
        let (position, length) = (entry.position, entry.data.len());
        self.snapshots.applied(length);
        if entry.kind != Kind::Command {
            self.state.skip(index);
            return length;
        }
        let is_mine = |proposed: &mut Proposed<C>| proposed.position == position;
        let Some(Proposed { mut calls, growth, .. }) = self.proposed.pop_front_if(is_mine) else {
            self.state.apply(index, position.term, entry.data, |_, _| {});
            return length;
        };
        let (actions, bytes) = (&mut self.actions, &mut self.bytes);
        let mut waiting = calls.drain(..);
        self.state.apply(index, position.term, entry.data, |_, outcome| {
            let Some(call) = waiting.next() else { return };
            let begin = bytes.len();
            Reply::of_outcome(outcome, index).append(bytes);
            actions.push_back((Action::Answer(call), begin..bytes.len()));
        });
        // All commands of an own entry are readable.
        let unanswered: Vec<C> = waiting.collect();
        for call in unanswered {
            self.answer(call, &Reply::of(Status::Malformed));
        }
        self.spare(growth, calls);
        length
    }
}
