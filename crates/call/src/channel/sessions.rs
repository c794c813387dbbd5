//! The inputs of [`ChannelCore`] about sessions and calls, which change call counts.

use petasos_base::{Rng, Time};

use super::connect::Pressure;
use super::peer::{Backoff, Session};
use super::{Action, Avoid, ChannelCore, PeerIndex, SessionIndex};
use crate::balance::{Report, Server};

impl ChannelCore {
    /// Handles a new session with this many slots. If the result is `None`, close the session: it
    /// is not wanted.
    pub fn handle_connected(
        &mut self,
        peer: PeerIndex,
        slots: u32,
        now: Time,
    ) -> Option<SessionIndex> {
        let generation = self.next_generation();
        let capacity = if self.config.streams { slots / 2 } else { slots };
        let grows = self.growing == Some(peer.number);
        let entry = self.peer_mut(peer)?;
        entry.connecting = false;
        match grows {
            true => entry.growth = Backoff::default(),
            false => entry.backoff.on_success(),
        }
        self.on_connect_over(peer.number);
        let entry = &mut self.peers[peer.number as usize];
        if !entry.listed || capacity == 0 {
            entry.failing = true;
            self.last_failed = Some(entry.address);
            self.free_if_gone(peer.number);
            self.update_failing();
            return None;
        }
        entry.failing = false;
        let session =
            Session { generation, capacity, running: 0, idle_since: now, draining: false };
        let place = entry.add(session)?;
        self.enlist(peer.number);
        self.update(peer.number);
        Some(SessionIndex { peer: peer.number, place, generation })
    }

    /// Handles a session that could not be opened.
    pub fn handle_failed(&mut self, peer: PeerIndex, rng: &mut Rng) {
        let grows = self.growing == Some(peer.number);
        let Some(entry) = self.peer_mut(peer) else { return };
        entry.connecting = false;
        let backoff = if grows { &mut entry.growth } else { &mut entry.backoff };
        backoff.on_failure(rng);
        entry.failing = entry.server.is_none();
        if entry.failing {
            let address = entry.address;
            self.last_failed = Some(address);
            self.lookups.on_failure();
        }
        self.on_connect_over(peer.number);
        self.free_if_gone(peer.number);
        self.update_failing();
    }

    /// Handles a session that has failed or that its server has closed. Its calls have failed as
    /// well; later ends of these calls are ignored.
    pub fn handle_lost(&mut self, session: SessionIndex, now: Time) {
        let Some(peer) = self.peers.get_mut(session.peer as usize) else { return };
        let Some(lost) = peer.remove(session) else { return };
        // Of one that drained, it was known.
        let is_early = !lost.draining && now < peer.backoff.next_at;
        self.lookups.on_failure();
        self.on_fewer(session.peer, is_early);
    }

    /// Handles a session whose server drains (C13): it gets no more calls, and is closed when its
    /// running calls have ended.
    pub fn handle_draining(&mut self, session: SessionIndex, now: Time) {
        let Some(peer) = self.peers.get_mut(session.peer as usize) else { return };
        let is_early = now < peer.backoff.next_at;
        self.drain(session, is_early);
    }

    /// Like [`ChannelCore::handle_draining`], where another process is at the server's address
    /// already (C22), or the server wants another connection (HTTP/2's GOAWAY): calls wait until
    /// that is there, which is tried soon.
    pub fn handle_succeeded(&mut self, session: SessionIndex) {
        let Some(peer) = self.peers.get_mut(session.peer as usize) else { return };
        if peer.session(session).is_some_and(|session| !session.draining) {
            peer.backoff.on_successor();
            self.drain(session, false);
        }
    }

    fn drain(&mut self, session: SessionIndex, is_failure: bool) {
        let Some(is_idle) = self.peers[session.peer as usize].drain(session) else { return };
        if is_idle {
            self.close(session);
        }
        self.on_fewer(session.peer, is_failure);
    }

    /// Handles the end of a call in a session. `report` is the load information of its response. It
    /// must be `None` if the call failed, even if the server failed it: a server that fails quickly
    /// must not look fast.
    pub fn handle_ended(&mut self, session: SessionIndex, report: Option<Report>, now: Time) {
        if !self.release(session, now) {
            return;
        }
        if let Some(report) = report {
            self.balancer.handle_report(session.peer, report, now);
        }
    }

    /// Lends all free slots of `session` to the driver, which gives them to calls without a pick
    /// for each. Works only while there is exactly one server. Returns the number of slots; 0 if
    /// there is a choice to make. The driver returns each slot with [`ChannelCore::handle_ended`],
    /// after a call or without one. It returns all slots when servers or their sessions change, and
    /// at each [`ChannelCore::next_timeout`]: a session with lent slots does not look idle.
    pub fn lease(&mut self, session: SessionIndex) -> u32 {
        let [only] = self.servers[..] else { return 0 };
        let peer = &mut self.peers[only.number as usize];
        if session.peer != only.number || !self.waiting.is_empty() {
            return 0;
        }
        let free = peer.occupy_rest(session);
        let has_room = peer.has_room();
        let server = &mut self.servers[0];
        (server.running, server.has_room) = (server.running + free, has_room);
        free
    }

