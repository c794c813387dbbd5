//! Requests to a group of workers, at the worker (`docs/spec/route.md`, RT16 to RT18).
//!
//! A first packet brings a whole request, which runs at once, or a claim, which only asks for the
//! worker: it lapses unless its client sends the request. From then on, and for answers that are
//! kept, a pair has a session of one slot, which this module does not know. It knows how long
//! everything is kept, and that each given number is settled once ([`GivenNumbers`]).
//!
//! The caller looks up clients, opens what is sealed, and judges first packets (RT16, step 3). It
//! uses the methods in this order each turn: [`TakenRequests::arrive`] and what follows from it
//! for first packets, [`TakenRequests::find`] and what follows for those of sessions,
//! [`TakenRequests::handle_timers`], [`TakenRequests::answer`] and other commands, then
//! [`TakenRequests::poll_due`] until it returns `None`, and at last the feedback of each membership
//! ([`TakenRequests::given`]).
//!
//! Invariants:
//! - an entry has a number exactly while its request is not settled, that is until it was answered,
//!   rejected, or cancelled and its handler has ended;
//! - an entry has a context exactly while there is a session, also one that nobody was told of;
//! - an account's `sessions` counts the entries of its client that are not free, and `in_use` all;
//! - an entry that waits for a time is in the wheel, or in the queue of those that are due.

mod accounts;
mod answers;
mod entry;
mod packets;
mod timers;
mod types;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use petasos_base::{Time, Wheel};
use petasos_wire::TAG_MAX;

use accounts::Accounts;
use entry::{Entry, State};
pub use types::{
    Answered, Arrived, Asker, Due, MembershipId, NoRoom, Part, Progress, SessionName, TakenConfig,
    TakenId,
};

use types::GENERATIONS;

use crate::given::{GivenNumbers, GivenStats, Taken};
use crate::pairs::PAIR_BIT;

const TIMER_SLOT_NS: u64 = 1 << 20;
const TIMER_REACH_NS: u64 = 1 << 32;

petasos_base::counters! {
    /// What a worker did with first packets.
    pub struct TakenStats {
        /// Whole requests that were taken.
        whole,
        /// Claims that were taken.
        claims,
        /// First packets for which there was no room.
        no_room,
        /// Readies sent, repetitions included.
        readies,
        /// Claims whose request came in time.
        confirmed,
        /// Claims whose request came after they had lapsed.
        confirmed_late,
        /// Claims that were not confirmed in time.
        lapsed,
        /// Requests that stopped coming, or came too slowly.
        stalled,
        /// Requests whose deadline passed before they were complete.
        expired,
        /// Requests whose client gave up.
        cancelled,
        /// Answers that nothing is kept of.
        left,
        /// Answers and rejections that are kept.
        kept,
        /// Of these, kept until `keep` had passed.
        forgotten,
    }
}

/// A membership, as far as its requests are concerned.
#[derive(Debug)]
struct Membership {
    id: MembershipId,
    given: GivenNumbers,
    /// How long its clients' claims are kept, unless they have let others lapse.
    claim: Duration,
}

/// The requests that a worker has taken. `C` is the caller's data of one. See the module's
/// documentation.
#[derive(Debug)]
pub struct TakenRequests<C> {
    config: TakenConfig,
    entries: Vec<Entry<C>>,
    /// In the order in which they became free.
    free: VecDeque<u32>,
    in_use: u32,
    accounts: Accounts,
    /// Few: at most one for each router, and those that were replaced lately.
    memberships: Vec<Membership>,
    wheel: Wheel<u32>,
    /// What the wheel has returned; empty but for a moment.
    expired: Vec<u32>,
    /// Entries for which the time has come.
    due: VecDeque<u32>,
    stats: TakenStats,
    /// Of memberships that have ended.
    given_before: GivenStats,
    handlers_ended: u32,
}

impl<C> TakenRequests<C> {
    /// No requests.
    ///
    /// # Panics
    /// If the configuration has more sessions than indices.
    pub fn new(config: TakenConfig) -> TakenRequests<C> {
        assert!(config.sessions_max <= PAIR_BIT, "indices of pairs have 19 bits");
        TakenRequests {
            config,
            entries: Vec::new(),
            free: VecDeque::new(),
            in_use: 0,
            accounts: Accounts::new(config.clients_max),
            memberships: Vec::new(),
            wheel: Wheel::new(TIMER_SLOT_NS, TIMER_REACH_NS),
            expired: Vec::new(),
            due: VecDeque::new(),
            stats: TakenStats::default(),
            given_before: GivenStats::default(),
            handlers_ended: 0,
        }
    }

