//! A router: its core, the windows of its clients, and what it writes into packets.

use core::time::Duration;

use petasos_base::{ReplayWindow, Rng, Time, replay_words};
use petasos_proto::given::GivenTimes;
use petasos_router::{
    Admission, Affinity, Config, Event, Join, Keys, Output, Refusal, Request, Router, WorkerId,
};
use petasos_wire::{
    FIRST_BYTES, Feedback, Given, Header, Kind, Packet, Probe, RejectCode, RoutePolicy,
    RoutedPacket, WorkerBlock,
};

use crate::network::{Network, Node};
use crate::sessions::GROUP;

/// A first packet that waits.
struct Token {
    bytes: Vec<u8>,
    client: u32,
    expires: Time,
}

struct Client {
    node: Node,
    tag: u32,
    window: ReplayWindow<{ replay_words(1024) }>,
}

struct Member {
    id: WorkerId,
    node: Node,
    /// The worker's index and tag for the router.
    at_worker: (u32, u32),
    /// The router's tag for the worker, and the secret bits.
    tag: u32,
    secret: u64,
}

/// What a client is told as it attaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    pub(crate) client: u32,
    pub(crate) tag: u32,
}

/// What a worker is told as it joins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) worker: u16,
    pub(crate) session: u32,
    pub(crate) tag: u32,
    pub(crate) secret: u64,
    pub(crate) times: GivenTimes,
    pub(crate) claim: Duration,
}

pub(crate) struct RouterNode {
    node: Node,
    core: Router<Token>,
    rng: Rng,
    clients: Vec<Client>,
    /// By the worker's number less one; `None` are gone.
    members: Vec<Option<Member>>,
}

impl RouterNode {
    pub(crate) fn new(node: Node, rng: Rng) -> RouterNode {
        let keys = Keys { places: 16, ..Config::default().keys };
        let config = Config { keys, ..Config::default() };
        let core = Router::new(&config).expect("the configuration is right");
        RouterNode { node, core, rng, clients: Vec::new(), members: Vec::new() }
    }

    pub(crate) fn attach(&mut self, node: Node) -> Attached {
        let tag = self.rng.below(1 << 28) as u32;
        let mut window = ReplayWindow::new();
        window.insert(0);
        self.clients.push(Client { node, tag, window });
        Attached { client: (self.clients.len() - 1) as u32, tag }
    }

    pub(crate) fn join(
        &mut self,
        now: Time,
        node: Node,
        bound: u16,
        at_worker: (u32, u32),
    ) -> Joined {
        let join = Join { identity: self.members.len() as u64, bound, weight: 100 };
        let id = self.core.handle_join(now, join).expect("there are places");
        if node == Node::Worker(0) {
            self.core.set_primary(Some(id));
        }
        let (tag, secret) = (self.rng.below(1 << 28) as u32, self.rng.below(1 << 40));
        self.members.push(Some(Member { id, node, at_worker, tag, secret }));
        let worker = self.members.len() as u16;
        let (hole, beat) = (Duration::from_millis(2), Duration::from_millis(20));
        let (times, claim) = (GivenTimes { hole, beat }, Duration::from_millis(20));
        Joined { worker, session: worker.into(), tag, secret, times, claim }
    }

    /// Whose numbers are who, for rosters.
    pub(crate) fn roster(&self) -> impl Iterator<Item = (u16, Node)> {
        let members = self.members.iter().zip(1..);
        members.filter_map(|(member, number)| Some((number, member.as_ref()?.node)))
    }

    /// Numbers of clients, for workers.
    pub(crate) fn clients(&self) -> impl Iterator<Item = (u32, Node)> {
        (0..).zip(self.clients.iter().map(|client| client.node))
    }

    /// A worker has crashed.
    pub(crate) fn end(&mut self, node: Node) {
        for member in &mut self.members {
            if let Some(gone) = member.take_if(|member| member.node == node) {
                self.core.handle_end(gone.id);
            }
        }
    }

    pub(crate) fn hears(&mut self, network: &mut Network, from: Node, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        match packet.kind() {
            Kind::Routed => self.takes(network, from, packet, bytes),
            Kind::Feedback => self.learns(network.now, from, packet),
            _ => {}
        }
    }

