//! Pairs: requests to groups of workers, at the client (`docs/spec/route.md`, RT10 to RT14).
//!
//! A request *asks* for a worker by a first packet, which is repeated a few times. Whoever answers
//! first binds the pair: what follows is a session of one slot, which this module does not know. An
//! entry remembers its last pair, so that workers that answer late learn that nobody waits.
//!
//! The caller looks up who has sent a packet ([`Member`]), splits off the worker block, and opens
//! what is sealed. It uses the methods in this order each turn: [`Pairs::handle`] for packets that
//! have arrived, [`Pairs::handle_timers`], [`Pairs::ask`] and other commands, then
//! [`Pairs::poll_over`] and [`Pairs::poll_first`] until they return `None`.
//!
//! Invariants:
//! - an entry has a context exactly while its pair has not ended;
//! - an attachment's `asked` counts the pairs that ask by it;
//! - a pair that asks is in the wheel, or in the queue of those that send;
//! - at most one session is bound to a pair, ever (RT15).

mod answer;
mod attachment;
mod entry;
mod timers;
mod types;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use petasos_base::Wheel;
use petasos_wire::{REQUEST_NUMBERS, TAG_MAX};

use attachment::Attachment;
use entry::{Asked, Entry, Sending, Sendings, State};
pub use types::{
    Answer, Answered, Arrival, AskError, Asking, AttachmentId, First, Member, Over, PairId, Why,
    WorkerSession,
};

/// The bit of an index that says that it is a pair's (RT10).
pub const PAIR_BIT: u32 = 1 << 19;
/// Pairs that an endpoint has at most (RT39).
pub const PAIRS_MAX: u32 = 1 << 19;
/// Entries that have to be free before one is used again: late answers still find its last pair.
const RESTING_MIN: usize = 64;
/// Sendings of a first packet, without those that follow a change of the router (RT13).
const SENDINGS_MAX: u32 = 4;
const TIMER_SLOT_NS: u64 = 1 << 20;
const TIMER_REACH_NS: u64 = 1 << 32;

/// How long pairs wait (RT13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairConfig {
    /// The shortest wait for an answer before the first packet is repeated.
    pub ask_min: Duration,
    /// The same, before there was an answer.
    pub ask_initial: Duration,
    /// The longest, before it is doubled for the next.
    pub ask_max: Duration,
    /// A pair without an answer ends after this long since its last sending.
    pub silence: Duration,
}

impl Default for PairConfig {
    /// As the specification says: 4 ms to 400 ms, and 2 s. 20 ms before there was an answer.
    fn default() -> PairConfig {
        PairConfig {
            ask_min: Duration::from_millis(4),
            ask_initial: Duration::from_millis(20),
            ask_max: Duration::from_millis(400),
            silence: Duration::from_secs(2),
        }
    }
}

petasos_base::counters! {
    /// What the pairs of an endpoint did.
    pub struct PairStats {
        /// Pairs that asked.
        asked,
        /// First packets sent, repetitions included.
        first_packets,
        /// Of these, repetitions.
        repetitions,
        /// Repetitions that the budget did not allow (RT13).
        repetitions_held,
        /// Pairs that were bound to a session.
        bound,
        /// Pairs that were answered at once.
        completed,
        /// Pairs that were rejected.
        rejected,
        /// Pairs that ended without an answer.
        unanswered,
        /// Sessions that nobody wanted.
        cancels,
        /// Packets of no pair, or of one that has ended.
        stale,
        /// Packets that answer nothing that was sent, or are from somebody else (RT10).
        from_elsewhere,
        /// Packets that contradict themselves, or cannot come in the pair's state (RT11).
        void,
    }
}

/// The pairs of an endpoint. `C` is the caller's data of a call. See the module's documentation.
#[derive(Debug)]
pub struct Pairs<C> {
    config: PairConfig,
    entries: Vec<Entry<C>>,
    /// In the order in which they became free (RT10).
    free: VecDeque<u32>,
    /// Few: at most one for each router, and those that were replaced lately.
    attachments: Vec<Attachment>,
    next_request: u64,
    wheel: Wheel<u32>,
    /// What is due; empty but for a moment.
    due: Vec<u32>,
    /// Pairs that send now.
    ready: VecDeque<u32>,
    over: VecDeque<Over<C>>,
    stats: PairStats,
}

