//! Connecting servers, adding and removing sessions, and scheduling name lookups.

use core::time::Duration;
use std::collections::HashSet;

use petasos_base::{Rng, Time};

use super::peer::{Backoff, Peer};
use super::{
    Action, Address, ChannelCore, LOOKUP_GAP_MAX, PeerIndex, PickError, SESSIONS_MAX, SessionIndex,
};
use crate::balance::Balance;

/// Another session is opened when a call has waited this long, or calls have had to wait repeatedly
/// for this long.
const GROW_NANOS: u64 = 1_000_000;
/// An additional session is closed after between one and two times this long without a call.
const SHRINK_NANOS: u64 = 10_000_000_000;
/// Slots of a server's first session, and of each additional one.
const SLOTS_FIRST: u32 = 32;
const SLOTS_MORE: u32 = 64;
/// Names are looked up this often.
const LOOKUP_NANOS: u64 = 30_000_000_000;

/// Tracks whether calls have to wait repeatedly, even if none of them waits for long. For example,
/// if there are more callers than slots and half of the calls are always under way, the first
/// waiting call gets a slot within a round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// When the repeated waiting began.
    since: Time,
    /// When a call last had to wait.
    last: Time,
}

impl Default for Pressure {
    fn default() -> Pressure {
        Pressure { since: Time::NEVER, last: Time::ZERO }
    }
}

impl Pressure {
    /// Records that a call has to wait.
    pub(super) fn on_wait(&mut self, now: Time) {
        if self.since == Time::NEVER || now.nanos_since(self.last) > GROW_NANOS {
            self.since = now;
        }
        self.last = now;
    }

    /// When the waiting has lasted long enough to open a session.
    pub(super) fn due(&self) -> Time {
        self.since.plus_nanos(GROW_NANOS)
    }
}

/// The schedule of lookups of the channel's name.
#[derive(Debug)]
pub(super) struct Lookups {
    enabled: bool,
    under_way: bool,
    next_at: Time,
    last: Option<Time>,
    /// How long after the last one the next one may be if a server fails, and at the beginning.
    gap: Duration,
    gap_min: Duration,
    /// Whether a lookup has ended, or addresses were set.
    told: bool,
    backoff: Backoff,
}

impl Lookups {
    pub(super) fn new(enabled: bool, gap_min: Duration) -> Lookups {
        let (next_at, backoff) = (Time::ZERO, Backoff::default());
        let (last, gap) = (None, gap_min);
        Lookups { enabled, under_way: false, next_at, last, gap, gap_min, told: false, backoff }
    }

    /// Handles the failure of a server: its name may have new addresses.
    pub(super) fn on_failure(&mut self) {
        let gap = self.last.map_or(Time::ZERO, |last| last + self.gap);
        self.next_at = self.next_at.min(gap.max(self.backoff.next_at));
    }

    /// `Ok` if a lookup is due now; otherwise when it is due. Never, while a lookup is under way.
    fn poll(&mut self, now: Time) -> Result<(), Time> {
        if !self.enabled || self.under_way {
            return Err(Time::NEVER);
        }
        if now < self.next_at {
            return Err(self.next_at);
        }
        let is_late = self.last.is_none_or(|last| now - last > LOOKUP_GAP_MAX);
        self.gap = if is_late { self.gap_min } else { LOOKUP_GAP_MAX.min(2 * self.gap) };
        (self.under_way, self.last) = (true, Some(now));
        self.backoff.on_start(now);
        Ok(())
    }

    /// Handles new addresses. A lookup that is under way continues; its result is still expected.
    fn on_addresses(&mut self, now: Time) {
        self.told = true;
        self.next_at = now.plus_nanos(LOOKUP_NANOS);
    }
}

