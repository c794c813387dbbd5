//! A loop's channels: their servers, their sessions, and the calls that wait for a slot.
//!
//! `petasos_call`'s [`ChannelCore`] decides; this module is its interface to an endpoint.
//! Invariants: a call has a slot in a session from [`ChannelEntry::take_leased`] until
//! [`Channels::ended`] or [`Channels::release`], so that nothing waits in the endpoint's backlog; a
//! bind uses the slot of the first call that needs it. An event on a channel makes it *dirty*, and
//! the turn asks the core of each dirty channel what to do (`turn::channels`).
//!
//! While a channel has one server, its sessions' free slots are *leased*: the core has given them
//! out, and a call takes one without asking the core (`leased_slots`).

mod asks;
mod binds;
mod connect;
mod groups;
mod leased_slots;
mod opening;
mod places;
mod resolve;
mod waiting;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_base::{Rng, Time};
use petasos_call::balance::Report;
use petasos_call::channel::{
    CallOptions, ChannelConfig, ChannelCore, Pick, PickError, SessionIndex, Ticket,
};
use petasos_call::policy::RetryBudget;
use petasos_call::{Agreement, Status};
use petasos_endpoint::{GroupId, SessionId};
use petasos_rpc::settings::ChannelInfo;

use super::keys::{CallKey, ChannelSession};
use super::remote::Outcome;
use super::shared::{Command, Shared, loop_gone};
use asks::Ask;
pub(crate) use asks::{Asker, Granted};
pub(crate) use binds::{Asked, NextStep};
pub(crate) use connect::open_to_itself;
pub use connect::{Dial, Dialled};
use groups::GroupOfChannel;
use leased_slots::LeasedSlots;
pub(crate) use opening::{Opening, Step};
use places::{Place, Placing};
pub(crate) use resolve::resolve;

/// What a session knows about a service.
pub(crate) enum Bind {
    Unasked,
    Asked,
    Known(Agreement),
}

/// What waits for a slot, or has one and waits for a bind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// A call in the loop's table.
    Call(CallKey),
    /// An ask for a session: its number in [`Channels::asks`].
    Ask(u32),
}

/// A session of a channel.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) index: SessionIndex,
    /// Leased slots that no call has.
    pub(crate) free: u32,
    /// Whether slots of calls that are over stay leased.
    pub(crate) is_leased: bool,
    /// If it is an attachment to a group: the session with its router, where services are bound
    /// (RT31).
    pub(crate) router: Option<SessionId>,
    /// Indexed by the service's number in the channel.
    pub(crate) binds: Vec<Bind>,
    /// Calls and asks that have a slot here and wait for the bind of a service.
    pub(crate) unbound: Vec<(u32, Who)>,
}

/// A channel in its loop.
pub(crate) struct ChannelEntry {
    pub(crate) info: Arc<ChannelInfo>,
    pub(crate) core: ChannelCore,
    /// Indexed by [`SessionIndex::number`].
    pub(crate) sessions: Vec<Option<Session>>,
    /// The sessions with leased slots.
    pub(crate) leased_slots: LeasedSlots,
    pub(crate) waiting: HashMap<Ticket, Who>,
    /// Limits how often its calls are retried.
    pub(crate) budget: RetryBudget,
    /// Why the last session failed, as text.
    pub(crate) last_error: String,
    /// Why the last lookup failed, as text; empty if a later one has found servers.
    pub(crate) lookup_error: String,
    /// The routers of its group that the last lookup has found.
    pub(crate) found_routers: Vec<SocketAddr>,
    /// The address that stands for its group, if its routers are looked up.
    pub(crate) stand_in: Option<SocketAddr>,
    /// Where it is placed, if it is the companion for the streams of a group's channel.
    pub(crate) place: Option<Place>,
    /// The group that it calls, if its servers are one and it was opened.
    pub(crate) group: Option<Box<GroupOfChannel>>,
    /// How many slots streams have.
    pub(crate) leases: u32,
    /// The companion channel to the same servers, for streams (R14), once there is one.
    pub(crate) streams: Option<u32>,
    pub(crate) is_dirty: bool,
    /// When the turn must look at the channel again.
    pub(crate) timer_at: Time,
    /// The last handle to the channel was dropped: the channel is removed when its calls are over.
    pub(crate) orphaned: bool,
}