impl<C> Pairs<C> {
    /// No pairs.
    pub fn new(config: PairConfig) -> Pairs<C> {
        Pairs {
            config,
            entries: Vec::new(),
            free: VecDeque::new(),
            attachments: Vec::new(),
            next_request: 0,
            wheel: Wheel::new(TIMER_SLOT_NS, TIMER_REACH_NS),
            due: Vec::new(),
            ready: VecDeque::new(),
            over: VecDeque::new(),
            stats: PairStats::default(),
        }
    }

    /// Pairs may ask by this attachment, so many at a time, in this epoch (RT33).
    ///
    /// # Panics
    /// If there is one with this number.
    pub fn attach(&mut self, id: AttachmentId, asked_max: u32, epoch: u16) {
        assert!(self.attachment(id).is_none(), "numbers of attachments are not used twice");
        self.attachments.push(Attachment::new(id, asked_max, epoch));
    }

    /// First packets by this attachment name another epoch from now on (RT30).
    pub fn set_epoch(&mut self, id: AttachmentId, epoch: u16) {
        if let Some(attachment) = self.attachment_mut(id) {
            attachment.epoch = epoch;
        }
    }

    /// The attachment has ended. Pairs that ask by it and were not moved end (RT35); those that are
    /// bound go on.
    pub fn detach(&mut self, id: AttachmentId) {
        self.end_asked(id);
        self.attachments.retain(|attachment| attachment.id != id);
    }

    /// Another router is active, or the endpoint has attached anew: pairs that ask by `from` ask by
    /// `to`, at once, as far as that lets (RT38).
    pub fn move_asked(&mut self, from: AttachmentId, to: AttachmentId) {
        self.each_asked(from, |this, at| {
            let is_admitted = this.attachment(to).is_some_and(|to| to.admit().is_ok());
            if !is_admitted {
                return;
            }
            if let State::Asked(asked) = &mut this.entries[at as usize].state {
                (asked.attachment, asked.is_moved) = (to, true);
                this.count_asked(from, -1);
                this.count_asked(to, 1);
                this.send_now(at);
            }
        });
    }

    /// Nobody is expected to answer at the attachment any more: pairs that ask by it end. Those
    /// that are bound go on.
    pub fn end_asked(&mut self, id: AttachmentId) {
        self.each_asked(id, |this, at| this.give_over(at, Why::Detached));
    }

    /// A request asks for a worker. Its first packet comes from [`Pairs::poll_first`].
    ///
    /// # Errors
    /// See [`AskError`]; the caller's data are given back.
    ///
    /// # Panics
    /// If the tag has more than 28 bits.
    pub fn ask(
        &mut self,
        attachment: AttachmentId,
        asking: Asking,
        context: C,
    ) -> Result<PairId, (AskError, C)> {
        assert!(asking.tag < TAG_MAX, "a tag has 28 bits");
        let admitted = self.attachment(attachment).map_or(Err(AskError::Ended), |it| it.admit());
        let place = admitted.and_then(|()| self.place().ok_or(AskError::Full));
        let at = match place {
            Ok(at) => at,
            Err(error) => return Err((error, context)),
        };
        let request = self.next_request;
        self.next_request = (request + 1) % REQUEST_NUMBERS;
        let tag = asking.tag;
        let state = State::Asked(Asked::new(attachment, asking));
        let entry = &mut self.entries[at as usize];
        // The wheel and the queue may still have it.
        let (timed_at, is_ready) = (entry.timed_at, entry.is_ready);
        let (context, sendings) = (Some(context), Sendings::default());
        *entry = Entry { tag, request, state, context, sendings, timed_at, is_ready };
        self.count_asked(attachment, 1);
        self.stats.asked += 1;
        self.send_now(at);
        Ok(PairId { index: at | PAIR_BIT, request })
    }

