//! A worker: its taken requests, their sessions, and handlers that take their time.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};

use petasos_base::{Rng, Time};
use petasos_proto::given::GivenNumbers;
use petasos_proto::taken::{
    Answered, Arrived, Asker, Due, MembershipId, Part, Progress, SessionName, TakenConfig, TakenId,
    TakenRequests,
};
use petasos_proto::{RequestAction, Respond, ServerSession};
use petasos_wire::{
    BITMAP_WORDS_MAX, Feedback, Header, Kind, Packet, RejectCode, RoutedPacket, WorkerBlock,
};

use crate::judge::Judge;
use crate::network::{Network, Node};
use crate::router::Joined;
use crate::sabotage::Sabotage;
use crate::sessions::{GROUP, params, part, store};

struct Membership {
    id: MembershipId,
    router: Node,
    /// The worker's index and tag for the router.
    session: u32,
    tag: u32,
    joined: Joined,
    /// Places and nodes of clients, by their numbers.
    clients: HashMap<u32, (u32, Node)>,
}

/// A pair's session, or one that is free.
struct Session {
    server: ServerSession<Vec<u8>>,
    id: Option<TakenId>,
    client: Node,
    /// The worker's number for the client.
    worker: u16,
    /// Of the call whose handler runs.
    call: u64,
}

pub(crate) struct WorkerNode {
    node: Node,
    taken: TakenRequests<usize>,
    rng: Rng,
    memberships: Vec<Membership>,
    next_membership: u32,
    places: u32,
    sessions: Vec<Session>,
    free: Vec<usize>,
    /// Handlers that run: which request, its call, and whether it is rejected.
    jobs: BTreeMap<(Time, u64), (TakenId, usize, u64)>,
    sequence: u64,
    is_draining: bool,
}

impl WorkerNode {
    pub(crate) fn new(node: Node, rng: Rng) -> WorkerNode {
        WorkerNode {
            node,
            taken: TakenRequests::new(TakenConfig::default()),
            rng,
            memberships: Vec::new(),
            next_membership: 0,
            places: 0,
            sessions: Vec::new(),
            free: Vec::new(),
            jobs: BTreeMap::new(),
            sequence: 0,
            is_draining: false,
        }
    }

    /// What the worker wants to be named in first packets of a router.
    pub(crate) fn offer(&mut self) -> (u32, u32) {
        self.next_membership += 1;
        (1 << 19 | self.next_membership, self.rng.below(1 << 28) as u32)
    }

    pub(crate) fn join(
        &mut self,
        now: Time,
        router: Node,
        at: (u32, u32),
        bound: u16,
        told: Joined,
    ) {
        let id = MembershipId(at.0);
        self.taken.join(id, GivenNumbers::new(now, told.times, bound), told.claim);
        let (session, tag) = at;
        let clients = HashMap::new();
        self.memberships.push(Membership { id, router, session, tag, joined: told, clients });
        self.is_draining = false;
    }

    /// The worker takes nothing more, of any router.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        for membership in &self.memberships {
            self.taken.given(membership.id).expect("it has not ended").set_n(0);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Whether the worker has drained, and has nothing left (RT35).
    pub(crate) fn may_leave(&mut self) -> bool {
        self.is_draining && self.held() == (0, 0)
    }

    /// The memberships of a router end.
    pub(crate) fn leave(&mut self, router: Node) {
        let (gone, left): (Vec<_>, _) =
            self.memberships.drain(..).partition(|membership| membership.router == router);
        self.memberships = left;
        gone.iter().for_each(|membership| self.taken.leave(membership.id));
    }

    /// The router has a client with this number (RT29).
    pub(crate) fn client_is(&mut self, router: Node, number: u32, node: Node) {
        let place = self.places;
        let membership = self.memberships.iter_mut().find(|it| it.router == router);
        if let Some(membership) = membership
            && !membership.clients.contains_key(&number)
        {
            membership.clients.insert(number, (place, node));
            self.places += 1;
        }
    }

