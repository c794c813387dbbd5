//! A loop's channels: their servers, their sessions, and the calls that wait for a slot.
//!
//! `petasos_call`'s [`ChannelCore`] decides; here is what it needs of an endpoint. The invariants:
//! a call has a slot in a session from [`ChannelEntry::take_leased`] until [`Channels::ended`] or
//! [`Channels::release`], so that nothing waits in the endpoint's backlog; a bind goes in the slot
//! of the first call that needs it. What happened to a channel makes it *dirty*, and the turn
//! asks the core of each dirty channel what follows (`turn::channels`).
//!
//! While a channel has one server, its sessions' free slots are *leased*: the core has given them
//! out, and a call takes one without asking (`leased_slots`).

mod asks;
mod binds;
mod connect;
mod leased_slots;
mod resolve;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;

use petasos_base::{Rng, Time};
use petasos_call::balance::Report;
use petasos_call::channel::{
    CallOptions, ChannelConfig, ChannelCore, Pick, PickError, SessionIndex, Ticket,
};
use petasos_call::policy::RetryBudget;
use petasos_call::{Agreement, Status};
use petasos_endpoint::SessionId;
use petasos_rpc::settings::ChannelInfo;

use super::keys::{CallKey, ChannelSession};
use super::remote::Outcome;
use super::shared::{Command, Shared, loop_gone};
use asks::Ask;
pub(crate) use asks::{Asker, Granted};
pub(crate) use binds::{Asked, NextStep};
pub use connect::Dial;
pub(crate) use connect::{Opening, open_to_itself};
use leased_slots::LeasedSlots;
pub(crate) use resolve::resolve;

/// What a session knows of a service.
pub(crate) enum Bind {
    Unasked,
    Asked,
    Known(Result<Agreement, Status>),
}

/// Who waits for a slot, or has one and waits for a bind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// A call in the loop's table.
    Call(CallKey),
    /// Somebody who asks for a session: a number in [`Channels::asks`].
    Ask(u32),
}

/// A session of a channel.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) index: SessionIndex,
    /// Slots that the core has leased and no call has.
    pub(crate) free: u32,
    /// Slots of calls that are over stay here.
    pub(crate) is_leased: bool,
    /// By the service's place in the channel.
    pub(crate) binds: Vec<Bind>,
    /// Those that have a slot here and wait for the bind of a service.
    pub(crate) unbound: Vec<(u32, Who)>,
}

/// A channel in its loop.
pub(crate) struct ChannelEntry {
    pub(crate) info: Arc<ChannelInfo>,
    pub(crate) core: ChannelCore,
    /// By [`SessionIndex::number`].
    pub(crate) sessions: Vec<Option<Session>>,
    /// Sessions with slots to be had without asking.
    pub(crate) leased_slots: LeasedSlots,
    pub(crate) waiting: HashMap<Ticket, Who>,
    /// What its calls may be tried again by.
    pub(crate) budget: RetryBudget,
    /// Why the last session failed, for people.
    pub(crate) last_error: String,
    /// Why the last lookup failed, for people, unless a later one has found servers.
    pub(crate) lookup_error: String,
    /// Slots that streams have.
    pub(crate) leases: u32,
    /// The channel of the same servers for streams (R14), once there is one.
    pub(crate) streams: Option<u32>,
    pub(crate) is_dirty: bool,
    /// When the turn looks at the channel again.
    pub(crate) timer_at: Time,
    /// Nobody has the channel any more: it goes when its calls are over.
    pub(crate) orphaned: bool,
}

/// What a pick gives.
pub(crate) enum Slot {
    Taken(ChannelSession),
    Wait(Ticket),
    Fail(Status),
}

impl ChannelEntry {
    fn new(info: Arc<ChannelInfo>, config: ChannelConfig) -> ChannelEntry {
        ChannelEntry {
            core: ChannelCore::new(config),
            budget: RetryBudget::new(info.throttling()),
            info,
            sessions: Vec::new(),
            leased_slots: LeasedSlots::default(),
            waiting: HashMap::new(),
            last_error: String::new(),
            lookup_error: String::new(),
            leases: 0,
            streams: None,
            is_dirty: false,
            timer_at: Time::NEVER,
            orphaned: false,
        }
    }

    /// The session of a number, if it is still that one.
    pub(crate) fn session(&mut self, number: u32, id: SessionId) -> Option<&mut Session> {
        let session = self.sessions.get_mut(number as usize)?.as_mut()?;
        (session.id == id).then_some(session)
    }

    /// Names the session of a number that somebody has a slot in; the channel has this number.
    fn named(&self, channel: u32, number: u32) -> ChannelSession {
        let session = self.sessions[number as usize].as_ref();
        ChannelSession { channel, number, id: session.expect("who has a slot knows it").id }
    }

