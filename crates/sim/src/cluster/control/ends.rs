//! How a host reacts to events of its control connections.

use petasos_control::{
    AcceptParams, ConnectError, ConnectFailure, ConnectParams, Event, FailureReason,
};
use petasos_netio::memory::MemoryIo;

use super::streams::End;
use super::{ControlPlane, incarnation};
use crate::World;
use crate::cluster::check::Violation;
use crate::cluster::node::Node;
use crate::cluster::sessions;

impl ControlPlane {
    pub(super) fn on_event(&mut self, world: &mut World<Node>, end: &mut End, event: Event) {
        match event {
            Event::PeerHello { hello, .. } => {
                assert_eq!(hello.incarnation, incarnation(end.peer), "streams join these lives");
                self.on_hello(world, end);
            }
            Event::ConnectRequested { id, params } => {
                if !end.settled {
                    self.stand(end);
                    self.ask(world, end);
                }
                self.grant(world, end, id, &params);
            }
            Event::ConnectAnswered { id, result } => self.on_answer(world, end, id, result),
            Event::PeerFailed(reason) => self.on_failure(world, end, &reason),
            event if self.on_resumption(world, end, &event) => {}
            event => self.accuse(Violation::new(
                "control connections do what they are asked",
                format_args!("{:?} of {:?}: {event:?}", end.peer, end.life),
            )),
        }
    }

    fn on_hello(&mut self, world: &mut World<Node>, end: &mut End) {
        if self.peer(end).life.is_some_and(|life| life > end.peer) {
            // The last messages of a dead life, overtaken on a later stream.
            end.done = true;
            return;
        }
        if self.peer(end).life.is_some_and(|life| life != end.peer) {
            self.tally.replaced += 1;
            self.give_up_all(world, end.life, end.peer.host);
        }
        self.peer(end).life = Some(end.peer);
        self.on_peer(world, end);
    }

    /// Asks for the missing sessions, under the same number if they were asked for on an earlier
    /// stream.
    pub(super) fn ask(&mut self, world: &mut World<Node>, end: &mut End) {
        let (client, server) = (end.life.host, end.peer.host);
        let is_other = self.peer(end).asked_on.is_some_and(|number| number != end.number);
        if is_other || end.seeks.is_some() || !self.pairs.contains(&(client, server)) {
            return;
        }
        self.peer(end).asked_on = Some(end.number);
        let wanted = self.sessions as usize;
        let attempts = self.link(end).map(|link| link.attempts.keys().copied().collect());
        let asked: Vec<u64> = attempts.unwrap_or_default();
        self.tally.asked_again += asked.len() as u64;
        let there = world.host(client).app().peers.get(&server);
        let there = there.map_or(0, |(_, sessions)| sessions.len());
        let fresh = (there + asked.len()..wanted).map(|_| self.attempt(world, end));
        let fresh: Vec<u64> = fresh.collect();
        asked.into_iter().chain(fresh).for_each(|id| self.ask_for(world, end, id));
    }

    fn ask_for(&mut self, world: &World<Node>, end: &mut End, id: u64) {
        let link = self.link(end).expect("sessions are asked for on a connection that stands");
        let params = link.attempts[&id].params;
        match end.connection.connect(id, params, world.now()) {
            // If the connection ends at the same moment, the next one asks again.
            Ok(()) | Err(ConnectError::NotOpen) => {}
            Err(error) => {
                let what = format_args!("{:?} cannot ask for {id}: {error}", end.life).to_string();
                self.accuse(Violation::new("connections take a few connects", what));
            }
        }
    }

    /// Prepares a session to be asked for.
    fn attempt(&mut self, world: &mut World<Node>, end: &End) -> u64 {
        let offer = world.with_host(end.life.host, |node, _| {
            let to = MemoryIo::address(end.peer.host);
            let offer = node.endpoint.open_session(to, Some(end.number));
            let offer = offer.expect("the hub reaches every port");
            offer.expect("the scenario has room for its sessions")
        });
        let peer = self.peer(end);
        peer.next_id += 1;
        let id = peer.next_id;
        let link = self.link(end).expect("sessions are asked for on a connection that stands");
        link.attempts.insert(id, offer);
        id
    }

    fn grant(&mut self, world: &mut World<Node>, end: &mut End, id: u64, params: &ConnectParams) {
        if !self.granted.insert((end.life, end.peer, id)) {
            let what = format_args!("{:?} grants connect {id} of {:?} twice", end.life, end.peer);
            return self.accuse(Violation::new("connects are idempotent", what.to_string()));
        }
        self.tally.granted += 1;
        let granted = world.with_host(end.life.host, |node, _| {
            let ip = MemoryIo::address(end.peer.host).ip();
            let granted = node.endpoint.accept_session(params, ip, Some(end.number));
            let granted = granted.expect("the scenario has room for its sessions");
            node.retained_bytes_max += sessions::retained_bytes_max(&granted);
            granted
        });
        end.connection.reply(id, Ok(granted)).expect("the connect has just been asked");
    }

    fn on_answer(
        &mut self,
        world: &mut World<Node>,
        end: &mut End,
        id: u64,
        result: Result<AcceptParams, ConnectFailure>,
    ) {
        if self.link(end).is_none() {
            // The connection was given up together with its attempts.
            return;
        }
        match result {
            Ok(granted) => self.establish(world, end, id, &granted),
            Err(ConnectFailure::TimedOut) => {
                self.tally.asked_again += 1;
                self.ask_for(world, end, id);
            }
            // It is asked for again on the next stream, if there is one to the same life.
            Err(ConnectFailure::PeerFailed) => {}
            Err(error) => {
                let what = format_args!("connect {id} of {:?}: {error}", end.life).to_string();
                self.accuse(Violation::new("connects succeed", what));
            }
        }
    }

    fn establish(&mut self, world: &mut World<Node>, end: &End, id: u64, granted: &AcceptParams) {
        let offer = self.link(end).and_then(|link| link.attempts.remove(&id));
        let offer = offer.expect("every answered attempt has been asked");
        let server = end.peer;
        world.with_host(end.life.host, |node, _| {
            let ip = MemoryIo::address(server.host).ip();
            let ready = node.endpoint.establish_session(&offer, granted, ip);
            assert!(ready.expect("the hub reaches every port"), "the session waits for this");
            let peers = &mut node.endpoint.state_mut().peers;
            peers.entry(server.host).or_insert((server, Vec::new())).1.push(offer.session);
        });
    }

    fn on_failure(&mut self, world: &mut World<Node>, end: &mut End, reason: &FailureReason) {
        end.done = true;
        if self.peer(end).life != Some(end.peer) {
            return;
        }
        match reason {
            FailureReason::Timeout if self.link(end).is_some() => {
                self.tally.silent += 1;
                self.standing.remove(&end.number);
                self.give_up(world, end.life, end.peer.host, end.number);
                let peer = self.peer(end);
                peer.life = peer.life.filter(|_| !peer.links.is_empty());
            }
            // The connection tried to replace another one, or no session depended on it yet.
            FailureReason::Timeout => {}
            FailureReason::Reset => self.on_broken(world, end),
            reason => self.accuse(Violation::new(
                "control connections do not fail without a cause",
                format_args!("{:?} of {:?}: {reason}", end.peer, end.life),
            )),
        }
    }
}