    /// The call is given up, or its session has ended: the pair ends, and nothing is sent for it
    /// here. A session that it is bound to is told by the caller (W21). `None` if the pair has
    /// ended already.
    pub fn end(&mut self, pair: PairId) -> Option<C> {
        let at = self.at(pair)?;
        Some(self.end_at(at))
    }

    /// The caller's data of a pair; `None` if it has ended.
    pub fn context(&mut self, pair: PairId) -> Option<&mut C> {
        let at = self.at(pair)?;
        self.entries[at as usize].context.as_mut()
    }

    /// The session that a pair is bound to.
    pub fn bound(&self, pair: PairId) -> Option<WorkerSession> {
        match self.entries[self.at(pair)? as usize].state {
            State::Bound(session) => Some(session),
            _ => None,
        }
    }

    /// The pairs that have not ended and for which `is` holds.
    pub fn unended(&self, is: impl Fn(&C) -> bool) -> Vec<PairId> {
        let entries = self.entries.iter().enumerate();
        let those = entries.filter(|(_, entry)| entry.context.as_ref().is_some_and(&is));
        let id = |(at, entry): (usize, &Entry<C>)| PairId {
            index: at as u32 | PAIR_BIT,
            request: entry.request,
        };
        those.map(id).collect()
    }

    /// How many pairs have not ended.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether all pairs have ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the attachment's numbers are half used: the endpoint attaches anew (RT3).
    pub fn is_worn(&self, id: AttachmentId) -> bool {
        self.attachment(id).is_some_and(Attachment::is_worn)
    }

    /// Pairs that ask by an attachment.
    pub fn asked(&self, id: AttachmentId) -> u32 {
        self.attachment(id).map_or(0, |attachment| attachment.asked)
    }

    /// What was done so far.
    pub fn stats(&self) -> &PairStats {
        &self.stats
    }

    /// The place of the next pair.
    fn place(&mut self) -> Option<u32> {
        let may_grow = self.entries.len() < PAIRS_MAX as usize;
        if self.free.len() > RESTING_MIN || !may_grow {
            return self.free.pop_front();
        }
        self.entries.push(Entry::new());
        Some((self.entries.len() - 1) as u32)
    }

    fn at(&self, pair: PairId) -> Option<u32> {
        let at = pair.index & !PAIR_BIT;
        self.entries.get(at as usize).filter(|entry| entry.is(pair)).map(|_| at)
    }

    fn attachment(&self, id: AttachmentId) -> Option<&Attachment> {
        self.attachments.iter().find(|attachment| attachment.id == id)
    }

    fn attachment_mut(&mut self, id: AttachmentId) -> Option<&mut Attachment> {
        self.attachments.iter_mut().find(|attachment| attachment.id == id)
    }

    fn count_asked(&mut self, id: AttachmentId, by: i32) {
        if let Some(attachment) = self.attachment_mut(id) {
            attachment.asked = attachment.asked.checked_add_signed(by).expect("pairs are counted");
        }
    }

    /// Does something with each pair that asks by an attachment.
    fn each_asked(&mut self, id: AttachmentId, mut run: impl FnMut(&mut Self, u32)) {
        for at in 0..self.entries.len() {
            let state = self.entries[at].state;
            if matches!(state, State::Asked(asked) if asked.attachment == id) {
                run(self, at as u32);
            }
        }
    }

    /// Ends a pair. Its entry still knows it.
    fn end_at(&mut self, at: u32) -> C {
        self.leave_asked(at);
        let entry = &mut self.entries[at as usize];
        entry.state = State::Ended;
        self.free.push_back(at);
        entry.context.take().expect("a pair that has not ended has one")
    }

    /// The pair asks no more.
    fn leave_asked(&mut self, at: u32) {
        if let State::Asked(asked) = self.entries[at as usize].state {
            self.count_asked(asked.attachment, -1);
        }
    }
}