    /// The session of a number, whichever that is now.
    pub(crate) fn index_at(&self, number: u32) -> Option<SessionIndex> {
        let session = self.sessions.get(number as usize)?.as_ref();
        session.map(|session| session.index)
    }

    /// What a call that goes nowhere fails with.
    fn status(&self, error: PickError) -> Status {
        let status = Status::from(error);
        let why = match error {
            PickError::Unreachable { .. } => &self.last_error,
            PickError::NoAddress => &self.lookup_error,
            PickError::DeadlineExceeded if !self.lookup_error.is_empty() => &self.lookup_error,
            PickError::DeadlineExceeded => &self.last_error,
            _ => return status,
        };
        match why.is_empty() {
            true => status,
            false => Status::new(status.code(), format!("{}: {why}", status.message())),
        }
    }
}

/// The channels of a loop.
pub(crate) struct Channels {
    pub(crate) list: Vec<Option<Box<ChannelEntry>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) rng: Rng,
    /// Sessions to be closed.
    pub(crate) closing: Vec<SessionId>,
    pub(crate) opening: Vec<Opening>,
    /// Channels that something has happened to, each once.
    pub(crate) dirty: Vec<u32>,
    /// Sessions that turned out to be gone.
    pub(crate) losing: Vec<ChannelSession>,
    pub(crate) asks: HashMap<u32, Ask>,
    pub(crate) next_ask: u32,
    /// Asks that have no session and do not wait for one.
    pub(crate) new_asks: Vec<u32>,
    /// Who waited for a connection, and is to be told.
    pub(crate) completions: Vec<(Asker, Outcome)>,
    /// What became of asks for streams, for whoever drives these. Taken each turn.
    pub(crate) granted: Vec<(u32, Result<Granted, Status>)>,
    /// Sessions of streams that are gone. Taken each turn.
    pub(crate) lost: Vec<SessionId>,
    /// Binds and probes under way, by their tags.
    pub(crate) asked: HashMap<u64, Asked>,
    pub(crate) next_tag: u64,
}

impl Channels {
    pub(crate) fn new(shared: Arc<Shared>, seed: u64) -> Channels {
        Channels {
            list: Vec::new(),
            shared,
            rng: Rng::new(seed),
            closing: Vec::new(),
            opening: Vec::new(),
            dirty: Vec::new(),
            losing: Vec::new(),
            asks: HashMap::new(),
            next_ask: 0,
            new_asks: Vec::new(),
            completions: Vec::new(),
            granted: Vec::new(),
            lost: Vec::new(),
            asked: HashMap::new(),
            next_tag: 0,
        }
    }

    /// Calls and asks that wait for slots or binds, slots that they and streams have, and sessions.
    pub(crate) fn held(&self) -> (usize, usize, usize) {
        let entries = || self.list.iter().flatten();
        let waiting = entries().map(|entry| entry.core.waiting()).sum::<usize>();
        let slots = entries().map(|entry| {
            let leased: u32 = entry.sessions.iter().flatten().map(|session| session.free).sum();
            entry.core.running() - leased as usize
        });
        let sessions = entries().map(|entry| entry.sessions.iter().flatten().count());
        (waiting + self.asks.len() + self.asked.len(), slots.sum(), sessions.sum())
    }

    /// Adds a channel under a number of the loop's.
    pub(crate) fn add(&mut self, channel: u32, info: Arc<ChannelInfo>, now: Time) {
        self.add_with(channel, info, false, now);
    }

    fn add_with(&mut self, channel: u32, info: Arc<ChannelInfo>, streams: bool, now: Time) {
        let config = ChannelConfig { streams, ..info.config.clone() };
        let mut entry = ChannelEntry::new(info, config);
        if let Some(addresses) = entry.info.servers.addresses() {
            entry.core.handle_addresses(addresses, now);
        }
        let at = channel as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        let earlier = self.list[at].replace(Box::new(entry));
        assert!(earlier.is_none(), "a number is given to one channel at a time");
    }

    /// What another thread asks about a channel.
    pub(crate) fn read(&mut self, command: Command, now: Time) {
        match command {
            Command::Open { channel, info } => self.add(channel, info, now),
            Command::Connect { channel, timeout, remote } => {
                self.connect(channel, now + timeout, remote);
            }
            Command::Close { channel } => {
                let streams = self.entry(channel).and_then(|entry| entry.streams);
                for channel in [Some(channel), streams].into_iter().flatten() {
                    let entry = self.entry(channel).expect("a channel is closed once");
                    entry.orphaned = true;
                    self.mark_dirty(channel);
                }
            }
            Command::Resolved { channel, info, found } => {
                self.resolved(channel, &info, found, now);
            }
            _ => unreachable!("the loop reads all other commands"),
        }
    }