impl ChannelCore {
    /// Sets the addresses of the channel's servers, in order of preference. Servers that are no
    /// longer on the list get no new calls, and are closed when their running calls have ended.
    ///
    /// This is for fixed addresses, and for those from another channel's lookup. The result of
    /// [`Action::Resolve`] goes to [`ChannelCore::handle_resolved`].
    pub fn handle_addresses(&mut self, list: &[Address], now: Time) {
        self.lookups.on_addresses(now);
        let listed: HashSet<&Address> = list.iter().collect();
        for number in core::mem::take(&mut self.order) {
            if !listed.contains(&self.peers[number as usize].address) {
                self.unlist(number);
            }
        }
        let mut seen = HashSet::new();
        for address in list.iter().filter(|address| seen.insert(**address)) {
            let number = self.list(*address);
            self.order.push(number);
        }
        self.dirty = true;
        self.update_failing();
    }

    /// Handles the addresses from the lookup that [`Action::Resolve`] requested.
    pub fn handle_resolved(&mut self, list: &[Address], now: Time) {
        self.lookups.under_way = false;
        self.lookups.backoff = Backoff::default();
        self.handle_addresses(list, now);
    }

    /// Handles the failure of the lookup that [`Action::Resolve`] requested. The known addresses
    /// are kept.
    pub fn handle_unresolved(&mut self, now: Time, rng: &mut Rng) {
        self.lookups.under_way = false;
        self.lookups.backoff.on_failure(rng);
        self.lookups.next_at = self.lookups.backoff.next_at.max(now);
        self.handle_unresolved_elsewhere();
    }

    /// Handles the failure of another channel's lookup of the same name. Calls no longer wait for a
    /// first result.
    pub fn handle_unresolved_elsewhere(&mut self) {
        self.lookups.told = true;
        self.dirty = true;
        self.update_failing();
    }

    /// Does the work that is due, and schedules the next.
    pub(super) fn work(&mut self, now: Time) {
        self.wake_at = Time::NEVER;
        if !self.wanted {
            return;
        }
        match self.lookups.poll(now) {
            Ok(()) => self.actions.push_back(Action::Resolve),
            Err(later) => self.wake(later),
        }
        self.connect_peers(now);
        self.grow(now);
        self.shrink(now);
    }

    /// Opens first sessions: with pick first, to one server at a time until one is connected;
    /// otherwise to all.
    fn connect_peers(&mut self, now: Time) {
        let one = self.config.balance == Balance::PickFirst;
        if one && (self.is_ready() || self.order.iter().any(|&n| self.peer_at(n).connecting)) {
            return;
        }
        for at in 0..self.order.len() {
            let number = self.order[at];
            let peer = self.peer_at(number);
            if peer.server.is_some() || peer.connecting {
                continue;
            }
            if now < peer.backoff.next_at {
                self.wake(self.peer_at(number).backoff.next_at);
                continue;
            }
            self.open(number, SLOTS_FIRST, now);
            if one {
                return;
            }
        }
    }

    /// Opens another session if the first call has waited long enough, or calls have had to wait
    /// repeatedly for long enough. Chooses the connected server with the fewest sessions.
    fn grow(&mut self, now: Time) {
        let Some(first) = self.waiting.first() else { return };
        if self.growing.is_some() || !self.is_ready() {
            return;
        }
        let due = first.since.plus_nanos(GROW_NANOS).min(self.pressure.due());
        if now < due {
            return self.wake(due);
        }
        let sessions = |number: u32| self.peer_at(number).sessions().count();
        let numbers = self.servers.iter().map(|server| server.number);
        let sessions_max = self.config.sessions_max.min(SESSIONS_MAX);
        let may =
            |&number: &u32| !self.peer_at(number).connecting && sessions(number) < sessions_max;
        let candidates: Vec<u32> = numbers.filter(may).collect();
        let due = |&&number: &&u32| self.peer_at(number).growth.next_at <= now;
        if let Some(&number) = candidates.iter().filter(due).min_by_key(|&&n| sessions(n)) {
            self.growing = Some(number);
            self.open(number, SLOTS_MORE, now);
        } else if let Some(later) = candidates.iter().map(|&n| self.peer_at(n).growth.next_at).min()
        {
            self.wake(later);
        }
    }