    /// A router gives requests from now on. Claims are kept for `claim` (RT34).
    ///
    /// # Panics
    /// If there is one with this number.
    pub fn join(&mut self, id: MembershipId, given: GivenNumbers, claim: Duration) {
        assert!(self.membership(id).is_none(), "numbers of memberships are not used twice");
        self.memberships.push(Membership { id, given, claim });
    }

    /// The membership has ended, and its numbers with it. What was taken goes on.
    pub fn leave(&mut self, id: MembershipId) {
        if let Some(given) = self.given(id) {
            let stats = *given.stats();
            self.given_before.add(&stats);
        }
        self.memberships.retain(|membership| membership.id != id);
    }

    /// The numbers of a membership, for feedback and *n*; `None` if it has ended.
    pub fn given(&mut self, id: MembershipId) -> Option<&mut GivenNumbers> {
        self.memberships.iter_mut().find(|it| it.id == id).map(|it| &mut it.given)
    }

    /// Takes the number of a first packet that has come from a membership's router with what it was
    /// told (RT16, steps 1 and 2). `None`: the packet was a probe, or is dropped.
    #[inline]
    pub fn arrive(
        &mut self,
        now: Time,
        membership: MembershipId,
        packet_index: u32,
        is_probe: bool,
    ) -> Option<Arrived> {
        match self.given(membership)?.handle_given(now, packet_index, is_probe) {
            Taken::Request(number) => Some(Arrived { membership, number }),
            Taken::Probe | Taken::Old => None,
        }
    }

    /// Counts that a request which runs fails by the worker's own fault, which its router is told
    /// (RT20). To be called before it is answered or rejected.
    #[cold]
    pub fn count_failure(&mut self, id: TakenId) {
        let membership = self.entry(id).and_then(|it| it.arrived.as_ref()).map(|it| it.membership);
        if let Some(given) = membership.and_then(|id| self.given(id)) {
            given.count_failure();
        }
    }

    /// The first packet is dropped or rejected, with session 0 (RT16, step 3).
    pub fn refuse(&mut self, arrived: Arrived) {
        if let Some(given) = self.given(arrived.membership) {
            given.settle(arrived.number);
        }
    }

    /// Takes a whole request (RT16, step 4): its handler is to be started now. `tag` is what nobody
    /// can predict (W4).
    ///
    /// # Errors
    /// [`NoRoom`], with the caller's data.
    ///
    /// # Panics
    /// If the tag has more than 28 bits, or there cannot be such a client.
    #[inline]
    pub fn take_whole(
        &mut self,
        now: Time,
        arrived: Arrived,
        asker: Asker,
        tag: u32,
        context: C,
    ) -> Result<TakenId, (NoRoom, C)> {
        let state = State::Running { notice_at: now + self.config.notice };
        let id = self.take(now, arrived, asker, tag, context, state)?;
        self.time(at(id), now);
        self.stats.whole += 1;
        Ok(id)
    }

    /// Takes a claim (RT16, step 5). Readies come from [`TakenRequests::poll_due`].
    ///
    /// # Errors
    /// [`NoRoom`], with the caller's data.
    ///
    /// # Panics
    /// If the tag has more than 28 bits, or there cannot be such a client.
    pub fn take_claim(
        &mut self,
        now: Time,
        arrived: Arrived,
        asker: Asker,
        tag: u32,
        context: C,
    ) -> Result<TakenId, (NoRoom, C)> {
        let usual = self.membership(arrived.membership).map_or(accounts::CLAIM_MIN, |it| it.claim);
        let claim = self.accounts.get(asker.client).claim(usual);
        let state = State::Claimed { since: now, lapses_at: now + claim, told: 0 };
        let id = self.take(now, arrived, asker, tag, context, state)?;
        self.due.push_back(at(id));
        self.stats.claims += 1;
        Ok(id)
    }