    #[inline]
    pub(crate) fn entry(&mut self, channel: u32) -> Option<&mut ChannelEntry> {
        self.list.get_mut(channel as usize)?.as_deref_mut()
    }

    /// A session, for its channel's core. None if it is gone.
    pub(crate) fn index_of(&mut self, session: ChannelSession) -> Option<SessionIndex> {
        let ChannelSession { channel, number, id } = session;
        self.entry(channel)?.session(number, id).map(|session| session.index)
    }

    /// A channel's budget for trying calls again, and what jitter is made from.
    pub(crate) fn budget(&mut self, channel: u32) -> Option<(&mut RetryBudget, &mut Rng)> {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(channel as usize)?.as_mut()?;
        Some((&mut entry.budget, rng))
    }

    /// A slot for somebody, as the core of the channel says, or a place among those who wait.
    #[inline(never)]
    pub(crate) fn pick(&mut self, channel: u32, options: CallOptions, who: Who, now: Time) -> Slot {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(channel as usize).and_then(Option::as_mut);
        let Some(entry) = entry else { return Slot::Fail(loop_gone()) };
        if !options.avoid.is_empty() {
            // The core finds a session that no attempt has been in only among slots of its own.
            entry.return_leases(now);
        }
        if let Some(number) = entry.take_any_leased() {
            return Slot::Taken(entry.named(channel, number));
        }
        let slot = match entry.core.pick(options, now, rng) {
            Pick::Session(index) => {
                let number = index.number() as u32;
                entry.borrow_slots(number);
                let slot = Slot::Taken(entry.named(channel, number));
                // Balancers that learn from reports also ask for probes, which is seen to then.
                if !entry.info.wants_reports {
                    return slot;
                }
                slot
            }
            Pick::Wait(ticket) => {
                entry.waiting.insert(ticket, who);
                Slot::Wait(ticket)
            }
            Pick::Fail(error) => Slot::Fail(entry.status(error)),
        };
        self.mark_dirty(channel);
        slot
    }

    /// Who waited for a slot does not want it any more.
    pub(crate) fn abandon(&mut self, channel: u32, ticket: Ticket) {
        let Some(entry) = self.entry(channel) else { return };
        entry.waiting.remove(&ticket);
        entry.core.handle_abandoned(ticket);
        self.mark_dirty(channel);
    }

    /// Something has happened to a channel: its core is to be asked.
    pub(crate) fn mark_dirty(&mut self, channel: u32) {
        let Some(entry) = self.entry(channel) else { return };
        if !core::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.push(channel);
        }
    }

    /// Whether the turn has something to do for channels beside calls.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !(self.dirty.is_empty() && self.new_asks.is_empty() && self.losing.is_empty())
    }

    /// Whether sessions are being opened.
    #[inline]
    pub(crate) fn is_any_opening(&self) -> bool {
        !self.opening.is_empty()
    }

    /// Whether somebody outside of the turn has something to do for it.
    #[inline]
    pub(crate) fn needs_endpoint(&self) -> bool {
        !self.closing.is_empty() || self.opening.iter().any(|opening| opening.session.is_none())
    }

    /// A call's slot in a session is free again. `report` is asked if the balancer learns from it.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        session: ChannelSession,
        now: Time,
        report: impl FnOnce() -> Option<Report>,
    ) {
        let Some(entry) = self.entry(session.channel) else { return };
        if entry.keep_slot(session.number, session.id) {
            return;
        }
        let report = if entry.info.wants_reports { report() } else { None };
        self.release(session, report, now);
    }

    /// [`Channels::ended`], by way of the core.
    #[inline(never)]
    pub(crate) fn release(&mut self, session: ChannelSession, report: Option<Report>, now: Time) {
        let ChannelSession { channel, number, id } = session;
        let Some(entry) = self.entry(channel) else { return };
        if let Some(index) = entry.session(number, id).map(|session| session.index) {
            entry.core.handle_ended(index, report, now);
            self.mark_dirty(channel);
        }
    }

    /// Nobody has the channel, and its calls are over.
    pub(crate) fn remove(&mut self, channel: u32) {
        let Some(mut entry) = self.list[channel as usize].take() else { return };
        self.closing.extend(entry.sessions.drain(..).flatten().map(|session| session.id));
        let of_it = self.opening.extract_if(.., |opening| opening.channel == channel);
        self.closing.extend(of_it.filter_map(|opening| opening.session));
        self.shared.give_channel_number(channel);
    }
}
