//! A turn: what the replica, its log and the snapshots' thread have to say to each other.

use petasos_journal::OwnedRecord;
use petasos_raft::{Diverged, Entry, Kind, MemberId, Output, Position};

use super::{Action, Member};
use crate::log::{Ended, Log};
use crate::machine::StateMachine;

impl<M: StateMachine + Send + 'static, L: Log, C> Member<M, L, C> {
    /// Ends a turn: proposes its commands, applies what is committed, and makes answers.
    ///
    /// # Errors
    /// The log contradicts the group's: the member ends, and joins anew.
    pub fn end_turn(&mut self, now_us: u64) -> Result<(), Diverged> {
        self.now_us = now_us;
        if now_us >= self.replica.next_tick_us() {
            self.replica.tick(now_us)?;
        }
        self.propose_if_few();
        self.propose_clock();
        self.hear_keeper()?;
        self.exchange()?;
        self.apply();
        if self.has_batch() {
            // What has waited for an entry that was committed.
            self.propose_if_few();
            self.exchange()?;
        }
        self.answer_reads();
        self.answer_following();
        if !self.waiting.is_empty() {
            self.answer_operators();
        }
        self.write_snapshot();
        Ok(())
    }

    /// Whether there is more to do at once.
    pub(super) fn has_more(&self) -> bool {
        self.state.applied() < self.replica.committed() || self.snapshots.has_more()
    }

    /// Does what the replica wants, and tells it what has ended, until neither says anything.
    fn exchange(&mut self) -> Result<(), Diverged> {
        let mut message = std::mem::take(&mut self.message);
        let mut result = Ok(());
        while result.is_ok() {
            if let Some(output) = self.replica.poll(&mut message) {
                self.output(output, &message);
            } else if let Some(ended) = self.log.next(&self.replica) {
                result = self.ended(ended);
            } else {
                break;
            }
        }
        self.message = message;
        result
    }

    fn output(&mut self, output: Output, message: &[u8]) {
        match output {
            Output::Write(write) => self.log.write(write, &self.replica),
            Output::Send { to } => {
                self.push(Action::Send(to), |bytes| bytes.extend_from_slice(message));
            }
            Output::Fetch { to, index } => self.log.fetch(to, index),
            Output::SendSnapshot { to } => self.begin_to_send(to),
            Output::Leader { leader, .. } => self.leader(leader),
            Output::Read { round, index } => self.reads_confirmed(round, index),
        }
    }

    /// Another leader is known, or none.
    fn leader(&mut self, leader: Option<MemberId>) {
        let leads = leader == Some(self.replica.id());
        match (leads, self.leads_since_us.is_some()) {
            (true, false) => self.leads_since_us = Some(self.now_us),
            (false, true) => {
                self.leads_since_us = None;
                self.give_up();
                self.give_up_reads();
                self.snapshots.give_up();
            }
            // It has led in another term.
            (true, true) => {
                self.leads_since_us = Some(self.now_us);
                self.give_up();
                self.give_up_reads();
            }
            (false, false) => {}
        }
    }

    fn ended(&mut self, ended: Ended) -> Result<(), Diverged> {
        let now_us = self.now_us;
        match ended {
            Ended::Done(token) => self.replica.done(now_us, token)?,
            Ended::Appended(upto) => self.replica.appended(now_us, upto)?,
            Ended::Full(is_full) => self.is_full = is_full,
            Ended::Fetched(to, records) => self.fetched(to, &records),
            Ended::Failed(error) => self.fail(error),
        }
        Ok(())
    }

    fn fetched(&mut self, to: MemberId, records: &[OwnedRecord]) {
        let entries = records.iter().map_while(|record| {
            let position = Position { term: record.term, index: record.place };
            Some(Entry { position, kind: Kind::of(record.kind)?, data: &record.data })
        });
        self.replica.fetched(self.now_us, to, entries);
    }
}
