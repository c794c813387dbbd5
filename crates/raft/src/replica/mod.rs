//! A replica: what the library says, made safe for a disk, a network and clocks.
//!
//! Each input says what time it is, and is followed by [`Replica::poll`] until that has nothing
//! more to say. Inputs that come between are merged: all commands of a turn leave in one message
//! to each follower, and in one write.
//!
//! Invariants: the tail has the entries `begin+1..=last` of the library's log that are not
//! released; a message is written when it leaves, from the state of that time; nothing leaves
//! before what it promises is durable.

mod change;
mod elect;
mod follow;
mod hand_over;
mod lead;
mod reads;
mod receive;
mod send;
mod write;

use std::collections::VecDeque;

use petasos_base::Rng;

use self::elect::Election;
use self::follow::{Answer, Source};
use self::lead::Leading;
use self::write::Writes;
use crate::configurations::Configurations;
use crate::core::{Core, Diverged, Effect, LogBuilder};
use crate::durability::Durability;
use crate::entry::{Meaning, meaning};
use crate::message::Message;
use crate::tail::Tail;
use crate::{
    Counters, Entry, Kind, MemberId, Membership, Output, Position, Role, Settings, Status,
};

/// One member's part of a replicated log. See the crate's documentation.
pub struct Replica {
    settings: Settings,
    core: Core,
    effects: Vec<Effect>,
    configurations: Configurations,
    tail: Tail,
    durability: Durability,
    writes: Writes,
    election: Election,
    /// What the leader is owed.
    answer: Option<Answer>,
    leading: Option<Leading>,
    /// Messages that wait until the write of a token is durable.
    outbox: VecDeque<(u64, MemberId, Message)>,
    events: VecDeque<Output>,
    /// What was committed when the library was told to forget entries, and with that forgot it.
    committed_before: u64,
    /// Who led, and in which term, when that was said last.
    said: (u64, Option<MemberId>),
    now_us: u64,
    rng: Rng,
    counters: Counters,
}

/// What a replica's files have, as it starts.
pub struct Restored {
    term: u64,
    vote: Option<MemberId>,
    log: LogBuilder,
    configurations: Configurations,
    tail: Tail,
}

/// An entry that does not follow on the one before it, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {index} of the log is not what a replica has written there")]
pub struct NotAnEntry {
    /// Its place.
    pub index: u64,
}

impl Restored {
    /// A replica without files, or whose log begins behind a snapshot. `hard_state` is the term and
    /// the vote that were written last.
    pub fn new(
        hard_state: (u64, Option<MemberId>),
        snapshot: Position,
        membership: Membership,
    ) -> Restored {
        let (term, vote) = hard_state;
        Restored {
            term,
            vote,
            log: LogBuilder::new(snapshot, &membership),
            configurations: Configurations::new(snapshot.index, membership),
            tail: Tail::new(snapshot.index + 1),
        }
    }

    /// The next entry of the log.
    ///
    /// # Errors
    /// If no replica has written it there.
    pub fn entry(&mut self, entry: Entry<'_>) -> Result<(), NotAnEntry> {
        let Entry { position: Position { term, index }, kind, data } = entry;
        let wrong = NotAnEntry { index };
        let meaning = meaning(kind, data).ok_or(wrong)?;
        let last = self.log.last();
        let expected = match meaning {
            Meaning::Term(begun) if begun > last.term => begun,
            Meaning::Term(_) => return Err(wrong),
            _ => last.term,
        };
        if index != last.index + 1 || term != expected || term > self.term {
            return Err(wrong);
        }
        self.log.push(&meaning);
        self.tail.push(kind, data);
        if let Meaning::Configuration(membership) = meaning {
            self.configurations.push(index, membership);
        }
        Ok(())
    }
}

impl Replica {
    /// A replica that goes on from what its files have. `seed` decides its election timeouts.
    pub fn new(settings: Settings, restored: Restored, now_us: u64, seed: u64) -> Replica {
        let Restored { term, vote, log, configurations, tail } = restored;
        let mut rng = Rng::new(seed);
        let next = tail.next();
        Replica {
            core: Core::new(settings.id, term, vote, log),
            effects: Vec::new(),
            configurations,
            tail,
            durability: Durability::new(next - 1),
            writes: Writes::new(next),
            election: Election::new(&settings, now_us, &mut rng),
            answer: None,
            leading: None,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            committed_before: 0,
            said: (term, None),
            now_us,
            rng,
            counters: Counters::default(),
            settings,
        }
    }

    /// Its number.
    pub fn id(&self) -> MemberId {
        self.settings.id
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.core.role()
    }

    /// Its term.
    pub fn term(&self) -> u64 {
        self.core.term()
    }

    /// Who leads, as far as it knows.
    pub fn leader(&self) -> Option<MemberId> {
        match self.leading {
            Some(_) => Some(self.settings.id),
            None => self.election.leader,
        }
    }

