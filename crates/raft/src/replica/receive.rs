//! Messages from other members.

use super::Replica;
use crate::core::Diverged;
use crate::message::{Message, Received, Refused, decode};

impl Replica {
    /// A message has come. Bytes are not believed, but who sends them has to be known to the
    /// caller: a member can end another one's leadership, and say what it likes about the log.
    ///
    /// # Errors
    /// [`Refused::Diverged`] is final: this replica's log contradicts the group's. After any other
    /// nothing has changed.
    pub fn receive(&mut self, now_us: u64, bytes: &[u8]) -> Result<(), Refused> {
        self.now_us = now_us;
        let Some(received) = decode(bytes) else {
            self.counters.malformed += 1;
            return Err(Refused::Malformed);
        };
        let envelope = received.envelope;
        let is_own = envelope.from == self.settings.id;
        if envelope.group != self.settings.group || envelope.to != self.settings.id || is_own {
            self.counters.misaddressed += 1;
            return Err(Refused::Misaddressed);
        }
        Ok(self.dispatch(&received)?)
    }

    fn dispatch(&mut self, received: &Received<'_>) -> Result<(), Diverged> {
        let (from, term) = (received.envelope.from, received.envelope.term);
        match received.message {
            Message::PreVote { last } => {
                self.pre_vote_asked(from, term, last);
                Ok(())
            }
            Message::PreVoteAnswer { asked, granted } => {
                self.pre_vote_answered(from, term, asked, granted)
            }
            Message::Vote { last, handing_over } => self.vote_asked(from, term, last, handing_over),
            Message::VoteAnswer { granted } => {
                self.core.vote_answered(from, term, granted)?;
                self.settle()
            }
            Message::Append(append) => self.follow(from, term, &append, received.entries),
            Message::Appended(appended) => self.acknowledged(from, term, &appended),
            Message::Stand => self.asked_to_stand(from, term),
        }
    }
}