    #[inline]
    fn take(
        &mut self,
        now: Time,
        arrived: Arrived,
        asker: Asker,
        tag: u32,
        context: C,
        state: State,
    ) -> Result<TakenId, (NoRoom, C)> {
        assert!(tag < TAG_MAX, "a tag has 28 bits");
        // A client may have as many as it leaves free (RT39).
        let left = self.config.sessions_max - self.in_use;
        if self.accounts.get(asker.client).sessions >= left {
            self.stats.no_room += 1;
            self.refuse(arrived);
            return Err((NoRoom, context));
        }
        let place = self.free.pop_front().unwrap_or_else(|| {
            self.entries.push(Entry::new());
            (self.entries.len() - 1) as u32
        });
        self.in_use += 1;
        self.accounts.get_mut(asker.client).sessions += 1;
        let entry = &mut self.entries[place as usize];
        entry.generation = (entry.generation + 1) % GENERATIONS;
        (entry.tag, entry.asker, entry.state, entry.heard_at) = (tag, asker, state, now);
        (entry.arrived, entry.context) = (Some(arrived), Some(context));
        Ok(TakenId { index: place | PAIR_BIT, generation: entry.generation })
    }

    /// The caller's data of a request; `None` if there is no session any more.
    pub fn context(&mut self, id: TakenId) -> Option<&mut C> {
        self.entry(id)?.context.as_mut()
    }

    /// The caller's data of all requests.
    pub fn contexts(&self) -> impl Iterator<Item = &C> {
        self.entries.iter().filter_map(|entry| entry.context.as_ref())
    }

    /// Whose request it is; `None` if it is gone.
    pub fn asker(&mut self, id: TakenId) -> Option<Asker> {
        self.entry(id).map(|entry| entry.asker)
    }

    /// Sessions of a client, those included that it does not know of. While there are any, its
    /// place is no other's.
    pub fn sessions_of(&self, client: u32) -> u32 {
        self.accounts.get(client).sessions
    }

    /// The client's place is to be another's.
    ///
    /// # Panics
    /// If it has sessions.
    pub fn forget(&mut self, client: u32) {
        assert_eq!(self.sessions_of(client), 0, "its sessions are counted there");
        self.accounts.forget(client);
    }

    /// Sessions of all clients. A worker that drains leaves when there are none (RT35).
    pub fn sessions(&self) -> u32 {
        self.in_use
    }

    /// Whether a request's handler may have to run, or runs, and somebody waits for its answer.
    pub fn is_wanted(&self, id: TakenId) -> bool {
        let entry = self.entries.get(at(id) as usize);
        let entry = entry.filter(|entry| entry.generation == id.generation);
        entry.is_some_and(|entry| matches!(entry.state, State::Running { .. }))
    }

    /// Requests whose handlers run.
    pub fn running(&self) -> usize {
        let runs = |entry: &&Entry<C>| matches!(entry.state, State::Running { .. } | State::Ending);
        self.entries.iter().filter(runs).count()
    }

    /// How many handlers have answered, or rejected their requests, since this was last asked.
    pub fn take_handlers_ended(&mut self) -> u32 {
        core::mem::take(&mut self.handlers_ended)
    }

    /// What was done so far.
    pub fn stats(&self) -> &TakenStats {
        &self.stats
    }

    /// What became of given numbers so far, in all memberships.
    pub fn given_stats(&self) -> GivenStats {
        let mut all = self.given_before;
        self.memberships.iter().for_each(|membership| all.add(membership.given.stats()));
        all
    }

    fn membership(&self, id: MembershipId) -> Option<&Membership> {
        self.memberships.iter().find(|membership| membership.id == id)
    }

    #[inline]
    fn entry(&mut self, id: TakenId) -> Option<&mut Entry<C>> {
        let entry = self.entries.get_mut(at(id) as usize)?;
        let is_it = entry.generation == id.generation && entry.state != State::Free;
        is_it.then_some(entry)
    }

    #[inline]
    fn settle(&mut self, place: u32) {
        if let Some(arrived) = self.entries[place as usize].arrived.take() {
            self.refuse(arrived);
        }
    }

    /// There is no session any more.
    #[inline]
    fn release(&mut self, place: u32) -> Option<C> {
        let entry = &mut self.entries[place as usize];
        debug_assert!(entry.arrived.is_none(), "what is gone was settled");
        entry.state = State::Free;
        let (client, context) = (entry.asker.client, entry.context.take());
        self.accounts.get_mut(client).sessions -= 1;
        self.in_use -= 1;
        self.free.push_back(place);
        context
    }
}

#[inline]
fn at(id: TakenId) -> u32 {
    id.index & !PAIR_BIT
}