    /// The last entry of its log.
    pub fn last(&self) -> Position {
        self.core.last()
    }

    /// The last entry that is committed, and durable here: what may be applied. A leader counts
    /// itself only as far as its own writes have ended (QR5).
    pub fn committed(&self) -> u64 {
        self.core.commit().min(self.durability.entries()).max(self.committed_before)
    }

    /// The configuration that counts: the latest of the log, committed or not.
    pub fn membership(&self) -> &Membership {
        self.configurations.latest()
    }

    /// The entry of that configuration.
    pub fn membership_index(&self) -> u64 {
        self.configurations.latest_index()
    }

    /// The configuration at an entry of the log, for a snapshot there.
    pub fn membership_at(&self, index: u64) -> &Membership {
        self.configurations.at(index)
    }

    /// The position of an entry, if the log has it or begins behind it.
    pub fn position(&self, index: u64) -> Option<Position> {
        self.core.position(index)
    }

    /// An entry, if it is in memory. Those that were not [released](Replica::release) are.
    pub fn entry(&self, index: u64) -> Option<Entry<'_>> {
        let (kind, data) = self.tail.get(index)?;
        let position = self.core.position(index)?;
        Some(Entry { position, kind, data })
    }

    /// What it has counted, and where it stands.
    pub fn status(&self) -> Status {
        let followers = self.leading.iter().flat_map(|leading| &leading.peers);
        Status {
            role: self.role(),
            term: self.term(),
            leader: self.leader(),
            last: self.last(),
            committed: self.committed(),
            durable: self.durability.entries(),
            followers: followers.map(|peer| (peer.id, peer.acked)).collect(),
            counters: self.counters,
        }
    }

    /// Entries up to `applied` are not needed any longer by the caller: of those only some are kept
    /// in memory, for followers that are behind.
    pub fn release(&mut self, applied: u64) {
        let applied = applied.min(self.committed());
        while self.tail.first() <= applied && self.tail.bytes() > self.settings.kept_bytes {
            // By blocks, since that is how memory comes back.
            let step = (applied - self.tail.first()).div_ceil(8).max(1);
            self.tail.release(self.tail.first() + step);
        }
    }

    /// When [`tick`](Replica::tick) is due, in microseconds of the time that inputs have.
    pub fn next_tick_us(&self) -> u64 {
        match &self.leading {
            Some(leading) => leading.next_us(),
            None => self.election.at_us,
        }
    }

    /// It is so late.
    ///
    /// # Errors
    /// See [`Replica::receive`].
    pub fn tick(&mut self, now_us: u64) -> Result<(), Diverged> {
        self.now_us = now_us;
        match self.leading {
            Some(_) => self.lead(),
            None if now_us >= self.election.at_us => self.look_for_a_leader(),
            None => Ok(()),
        }
    }

    /// Does what follows from a call of the library.
    fn settle(&mut self) -> Result<(), Diverged> {
        self.settle_with(Source::Own)
    }

    /// Does what follows from a call of the library, which may have appended entries of `source`.
    fn settle_with(&mut self, source: Source<'_>) -> Result<(), Diverged> {
        // A follower that is told to start anew may have cut its log without saying so.
        self.forget_behind(self.core.last().index);
        let mut effects = std::mem::take(&mut self.effects);
        self.core.effects(&mut effects);
        let mut result = Ok(());
        for effect in effects.drain(..) {
            result = result.and_then(|()| self.effect(&effect, source));
        }
        self.effects = effects;
        self.change_role();
        result
    }

    fn effect(&mut self, effect: &Effect, source: Source<'_>) -> Result<(), Diverged> {
        match *effect {
            Effect::SaveHardState => self.writes.hard_state(&mut self.durability),
            Effect::RestartTimer => self.restart_timer(),
            Effect::Appended { previous, last } => self.appended_here(previous, last, source),
            Effect::AskForVotes => self.ask_for_votes(),
            Effect::Vote { to, granted } => self.say(to, Message::VoteAnswer { granted }),
            Effect::Acknowledge { to } => self.owe(to),
            // Entries are sent by what the leader knows of its followers.
            Effect::Send => {}
        }
        Ok(())
    }

    /// Sends a message once the hard state, as it is now, is durable.
    fn say(&mut self, to: MemberId, message: Message) {
        self.outbox.push_back((self.durability.barrier(), to, message));
    }

    /// The log ends with `last`: what was in memory behind it is gone.
    fn forget_behind(&mut self, last: u64) {
        if last + 1 < self.tail.next() {
            self.tail.truncate(last + 1);
            self.configurations.truncate(last + 1);
        }
    }

    /// Appends an entry to what is in memory.
    fn keep(&mut self, kind: Kind, data: &[u8]) {
        if let Some(Meaning::Configuration(membership)) = meaning(kind, data) {
            self.configurations.push(self.tail.next(), membership);
        }
        self.tail.push(kind, data);
    }
}