    /// RT24.
    fn takes(&mut self, network: &mut Network, from: Node, packet: Packet<'_>, bytes: &[u8]) {
        let Ok(first) = RoutedPacket::from_client(packet, GROUP) else { return };
        let Some(client) = self.clients.get_mut(first.client() as usize) else { return };
        let is_its = client.node == from
            && client.tag == first.header().tag()
            && first.reply() == from.address();
        if !is_its || !client.window.is_new(first.number()) {
            return;
        }
        client.window.insert(first.number());
        let now = network.now;
        let lifetime = first.lifetime_us().map(|us| Duration::from_micros(us.into()));
        let expires = lifetime.map_or(Time::NEVER, |left| now + left);
        let token = Token { bytes: bytes.to_vec(), client: first.client(), expires };
        let affinity = match first.policy() {
            Some(RoutePolicy::Any) => Affinity::Any,
            Some(RoutePolicy::Primary) => Affinity::Primary,
            Some(RoutePolicy::Hash) => Affinity::Key(first.key_hash().into()),
            _ => unreachable!("clients name no other policy"),
        };
        let priority = first.priority();
        let request = Request { token, affinity, priority, expires };
        match self.core.handle_request(now, request) {
            Admission::Admitted => {}
            Admission::Displaced(token) => self.reject(network, &token, Refusal::Full),
            Admission::Refused(token, why) => self.reject(network, &token, why),
        }
    }

    fn learns(&mut self, now: Time, from: Node, packet: Packet<'_>) {
        let Ok(told) = Feedback::of(packet) else { return };
        let member = self.members.get(told.session.wrapping_sub(1) as usize);
        let Some(member) = member.and_then(Option::as_ref) else { return };
        if member.node == from && member.tag == told.tag && member.secret == told.secret {
            // What is stale or void changes nothing.
            let _ = self.core.handle_feedback(now, member.id, &told.counts);
        }
    }

    pub(crate) fn turn(&mut self, network: &mut Network) {
        let now = network.now;
        if self.core.next_timeout() <= now {
            self.core.handle_timeout(now);
        }
        while let Some(output) = self.core.poll(now, &mut self.rng) {
            match output {
                Output::Give(given) => {
                    let left = given.token.expires - now;
                    let lifetime_us = match given.token.expires {
                        Time::NEVER => None,
                        _ => Some(left.as_micros() as u32),
                    };
                    let Some(member) = self.member(given.worker) else { continue };
                    let (session, tag) = member.at_worker;
                    let (number, to) = ((given.number % (1 << 20)) as u32, member.node);
                    let mut bytes = given.token.bytes;
                    let first = bytes.first_chunk_mut::<FIRST_BYTES>().expect("it was checked");
                    Given { session, tag, number, lifetime_us }.write_to(first);
                    network.send(self.node, to, &bytes);
                }
                Output::Probe { worker, number } => {
                    let Some(member) = self.member(worker) else { continue };
                    let (session, tag) = member.at_worker;
                    let probe = Probe { session, tag, number: (number % (1 << 20)) as u32 };
                    network.send(self.node, member.node, &probe.to_bytes());
                }
                Output::Dropped(token, why) => self.reject(network, &token, why),
            }
        }
    }

    /// Workers that are no members any more, and have to join anew.
    pub(crate) fn gone(&mut self) -> Option<Node> {
        while let Some(event) = self.core.poll_event() {
            if let Event::Gone { worker, .. } = event
                && let Some(member) =
                    self.members.iter_mut().find_map(|it| it.take_if(|it| it.id == worker))
            {
                return Some(member.node);
            }
        }
        None
    }

    /// Numbers that are outstanding, at all workers.
    pub(crate) fn outstanding(&self) -> u64 {
        self.core.outstanding()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.core.waiting()
    }

    fn member(&self, id: WorkerId) -> Option<&Member> {
        self.members.iter().flatten().find(|member| member.id == id)
    }

    /// RT25.
    fn reject(&mut self, network: &mut Network, token: &Token, why: Refusal) {
        let code = match why {
            Refusal::Expired => RejectCode::Expired,
            Refusal::Nobody => RejectCode::NoWorker,
            _ => RejectCode::QueueFull,
        };
        let packet = Packet::parse(&token.bytes).expect("it was checked");
        let first = RoutedPacket::from_client(packet, GROUP).expect("it was checked");
        let header = Header::for_session(first.pair(), first.pair_tag())
            .with_request(Kind::Reject, packet.request(), 0)
            .with_server(packet.transmission(), code as u32, 0);
        let block = WorkerBlock { session: 0, tag: 0, worker: WorkerBlock::ROUTER };
        let bytes = [&header.to_bytes()[..], &block.to_bytes()].concat();
        network.send(self.node, self.clients[token.client as usize].node, &bytes);
    }
}