/// The result of a pick.
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
            found_routers: Vec::new(),
            stand_in: None,
            place: None,
            group: None,
            leases: 0,
            streams: None,
            is_dirty: false,
            timer_at: Time::NEVER,
            orphaned: false,
        }
    }

    /// Whether it calls a group of workers by its routers.
    pub(crate) fn is_group(&self) -> bool {
        self.info.servers.is_group() && self.place.is_none()
    }

    /// The session with this number, if it is still the one named `id`.
    pub(crate) fn session(&mut self, number: u32, id: SessionId) -> Option<&mut Session> {
        let session = self.sessions.get_mut(number as usize)?.as_mut()?;
        (session.id == id).then_some(session)
    }

    /// The name of the session with this number in this channel. Somebody has a slot in it.
    fn named(&self, channel: u32, number: u32) -> ChannelSession {
        let session = self.sessions[number as usize].as_ref();
        ChannelSession { channel, number, id: session.expect("who has a slot knows it").id }
    }

    /// The session that has this number now.
    pub(crate) fn index_at(&self, number: u32) -> Option<SessionIndex> {
        let session = self.sessions.get(number as usize)?.as_ref();
        session.map(|session| session.index)
    }

    /// The status of a call that finds no session.
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
    /// Channels that call groups.
    pub(crate) with_groups: Vec<u32>,
    pub(crate) closing_groups: Vec<GroupId>,
    /// Channels whose routers have other addresses now.
    pub(crate) renamed: Vec<u32>,
    /// Channels that look for a worker of a group.
    pub(crate) placing: Vec<Placing>,
    /// Channels with events to be processed, each once.
    pub(crate) dirty: Vec<u32>,
    /// Sessions that were found to be gone.
    pub(crate) losing: Vec<ChannelSession>,
    pub(crate) asks: HashMap<u32, Ask>,
    pub(crate) next_ask: u32,
    /// Asks that have no session and are not waiting for one yet.
    pub(crate) new_asks: Vec<u32>,
    /// Results for futures that waited for a connection.
    pub(crate) completions: Vec<(Asker, Outcome)>,
    /// Results of asks for streams, for the code that drives streams. Taken each turn.
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
            with_groups: Vec::new(),
            closing_groups: Vec::new(),
            renamed: Vec::new(),
            placing: Vec::new(),
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

    /// How many calls and asks wait for slots or binds, how many slots they and streams have, and
    /// how many sessions there are.
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

    /// Adds a channel with a number of the loop's.
    pub(crate) fn add(&mut self, channel: u32, info: Arc<ChannelInfo>, now: Time) {
        self.add_with(channel, info, None, now);
    }

    /// Adds a channel; `streams_of`: the one whose streams it is for.
    fn add_with(
        &mut self,
        channel: u32,
        info: Arc<ChannelInfo>,
        streams_of: Option<u32>,
        now: Time,
    ) {
        let place_of = streams_of.filter(|_| info.servers.is_group());
        let config = match place_of {
            Some(_) => ChannelEntry::place_config(&info.config),
            None => ChannelConfig { streams: streams_of.is_some(), ..info.config.clone() },
        };
        let mut entry = ChannelEntry::new(info, config);
        if let Some(of) = place_of {
            entry.place_by(of);
        } else if let Some(addresses) = entry.info.servers.addresses() {
            entry.core.handle_addresses(addresses, now);
        }
        if entry.is_group() {
            self.with_groups.push(channel);
        }
        let at = channel as usize;
        if self.list.len() <= at {
            self.list.resize_with(at + 1, || None);
        }
        let earlier = self.list[at].replace(Box::new(entry));
        assert!(earlier.is_none(), "a number is given to one channel at a time");
    }

    /// Executes a command from another thread about a channel.
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

    /// A session's index, for its channel's core. `None` if the session is gone.
    pub(crate) fn index_of(&mut self, session: ChannelSession) -> Option<SessionIndex> {
        let ChannelSession { channel, number, id } = session;
        self.entry(channel)?.session(number, id).map(|session| session.index)
    }

    /// A channel's retry budget, and the generator for jitter.
    pub(crate) fn budget(&mut self, channel: u32) -> Option<(&mut RetryBudget, &mut Rng)> {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(channel as usize)?.as_mut()?;
        Some((&mut entry.budget, rng))
    }

    /// Picks a slot for `who`, as the channel's core decides, or a place in its queue.
    #[inline(never)]
    pub(crate) fn pick(&mut self, channel: u32, options: CallOptions, who: Who, now: Time) -> Slot {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(channel as usize).and_then(Option::as_mut);
        let Some(entry) = entry else { return Slot::Fail(loop_gone()) };
        if !options.avoid.is_empty() && !entry.is_group() {
            // To find a session that no attempt has used, the core needs all slots back.
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
                // A balancer that learns from reports also asks for probes, so its channel is
                // marked as dirty below.
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

    /// Removes something from the queue for a slot.
    pub(crate) fn abandon(&mut self, channel: u32, ticket: Ticket) {
        let Some(entry) = self.entry(channel) else { return };
        entry.waiting.remove(&ticket);
        entry.core.handle_abandoned(ticket);
        self.mark_dirty(channel);
    }

    /// Notes an event on a channel: its core must be asked what to do.
    pub(crate) fn mark_dirty(&mut self, channel: u32) {
        let Some(entry) = self.entry(channel) else { return };
        if !core::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.push(channel);
        }
    }

    /// Whether the turn has work for channels, apart from calls.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !(self.dirty.is_empty() && self.new_asks.is_empty() && self.losing.is_empty())
    }

    /// Whether sessions are being opened.
    #[inline]
    pub(crate) fn is_any_opening(&self) -> bool {
        !self.opening.is_empty()
    }

    /// Whether there is work that needs the endpoint between turns.
    #[inline]
    pub(crate) fn needs_endpoint(&self) -> bool {
        let is_any =
            !self.closing.is_empty() || !self.closing_groups.is_empty() || !self.renamed.is_empty();
        let has_steps = self.opening.iter().any(Opening::needs_endpoint);
        is_any || has_steps || self.placing.iter().any(Placing::needs_endpoint)
    }

    /// Frees a call's slot in a session. `report` is only called if the balancer learns from
    /// reports.
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

    /// Like [`Channels::ended`], through the core.
    #[inline(never)]
    pub(crate) fn release(&mut self, session: ChannelSession, report: Option<Report>, now: Time) {
        let ChannelSession { channel, number, id } = session;
        let Some(entry) = self.entry(channel) else { return };
        if let Some(index) = entry.session(number, id).map(|session| session.index) {
            entry.core.handle_ended(index, report, now);
            self.mark_dirty(channel);
        }
    }

    /// Removes a channel that has no handles and no calls any more.
    pub(crate) fn remove(&mut self, channel: u32) {
        let Some(mut entry) = self.list[channel as usize].take() else { return };
        let sessions: Vec<_> = entry.sessions.drain(..).flatten().collect();
        let routers: Vec<_> = sessions.iter().filter_map(|session| session.router).collect();
        self.closing.extend(sessions.iter().map(|session| session.id));
        let of_it = self.opening.extract_if(.., |opening| opening.channel == channel);
        self.closing.extend(of_it.filter_map(|opening| opening.session()));
        self.with_groups.retain(|number| *number != channel);
        self.placing.retain(|placing| placing.channel() != channel);
        if let Some(group) = entry.group.take() {
            self.closing.extend(routers);
            self.closing_groups.push(group.id);
        }
        self.shared.give_channel_number(channel);
    }
}