    pub(crate) fn hears(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        from: Node,
        bytes: &[u8],
    ) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        match (packet.kind(), from) {
            (Kind::Routed, Node::Router(_)) => self.takes(network, judge, from, packet),
            (_, Node::Client(_)) => self.session_hears(network, judge, from, packet),
            _ => {}
        }
    }

    /// RT16.
    fn takes(&mut self, network: &mut Network, judge: &mut Judge, from: Node, packet: Packet<'_>) {
        let is_its = |it: &&Membership| {
            (it.router, it.session, it.tag) == (from, packet.session(), packet.tag())
        };
        let Some(membership) = self.memberships.iter().find(is_its) else { return };
        let (id, worker) = (membership.id, membership.joined.worker);
        let first = RoutedPacket::from_router(packet, GROUP);
        let is_probe = first.as_ref().is_ok_and(RoutedPacket::is_probe);
        let arrived = self.taken.arrive(network.now, id, packet.packet_index(), is_probe);
        let Some(arrived) = arrived else { return };
        let Ok(first) = first else { return self.taken.refuse(arrived) };
        match membership.clients.get(&first.client()).copied() {
            Some((place, client)) => {
                self.judges(network, judge, arrived, first, (place, client, worker));
            }
            None => self.taken.refuse(arrived),
        }
    }

    fn judges(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        arrived: Arrived,
        first: RoutedPacket<'_>,
        (place, client, worker): (u32, Node, u16),
    ) {
        let (now, packet) = (network.now, first.header());
        let lifetime = first.lifetime_us().map(|us| Duration::from_micros(us.into()));
        let asker = Asker {
            client: place,
            pair: first.pair(),
            pair_tag: first.pair_tag(),
            request: packet.request(),
            echo: packet.transmission(),
            message_bytes: packet.message_bytes(),
            expires_at: lifetime.map_or(Time::NEVER, |left| now + left),
        };
        if asker.expires_at <= now {
            self.taken.refuse(arrived);
            return self.rejects(network, client, worker, asker, RejectCode::Expired);
        }
        let tag = self.rng.below(1 << 28) as u32;
        let at = self.place();
        let session = &mut self.sessions[at];
        let params = params(asker.pair, asker.pair_tag, tag);
        (session.client, session.worker) = (client, worker);
        let result = if first.is_claim() {
            session.server.bind_claim(params, &asker);
            self.taken.take_claim(now, arrived, asker, tag, at)
        } else {
            session.server.bind_whole(params, &asker);
            self.taken.take_whole(now, arrived, asker, tag, at)
        };
        match result {
            Ok(id) => {
                self.sessions[at].id = Some(id);
                if !first.is_claim() {
                    self.runs(network, judge, id, at, first.message());
                }
            }
            Err((_, at)) => {
                self.free.push(at);
                self.rejects(network, client, worker, asker, RejectCode::Overloaded);
            }
        }
    }

    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let (server, id) = (ServerSession::for_pairs(params(0, 0, 0)), None);
            self.sessions.push(Session { server, id, client: self.node, worker: 0, call: 0 });
            self.sessions.len() - 1
        })
    }

    /// A first packet is rejected: nothing is kept of it.
    fn rejects(
        &self,
        network: &mut Network,
        client: Node,
        worker: u16,
        asker: Asker,
        code: RejectCode,
    ) {
        let header = Header::for_session(asker.pair, asker.pair_tag)
            .with_request(Kind::Reject, asker.request, 0)
            .with_server(asker.echo, code as u32, 0);
        self.says(network, client, WorkerBlock { session: 0, tag: 0, worker }, header, &[]);
    }

    /// Sends a packet, with the block that its kind has.
    fn says(
        &self,
        network: &mut Network,
        to: Node,
        block: WorkerBlock,
        header: Header,
        payload: &[u8],
    ) {
        let header = header.to_bytes();
        let is_in = WorkerBlock::is_in(&Packet::parse(&header).expect("it is our own"));
        let block = block.to_bytes();
        let block = if is_in { &block[..] } else { &[] };
        network.send(self.node, to, &[&header, block, payload].concat());
    }

    fn runs(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        id: TakenId,
        at: usize,
        request: &[u8],
    ) {
        let call = judge.runs(request);
        if judge.has_bug(Sabotage::RunAgain, call) {
            judge.runs(request);
        }
        self.sessions[at].call = call;
        match judge.call(call).takes_us {
            0 => self.answers(network, judge, id, at, call),
            us => {
                self.sequence += 1;
                let due = network.now + Duration::from_micros(us);
                self.jobs.insert((due, self.sequence), (id, at, call));
            }
        }
    }

    fn answers(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        id: TakenId,
        at: usize,
        call: u64,
    ) {
        if judge.has_bug(Sabotage::KeepRequests, call) {
            return;
        }
        let (now, declines) = (network.now, judge.call(call).declines);
        let (response, asker) = (judge.response(call), self.taken.asker(id));
        let answered = match declines {
            true => self.taken.reject(now, id, RejectCode::Declined),
            false => {
                let is_one_packet = response.len() <= GROUP.payload_bytes as usize;
                self.taken.answer(now, id, is_one_packet)
            }
        };
        let (name, is_left) = match answered {
            Answered::Kept(name) => (Some(name), false),
            Answered::Left(_) => (None, true),
            Answered::Unwanted => return,
        };
        let request = asker.expect("it has not ended").request;
        let server = &mut self.sessions[at].server;
        let header = if declines {
            server.reject(request, RejectCode::Declined).map(|reject| reject.header)
        } else if server.respond(request, response.len() as u32) == Respond::Send {
            server.kept_mut(0).clone_from(&response);
            Some(server.response_header(0, 0))
        } else {
            None
        };
        let payload = if declines { &[] } else { part(&response, 0) };
        if let Some(header) = header {
            let block = self.block(at, name);
            self.says(network, self.sessions[at].client, block, header, payload);
        }
        if is_left {
            self.gone(at);
        }
    }

    fn block(&self, at: usize, name: Option<SessionName>) -> WorkerBlock {
        let (session, tag) = name.map_or((0, 0), |name| (name.index, name.tag));
        WorkerBlock { session, tag, worker: self.sessions[at].worker }
    }

    fn gone(&mut self, at: usize) {
        self.sessions[at].id = None;
        self.free.push(at);
    }

    /// A packet of a pair's session.
    fn session_hears(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        from: Node,
        packet: Packet<'_>,
    ) {
        let name = SessionName { index: packet.session(), tag: packet.tag() };
        let Some(id) = self.taken.find(name, packet.request()) else { return };
        let at = *self.taken.context(id).expect("it was found");
        if self.sessions[at].client != from {
            return;
        }
        let (now, packet) = (network.now, packet.request_without_padding());
        match packet.kind() {
            Kind::Done => drop(self.taken.done(id).map(|at| self.gone(at))),
            Kind::Cancel => drop(self.taken.cancel(id).map(|at| self.gone(at))),
            Kind::Request => self.request_hears(network, judge, (id, at, name), packet),
            _ => {
                self.taken.hear(now, id);
                let action = self.sessions[at].server.handle_packet(&packet, false);
                if let RequestAction::Pull { start, end, .. } = action {
                    (start..end).for_each(|index| self.responds(network, at, name, index));
                }
            }
        }
    }

    fn request_hears(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        (id, at, name): (TakenId, usize, SessionName),
        packet: Packet<'_>,
    ) {
        let server = &mut self.sessions[at].server;
        let payload = packet.payload();
        let part = match server.handle_packet(&packet, false) {
            RequestAction::Deliver => {
                *server.kept_mut(0) = payload.to_vec();
                Part::Last
            }
            RequestAction::Begin { bytes, offset, .. } => {
                *server.kept_mut(0) = vec![0; bytes as usize];
                store(server.kept_mut(0), offset, payload);
                Part::New
            }
            RequestAction::Store { offset, last, .. } => {
                store(server.kept_mut(0), offset, payload);
                if last { Part::Last } else { Part::New }
            }
            RequestAction::Repeat { .. } => {
                self.responds(network, at, name, 0);
                Part::Old
            }
            RequestAction::Reject(reject) => {
                let block = self.block(at, Some(name));
                self.says(network, self.sessions[at].client, block, reject.header, &[]);
                Part::Old
            }
            _ => Part::Old,
        };
        match self.taken.receive(network.now, id, part) {
            Progress::Run => {
                let request = core::mem::take(self.sessions[at].server.kept_mut(0));
                self.runs(network, judge, id, at, &request);
            }
            // Unless the session has said so itself.
            Progress::Rejected(code) => self.rejects_session(network, id, at, code),
            Progress::None => {}
        }
    }

    fn rejects_session(&mut self, network: &mut Network, id: TakenId, at: usize, code: RejectCode) {
        let Some(asker) = self.taken.asker(id) else { return };
        let server = &mut self.sessions[at].server;
        if let Some(reject) = server.reject_pair(asker.request, code) {
            let name = SessionName { index: id.index, tag: server.params().local_tag };
            let block = self.block(at, Some(name));
            self.says(network, self.sessions[at].client, block, reject.header, &[]);
        }
    }

    fn responds(&mut self, network: &mut Network, at: usize, name: SessionName, index: u32) {
        let server = &mut self.sessions[at].server;
        let header = server.response_header(0, index);
        let response = core::mem::take(server.kept_mut(0));
        let block = self.block(at, Some(name));
        self.says(network, self.sessions[at].client, block, header, part(&response, index));
        *self.sessions[at].server.kept_mut(0) = response;
    }

    pub(crate) fn turn(&mut self, network: &mut Network, judge: &mut Judge) {
        let now = network.now;
        self.taken.handle_timers(now);
        while let Some(job) = self.jobs.first_entry() {
            if job.key().0 > now {
                break;
            }
            let (id, at, call) = job.remove();
            self.answers(network, judge, id, at, call);
        }
        while let Some(due) = self.taken.poll_due(now) {
            match due {
                Due::Ready { id, session, asker, is_running } => {
                    let at = *self.taken.context(id).expect("it has a session");
                    let header = Header::for_session(asker.pair, asker.pair_tag)
                        .with_request(Kind::Ready, asker.request, 0)
                        .with_server(asker.echo, is_running.into(), 8);
                    let block = self.block(at, Some(session));
                    self.says(network, self.sessions[at].client, block, header, &[]);
                }
                Due::Lapsed { id, code } => {
                    let at = *self.taken.context(id).expect("it has a session");
                    self.rejects_session(network, id, at, code);
                }
                Due::Gone { context, .. } => self.gone(context),
            }
        }
        self.acknowledges(network);
        self.feeds_back(network);
    }

    fn acknowledges(&mut self, network: &mut Network) {
        let mut words = [0; BITMAP_WORDS_MAX];
        for session in &mut self.sessions {
            while let Some(ack) = session.server.poll_ack(&mut words) {
                let used = &words[..ack.bitmap_words as usize];
                let bitmap = used.iter().flat_map(|word| word.to_le_bytes());
                let bytes: Vec<u8> = ack.header.to_bytes().into_iter().chain(bitmap).collect();
                if session.id.is_some() {
                    network.send(self.node, session.client, &bytes);
                }
            }
        }
    }

    fn feeds_back(&mut self, network: &mut Network) {
        for membership in &self.memberships {
            let given = self.taken.given(membership.id).expect("it has not ended");
            let Some(counts) = given.poll_feedback(network.now) else { continue };
            let Joined { session, tag, secret, .. } = membership.joined;
            let told = Feedback { session, tag, secret, counts, failed: given.take_failed() };
            network.send(self.node, membership.router, &told.to_bytes());
        }
    }

    /// Numbers that are not settled, and sessions of pairs.
    pub(crate) fn held(&mut self) -> (u64, u32) {
        let ids: Vec<_> = self.memberships.iter().map(|membership| membership.id).collect();
        let held = ids.into_iter().map(|id| self.taken.given(id).expect("it is there").held());
        (held.sum(), self.taken.sessions())
    }
}
