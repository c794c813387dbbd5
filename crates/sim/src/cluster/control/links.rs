//! What hosts know about each other: connections, and the sessions that depend on them.

use std::collections::BTreeMap;

use petasos_base::Time;
use petasos_control::{Answers, Ticket};
use petasos_endpoint::SessionOffer;

use super::ControlPlane;
use super::streams::End;
use crate::World;
use crate::cluster::check::{Event, Life};
use crate::cluster::node::Node;

/// What a life knows of a host.
#[derive(Default)]
pub(super) struct Peer {
    /// The life that its connections lead to.
    pub(super) life: Option<Life>,
    /// Connections that sessions depend on, by number. There is more than one if the peer has
    /// started anew while this host still waits for the other one to be resumed.
    pub(super) links: BTreeMap<u64, Link>,
    /// The connection on which sessions to the host have been asked for.
    pub(super) asked_on: Option<u64>,
    pub(super) next_id: u64,
}

/// A connection, from its first session until its sessions end.
pub(super) struct Link {
    /// What the peer calls it.
    pub(super) far: u64,
    /// The end that represents it, now or last.
    pub(super) end: u64,
    /// Tickets; the last one is most likely to be accepted.
    pub(super) tickets: Vec<Ticket>,
    /// Connect requests without an answer.
    pub(super) attempts: BTreeMap<u64, SessionOffer>,
    pub(super) lost: Option<Lost>,
}

/// A connection that broke.
pub(super) struct Lost {
    /// When its sessions end unless it is resumed.
    pub(super) until: Time,
    pub(super) answers: Answers,
}

impl ControlPlane {
    /// The connection that `end` represents.
    pub(super) fn link(&mut self, end: &End) -> Option<&mut Link> {
        let number = end.number;
        let link = self.peer(end).links.get_mut(&number);
        link.filter(|link| link.end == end.own)
    }

    /// Notes that sessions are asked for and granted on this connection.
    pub(super) fn begin(&mut self, world: &mut World<Node>, end: &mut End) {
        end.seeks = None;
        self.stand(end);
        self.ask(world, end);
    }

    /// Notes that sessions may depend on this connection, even if it still tries to replace another
    /// one.
    pub(super) fn stand(&mut self, end: &mut End) {
        end.settled = true;
        self.standing.insert(end.number);
        let (tickets, attempts) = (Vec::from_iter(end.ticket), BTreeMap::new());
        let link = Link { far: end.far, end: end.own, tickets, attempts, lost: None };
        self.peer(end).links.insert(end.number, link);
    }

    /// Continues with a connection that waited for the end of another one.
    pub(super) fn go_on(&mut self, world: &mut World<Node>, end: &mut End) {
        let peer = self.peer(end);
        if end.done || peer.life != Some(end.peer) || !end.connection.is_open() {
            return;
        }
        if end.settled && peer.asked_on.is_none() {
            self.ask(world, end);
        } else if !end.settled && end.seeks.is_none() && peer.links.is_empty() {
            self.begin(world, end);
        }
    }

    /// Ends everything that depends on the connections of a life to a host.
    pub(super) fn give_up_all(&mut self, world: &mut World<Node>, at: Life, host: u32) {
        let peer = self.peers.entry((at, host)).or_default();
        let numbers: Vec<u64> = peer.links.keys().copied().collect();
        for number in numbers {
            self.standing.remove(&number);
            self.give_up(world, at, host, number);
        }
    }

    /// Ends everything that depends on a connection.
    pub(super) fn give_up(&mut self, world: &mut World<Node>, at: Life, host: u32, number: u64) {
        let peer = self.peers.entry((at, host)).or_default();
        let Some(link) = peer.links.remove(&number) else { return };
        let is_asked_on = peer.asked_on == Some(number);
        if is_asked_on {
            peer.asked_on = None;
        }
        let life = peer.life.expect("connections lead to a life");
        world.with_host(at.host, |node, now| {
            let app = node.endpoint.state_mut();
            let lost = is_asked_on.then(|| app.peers.remove(&host)).flatten();
            // What the server ends first counts as a cause at the client, too.
            app.note(now, Event::PeerFailed { client: at, server: life });
            app.note(now, Event::PeerFailed { client: life, server: at });
            node.endpoint.fail_peer(number);
            let sessions = lost.into_iter().flat_map(|(_, sessions)| sessions);
            let offers = link.attempts.values().map(|offer| offer.session);
            sessions.chain(offers).for_each(|session| node.endpoint.close_session(session));
        });
    }
}
