//! A follower: entries that come, and what their leader is told (QR5).

use super::Replica;
use crate::core::Diverged;
use crate::entry::meaning;
use crate::message::{Append, Appended, Entries, Message};
use crate::{Kind, MemberId, Position};

/// Where entries come from that the library has appended.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// From this replica, which leads.
    Own,
    /// From a leader's message, behind this index.
    Leader { previous: u64, entries: Entries<'a> },
}

/// What a leader is owed.
pub(super) struct Answer {
    to: MemberId,
    round: u64,
    /// Whether it is said now.
    is_due: bool,
    /// Whether there are entries that it was not told of, as they were not durable.
    is_partial: bool,
    /// Whether the last entries that came did not follow on the log.
    has_gap: bool,
}

impl Replica {
    /// A leader's entries.
    pub(super) fn follow(
        &mut self,
        from: MemberId,
        term: u64,
        append: &Append,
        entries: Entries<'_>,
    ) -> Result<(), Diverged> {
        if term < self.core.term() {
            // It has to hear of the later term, and of nothing else.
            let (last, round, end, has_gap) = (Position::ZERO, 0, 0, false);
            self.say(from, Message::Appended(Appended { last, round, end, has_gap }));
            return Ok(());
        }
        // The library may take more entries back than it has to, and a crash before they are
        // written again would lose what was acknowledged: it gets only those that are new here.
        let (common, previous) = self.common(append.previous, entries);
        let new = entries.iter().skip(common);
        if self.would_lose(previous, entries.count() > common) {
            return Err(Diverged);
        }
        let meanings = new.map(|(kind, data)| {
            meaning(kind, data).expect("entries have been checked as they were decoded")
        });
        self.core.append(from, term, append.commit, previous, meanings)?;
        self.settle_with(Source::Leader { previous: append.previous.index, entries })?;
        if term == self.core.term() && self.leading.is_none() {
            self.heard(from, append.lease);
            let follows = self.core.position(append.previous.index) == Some(append.previous);
            self.answer_round(append.round, entries.is_empty(), follows);
        }
        Ok(())
    }

    /// How many of a message's entries, behind `previous`, are those of the log, and the position
    /// of the last of them.
    fn common(&self, previous: Position, entries: Entries<'_>) -> (usize, Position) {
        let (mut count, mut last) = (0, previous);
        if self.core.position(previous.index) != Some(previous) {
            return (count, last);
        }
        for (kind, data) in entries.iter() {
            let begun = matches!(kind, Kind::Term).then(|| data.first_chunk()).flatten();
            let term = begun.map_or(last.term, |bytes| u64::from_le_bytes(*bytes));
            let position = Position { term, index: last.index + 1 };
            if self.core.position(position.index) != Some(position) {
                break;
            }
            (count, last) = (count + 1, position);
        }
        (count, last)
    }

    /// Whether entries behind `previous` would take back what is committed: whoever sends them, or
    /// this replica, has lost it.
    fn would_lose(&self, previous: Position, has_new: bool) -> bool {
        let first = match self.core.position(previous.index) {
            Some(mine) if mine == previous => previous.index + 1,
            Some(_) => previous.index,
            None => return false,
        };
        first <= self.committed() && (has_new || first == previous.index)
    }

    /// The log has changed behind `previous`, and ends with `last`.
    pub(super) fn appended_here(&mut self, previous: Position, last: Position, source: Source<'_>) {
        // Also a new leader may have cut its log since, without having written that.
        self.writes.truncate(previous.index + 1, &mut self.durability);
        match source {
            Source::Own => self.keep_own(last.index),
            Source::Leader { previous: before, entries } => {
                self.forget_behind(previous.index);
                let skip = usize::try_from(previous.index - before).unwrap_or(usize::MAX);
                entries.iter().skip(skip).for_each(|(kind, data)| self.keep(kind, data));
            }
        }
        debug_assert_eq!(self.tail.next(), last.index + 1, "the log and its data are alike");
    }

    /// Entries that the library has made: the first of a term, and the end of a joint
    /// configuration.
    fn keep_own(&mut self, last: u64) {
        for index in self.tail.next()..=last {
            if let Some(term) = self.core.begun_term(index) {
                self.keep(Kind::Term, &term.to_le_bytes());
            } else {
                debug_assert!(
                    self.core.is_configuration(index),
                    "commands are kept by who proposes"
                );
                let mut data = Vec::new();
                self.membership().settled().encode(&mut data);
                self.keep(Kind::Configuration, &data);
            }
        }
    }

    pub(super) fn owe(&mut self, to: MemberId) {
        if self.answer.as_ref().is_none_or(|answer| answer.to != to) {
            self.answer =
                Some(Answer { to, round: 0, is_due: false, is_partial: false, has_gap: false });
        }
    }

    /// A round is answered at once, entries when they are durable.
    fn answer_round(&mut self, round: u64, is_bare: bool, follows: bool) {
        let all_durable = self.all_is_durable();
        if let Some(answer) = &mut self.answer {
            answer.has_gap = !follows && !is_bare;
            answer.is_due |= answer.has_gap;
            answer.is_due |= is_bare || round > answer.round || all_durable;
            answer.is_partial |= !is_bare;
            answer.round = answer.round.max(round);
        }
    }

    pub(super) fn answer_when_durable(&mut self) {
        let all_durable = self.all_is_durable();
        if let Some(answer) = &mut self.answer {
            answer.is_due |= answer.is_partial && all_durable;
        }
    }

    fn all_is_durable(&self) -> bool {
        self.durability.entries() >= self.core.last().index
    }

    /// The answer that is due, if nothing has to be durable before.
    pub(super) fn poll_answer(&mut self) -> Option<(MemberId, Message)> {
        let is_free = self.durability.is_done(self.durability.barrier());
        let all_durable = self.all_is_durable();
        let answer = self.answer.as_mut().filter(|answer| answer.is_due && is_free)?;
        (answer.is_due, answer.is_partial) = (false, answer.is_partial && !all_durable);
        let (to, round) = (answer.to, answer.round);
        let has_gap = std::mem::take(&mut answer.has_gap);
        let end = self.core.last().index;
        let last = self.core.position(self.durability.entries().min(end));
        let last = last.expect("what is durable is in the log");
        Some((to, Message::Appended(Appended { last, round, end, has_gap })))
    }
}