    /// Closes additional sessions that have been idle.
    fn shrink(&mut self, now: Time) {
        let extra = |peer: &Peer| peer.server.is_some() && peer.sessions().nth(1).is_some();
        let numbers = self.servers.iter().map(|server| server.number);
        let grown: Vec<u32> = numbers.filter(|&number| extra(self.peer_at(number))).collect();
        if grown.is_empty() {
            self.shrink_at = Time::NEVER;
            return;
        }
        if self.shrink_at == Time::NEVER {
            self.shrink_at = now.plus_nanos(SHRINK_NANOS);
        }
        if now >= self.shrink_at {
            self.shrink_at = now.plus_nanos(SHRINK_NANOS);
            grown.into_iter().for_each(|number| self.close_idle(number, now));
        }
        self.wake(self.shrink_at);
    }

    fn close_idle(&mut self, number: u32, now: Time) {
        let open = self.peer_at(number).sessions().filter(|(_, session)| !session.draining);
        let idle = open.skip(1).filter(|(_, session)| {
            session.running == 0 && now.nanos_since(session.idle_since) >= SHRINK_NANOS
        });
        let index = |place, generation| SessionIndex { peer: number, place, generation };
        let idle: Vec<_> = idle.map(|(place, session)| index(place, session.generation)).collect();
        idle.into_iter().for_each(|session| self.close(session));
        self.update(number);
    }

    fn open(&mut self, number: u32, slots: u32, now: Time) {
        let peer = &mut self.peers[number as usize];
        peer.connecting = true;
        let grows = self.growing == Some(number);
        let backoff = if grows { &mut peer.growth } else { &mut peer.backoff };
        backoff.on_start(now);
        let index = PeerIndex { number, generation: peer.generation };
        self.actions.push_back(Action::Connect { peer: index, address: peer.address, slots });
    }

    /// Updates whether calls fail because all servers have failed since they were last connected.
    /// This lasts until one is connected, even while attempts are under way (gRFC A62).
    pub(super) fn update_failing(&mut self) {
        let was = self.failing.is_some();
        let all = self.order.iter().all(|&number| self.peer_at(number).failing);
        self.failing = match (self.last_failed, self.order.len()) {
            _ if self.is_ready() || !all => None,
            (_, 0) => self.lookups.told.then_some(PickError::NoAddress),
            (last, servers) => last.map(|last| PickError::Unreachable { servers, last }),
        };
        if self.failing.is_some() && !was {
            self.waiting.on_failing();
        }
    }

    fn list(&mut self, address: Address) -> u32 {
        let Some(&number) = self.by_address.get(&address) else { return self.add(address) };
        let peer = &mut self.peers[number as usize];
        peer.listed = true;
        if peer.is_open() {
            self.enlist(number);
        }
        number
    }

    fn add(&mut self, address: Address) -> u32 {
        let peer = Peer::new(address, self.next_generation());
        let number = self.free.pop().unwrap_or_else(|| {
            u32::try_from(self.peers.len()).expect("fewer addresses than bytes of memory")
        });
        match self.peers.get_mut(number as usize) {
            Some(free) => *free = peer,
            None => self.peers.push(peer),
        }
        self.by_address.insert(address, number);
        number
    }

    fn unlist(&mut self, number: u32) {
        self.delist(number);
        let peer = &mut self.peers[number as usize];
        peer.listed = false;
        let idle = peer.sessions().filter(|(_, session)| session.running == 0);
        let index = |place, generation| SessionIndex { peer: number, place, generation };
        let idle: Vec<_> = idle.map(|(place, session)| index(place, session.generation)).collect();
        idle.into_iter().for_each(|session| self.close(session));
        self.free_if_gone(number);
    }

    /// Frees a peer that is not listed and has neither sessions nor a connect.
    pub(super) fn free_if_gone(&mut self, number: u32) {
        let peer = self.peer_at(number);
        if peer.listed || peer.connecting || peer.sessions().next().is_some() {
            return;
        }
        if self.by_address.get(&peer.address) == Some(&number) {
            let address = peer.address;
            self.by_address.remove(&address);
            // A new generation invalidates indices with the old number.
            self.peers[number as usize].generation = self.next_generation();
            self.free.push(number);
        }
    }

    fn wake(&mut self, at: Time) {
        self.wake_at = self.wake_at.min(at);
    }

    fn peer_at(&self, number: u32) -> &Peer {
        &self.peers[number as usize]
    }
}