    /// Handles the end of a probe. Without a report, the probe failed.
    pub fn handle_probed(
        &mut self,
        session: SessionIndex,
        report: Option<Report>,
        now: Time,
        rng: &mut Rng,
    ) {
        if !self.release(session, now) {
            return;
        }
        match report {
            Some(report) => self.balancer.handle_probed(session.peer, report, now, rng),
            None => self.balancer.handle_probe_failed(session.peer),
        }
    }

    /// Gives a call a slot of the server that the balancer chooses.
    pub(super) fn assign(
        &mut self,
        avoid: &Avoid,
        now: Time,
        rng: &mut Rng,
    ) -> Option<SessionIndex> {
        // With one server, there is nothing to balance or to probe.
        if let [only] = self.servers[..] {
            return self.occupy(only.number, avoid);
        }
        let at = self.balancer.pick(&self.servers, avoid, now, rng)?;
        let number = self.servers[at].number;
        Some(self.occupy(number, avoid).expect("a balancer picks servers with room"))
    }

    /// The probe that the balancer wants. Servers without room are skipped: they are busy anyway.
    pub(super) fn probe(&mut self) -> Option<Action> {
        while let Some(number) = self.balancer.poll_probe() {
            if self.peers[number as usize].server.is_some()
                && let Some(session) = self.occupy(number, &Avoid::default())
            {
                return Some(Action::Probe(session));
            }
            self.balancer.handle_probe_failed(number);
        }
        None
    }

    fn occupy(&mut self, number: u32, avoid: &Avoid) -> Option<SessionIndex> {
        let peer = &mut self.peers[number as usize];
        let other = if avoid.is_empty() { None } else { peer.occupy_other(number, avoid) };
        let (place, generation) = other.or_else(|| peer.occupy())?;
        Some(self.occupied(number, place, generation))
    }

    /// Updates the entry of a server after a slot was taken.
    fn occupied(&mut self, number: u32, place: u8, generation: u32) -> SessionIndex {
        let peer = &self.peers[number as usize];
        let has_room = peer.has_room();
        if let Some(at) = peer.server {
            let server = &mut self.servers[at];
            server.running += 1;
            server.has_room = has_room;
        }
        SessionIndex { peer: number, place, generation }
    }

    /// Returns a slot; false if the session is gone.
    fn release(&mut self, index: SessionIndex, now: Time) -> bool {
        let Some(peer) = self.peers.get_mut(index.peer as usize) else { return false };
        let Some(session) = peer.release(index, now) else { return false };
        if let Some(at) = peer.server {
            let server = &mut self.servers[at];
            server.running -= 1;
            server.has_room = peer.has_room();
        }
        if session.running == 0 && (session.draining || !peer.listed) {
            self.close(index);
            self.free_if_gone(index.peer);
        }
        true
    }

    /// Closes a session that has no calls.
    pub(super) fn close(&mut self, index: SessionIndex) {
        let closed = self.peers[index.peer as usize].remove(index);
        assert!(closed.is_some_and(|session| session.running == 0), "only idle sessions close");
        self.actions.push_back(Action::Close(index));
    }

    /// Handles a session that is gone, or accepts no more calls. `is_failure` says whether its
    /// server has failed if this was the last one.
    fn on_fewer(&mut self, number: u32, is_failure: bool) {
        let peer = &mut self.peers[number as usize];
        if peer.is_open() {
            self.update(number);
        } else {
            // A server that was connected for a while may be tried again at once. A connection that
            // was lost early counts as a failure.
            peer.failing |= is_failure;
            self.last_failed = Some(peer.address);
            self.delist(number);
        }
        self.dirty = true;
        self.free_if_gone(number);
        self.update_failing();
    }

    /// Adds a listed peer that is open to the list of servers.
    pub(super) fn enlist(&mut self, number: u32) {
        let peer = &mut self.peers[number as usize];
        if peer.server.is_none() {
            peer.server = Some(self.servers.len());
            let (running, has_room) = (peer.running(), peer.has_room());
            self.servers.push(Server { number, running, has_room });
        }
        self.update_failing();
    }

    pub(super) fn delist(&mut self, number: u32) {
        let Some(at) = self.peers[number as usize].server.take() else { return };
        self.servers.swap_remove(at);
        if let Some(moved) = self.servers.get(at) {
            self.peers[moved.number as usize].server = Some(at);
        }
        self.balancer.handle_gone(number);
    }

    /// Updates a server's entry from its sessions.
    pub(super) fn update(&mut self, number: u32) {
        let peer = &self.peers[number as usize];
        if let Some(at) = peer.server {
            let (running, has_room) = (peer.running(), peer.has_room());
            self.servers[at] = Server { number, running, has_room };
        }
        self.dirty = true;
    }

    fn on_connect_over(&mut self, number: u32) {
        if self.growing == Some(number) {
            self.growing = None;
            self.pressure = Pressure::default();
        }
        self.dirty = true;
    }
}
