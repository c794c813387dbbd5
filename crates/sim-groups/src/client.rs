//! A client: its pairs, the sessions of those that are bound, and its calls.

use core::time::Duration;
use std::collections::BTreeMap;

use petasos_base::{Rng, Time};
use petasos_proto::pairs::{
    Answer, Arrival, Asking, AttachmentId, First, Member, PairConfig, PairId, Pairs, Why,
    WorkerSession,
};
use petasos_proto::{
    Binding, Call, CallOptions, ClientSession, LinkPath, ResponseAction, TimerConfig, Transmit,
};
use petasos_wire::{
    CLAIM_BYTES_MAX, Encoding, Header, Kind, Packet, RejectCode, RoutePolicy, RoutingBlock,
    WorkerBlock,
};

use crate::judge::{Judge, Outcome};
use crate::network::{Network, Node};
use crate::router::Attached;
use crate::sabotage::Sabotage;
use crate::sessions::{GROUP, MESSAGE_BYTES_MAX, congestion, params, part, store};

/// A bound pair of which nothing is heard for so long has failed (RT14).
const SILENCE: Duration = Duration::from_secs(2);
/// A call that has certainly not run is tried so often.
const TRIES_MAX: u8 = 3;

struct Attachment {
    id: AttachmentId,
    router: Node,
    told: Attached,
    roster: BTreeMap<u16, Node>,
}

/// A call that is tried.
#[derive(Clone, Copy, Debug)]
struct Try {
    call: u64,
    tries: u8,
}

/// A pair with a session. The session's data are the response.
struct Bound {
    pair: PairId,
    session: ClientSession<Vec<u8>>,
    worker: WorkerSession,
    node: Node,
    request: Vec<u8>,
    heard_at: Time,
}

pub(crate) struct ClientNode {
    node: Node,
    rng: Rng,
    pairs: Pairs<Try>,
    attachments: Vec<Attachment>,
    next_attachment: u32,
    /// Where first packets go.
    active: Option<AttachmentId>,
    bound: BTreeMap<u32, Bound>,
    free: Vec<ClientSession<Vec<u8>>>,
    paths: BTreeMap<(u32, u16), LinkPath>,
    /// What waits for an attachment.
    waiting: Vec<Try>,
}

impl ClientNode {
    pub(crate) fn new(node: Node, rng: Rng) -> ClientNode {
        ClientNode {
            node,
            rng,
            pairs: Pairs::new(PairConfig::default()),
            attachments: Vec::new(),
            next_attachment: 0,
            active: None,
            bound: BTreeMap::new(),
            free: Vec::new(),
            paths: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    pub(crate) fn attach(&mut self, router: Node, told: Attached) {
        let id = AttachmentId(self.next_attachment);
        self.next_attachment += 1;
        self.pairs.attach(id, 4096, 0);
        self.attachments.push(Attachment { id, router, told, roster: BTreeMap::new() });
        if self.active.is_none() {
            self.active = Some(id);
        }
    }

    /// A router has gone: pairs that ask by it ask by another, if there is one (RT38).
    pub(crate) fn detach(&mut self, router: Node) {
        let at = self.attachments.iter().position(|attachment| attachment.router == router);
        let Some(at) = at else { return };
        let gone = self.attachments.remove(at).id;
        if self.active == Some(gone) {
            let count = self.attachments.len() as u64;
            let next = (count > 0).then(|| self.rng.below(count) as usize);
            self.active = next.map(|next| self.attachments[next].id);
        }
        if let Some(active) = self.active {
            self.pairs.move_asked(gone, active);
        }
        self.pairs.detach(gone);
    }

    /// Another router is active, of those to which the client is attached (RT38).
    pub(crate) fn switch(&mut self) {
        let Some(before) = self.active else { return };
        let next = self.rng.below(self.attachments.len() as u64) as usize;
        let next = self.attachments[next].id;
        if next != before {
            self.active = Some(next);
            self.pairs.move_asked(before, next);
        }
    }

    /// What *members* says of a router's workers. Pairs that are bound to one that has gone end.
    pub(crate) fn roster(&mut self, judge: &mut Judge, router: Node, members: &[(u16, Node)]) {
        let is_its = |attachment: &&mut Attachment| attachment.router == router;
        let Some(attachment) = self.attachments.iter_mut().find(is_its) else { return };
        attachment.roster = members.iter().copied().collect();
        let (id, roster) = (attachment.id, attachment.roster.clone());
        let is_gone = |bound: &Bound| {
            let Member { attachment, worker } = bound.worker.member;
            attachment == id && !roster.contains_key(&worker)
        };
        let gone: Vec<u32> =
            self.bound.iter().filter(|(_, it)| is_gone(it)).map(|(index, _)| *index).collect();
        gone.into_iter().for_each(|index| self.fails(judge, index));
    }

    pub(crate) fn begin(&mut self, judge: &mut Judge, now: Time) {
        let call = judge.begin(&mut self.rng, now);
        if judge.has_bug(Sabotage::AnswerUnasked, call) {
            return judge.answered(call, &judge.response(call));
        }
        self.ask(judge, Try { call, tries: 0 });
    }

    fn ask(&mut self, judge: &mut Judge, this: Try) {
        let Some(active) = self.active else { return self.waiting.push(this) };
        let call = judge.call(this.call);
        // A request that does not fit is claimed, whether it may be repeated or not (RT4).
        let is_claim = call.is_claim || call.request_bytes > GROUP.payload_bytes;
        let tag = self.rng.below(1 << 28) as u32;
        let asking = Asking { tag, is_claim, timeout_at: call.timeout_at };
        let asked = self.pairs.ask(active, asking, this);
        let what = || format!("call {} cannot ask: {asked:?}", this.call);
        judge.check(asked.is_ok(), "calls can ask", what);
    }

    /// A try has ended without an answer.
    fn unanswered(&mut self, judge: &mut Judge, this: Try, has_not_run: bool, is_final: bool) {
        if has_not_run && !is_final && this.tries + 1 < TRIES_MAX {
            return self.waiting.push(Try { tries: this.tries + 1, ..this });
        }
        // Of a call that may run several times, an earlier try may have run.
        let is_said = judge.sabotage() == Some(Sabotage::ClaimNotRun);
        let outcome = if has_not_run || is_said { Outcome::NotRun } else { Outcome::Failed };
        judge.ends(this.call, outcome);
    }

    pub(crate) fn hears(
        &mut self,
        network: &mut Network,
        judge: &mut Judge,
        from: Node,
        bytes: &[u8],
    ) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let split = WorkerBlock::is_in(&packet).then(|| WorkerBlock::split(packet));
        let (block, packet) = match split {
            None => (None, packet),
            Some(Ok((block, packet))) => (Some(block), packet),
            Some(Err(_)) => return,
        };
        let Some(from) = self.member(from, &packet, block) else { return };
        let packet = packet.response_without_padding();
        let request = packet.request();
        match self.pairs.handle(network.now, Arrival { from, packet, block }) {
            Answer::None => {}
            Answer::Complete { context, done } => {
                answers(judge, context.call, packet.payload());
                if let Some(session) = done {
                    self.tells(network, session, Kind::Done, request);
                }
            }
            Answer::Ready { session, credits } => {
                self.binds(judge, network.now, packet, session, Some(credits));
            }
            Answer::Response { session } => {
                self.binds(judge, network.now, packet, session, None);
                self.session_hears(network, judge, packet);
            }
            Answer::Session => self.session_hears(network, judge, packet),
            Answer::Cancel { session, request } => {
                self.tells(network, session, Kind::Cancel, request);
            }
            Answer::Rejected { context, has_not_run, .. } => {
                self.unanswered(judge, context, has_not_run, false);
            }
        }
    }

    /// Whom a packet is from, if the roster knows them (RT10).
    fn member(
        &self,
        from: Node,
        packet: &Packet<'_>,
        block: Option<WorkerBlock>,
    ) -> Option<Member> {
        let attachment = self.pairs.answered(packet, block)?.attachment;
        if let Some(bound) = self.bound.get(&packet.session())
            && block.is_none_or(|block| block.session == bound.worker.session)
        {
            // Its attachment may have ended.
            return (bound.node == from).then_some(bound.worker.member);
        }
        let known = self.attachments.iter().find(|it| it.id == attachment)?;
        let worker = block?.worker;
        let expected = match worker {
            WorkerBlock::ROUTER => known.router,
            worker => *known.roster.get(&worker)?,
        };
        (expected == from).then_some(Member { attachment, worker })
    }

    fn binds(
        &mut self,
        judge: &mut Judge,
        now: Time,
        packet: Packet<'_>,
        worker: WorkerSession,
        credits: Option<u32>,
    ) {
        let pair = PairId { index: packet.session(), request: packet.request() };
        let this = *self.pairs.context(pair).expect("it has just been bound");
        let call = judge.call(this.call);
        let Member { attachment, worker: number } = worker.member;
        let known = self.attachments.iter().find(|it| it.id == attachment);
        let node = known.and_then(|it| it.roster.get(&number)).expect("it has just been heard");
        let is_claim = call.is_claim || call.request_bytes > GROUP.payload_bytes;
        let binding = Binding { request: pair.request, is_whole: !is_claim, credits };
        let options = CallOptions {
            method: 1,
            encoding: Encoding::Opaque,
            request_bytes: call.request_bytes,
            response_bytes_max: MESSAGE_BYTES_MAX,
            timeout_at: call.timeout_at,
        };
        let params = params(worker.session, worker.tag, packet.tag());
        let mut session =
            self.free.pop().unwrap_or_else(|| ClientSession::for_pairs(params, &congestion()));
        let path = path(&mut self.paths, worker.member);
        session.bind(params, path, binding, Call { options, context: Vec::new() }, now);
        let (request, node, heard_at) = (judge.request(this.call), *node, now);
        let bound = Bound { pair, session, worker, node, request, heard_at };
        self.bound.insert(pair.index, bound);
    }

    fn session_hears(&mut self, network: &mut Network, judge: &mut Judge, packet: Packet<'_>) {
        let (index, now) = (packet.session(), network.now);
        let bound = self.bound.get_mut(&index).expect("a bound pair has a session");
        bound.heard_at = now;
        match bound.session.handle_packet(&packet, false, now) {
            ResponseAction::None | ResponseAction::SessionReset => {}
            ResponseAction::Complete { slot } => {
                bound.session.complete(slot);
                self.completes(network, judge, index, packet.payload());
            }
            ResponseAction::Begin { slot, bytes } => {
                bound.session.join(path(&mut self.paths, bound.worker.member));
                let response = bound.session.context_mut(slot);
                *response = vec![0; bytes as usize];
                store(response, 0, packet.payload());
            }
            ResponseAction::Store { slot, offset, last } => {
                store(bound.session.context_mut(slot), offset, packet.payload());
                if last {
                    let (response, _) = bound.session.finish(slot);
                    self.completes(network, judge, index, &response);
                }
            }
            ResponseAction::Rejected(_, code) => {
                let done = bound.session.done(0);
                network.send(self.node, bound.node, &done.to_bytes());
                let this = self.ends(index);
                let is_claim = judge.call(this.call).is_claim;
                // A session that has rejected never runs (W15); a whole request may have run
                // elsewhere before.
                let has_not_run = is_claim && code.is_some_and(is_certain);
                self.unanswered(judge, this, has_not_run, false);
            }
            ResponseAction::Overlong(..) => unreachable!("no response is longer than was agreed"),
        }
    }

    fn completes(&mut self, network: &mut Network, judge: &mut Judge, index: u32, response: &[u8]) {
        let bound = self.bound.get_mut(&index).expect("it has a session");
        let done = bound.session.done(0);
        network.send(self.node, bound.node, &done.to_bytes());
        let this = self.ends(index);
        answers(judge, this.call, response);
    }

    /// A bound pair ends.
    fn ends(&mut self, index: u32) -> Try {
        let mut bound = self.bound.remove(&index).expect("it has a session");
        bound.session.leave(path(&mut self.paths, bound.worker.member));
        self.free.push(bound.session);
        self.pairs.end(bound.pair).expect("it has not ended")
    }

    /// A bound pair has failed (RT14).
    fn fails(&mut self, judge: &mut Judge, index: u32) {
        let bound = self.bound.get_mut(&index).expect("it has a session");
        let was_sent = bound.session.fail_all().iter().any(|(_, was_sent)| *was_sent);
        let this = self.ends(index);
        let has_not_run = judge.call(this.call).is_claim && !was_sent;
        self.unanswered(judge, this, has_not_run, false);
    }

    fn tells(&self, network: &mut Network, to: WorkerSession, kind: Kind, request: u64) {
        let Member { attachment, worker } = to.member;
        let known = self.attachments.iter().find(|it| it.id == attachment);
        let header = Header::for_session(to.session, to.tag).with_request(kind, request, 0);
        if let Some(node) = known.and_then(|it| it.roster.get(&worker)) {
            network.send(self.node, *node, &header.to_bytes());
        }
    }

    pub(crate) fn turn(&mut self, network: &mut Network, judge: &mut Judge) {
        let now = network.now;
        for this in core::mem::take(&mut self.waiting) {
            self.ask(judge, this);
        }
        self.pairs.handle_timers(now);
        while let Some(over) = self.pairs.poll_over() {
            let is_final = over.why == Why::Timeout;
            self.unanswered(judge, over.context, over.has_not_run, is_final);
        }
        while let Some(first) = self.pairs.poll_first(now) {
            self.sends_first(network, judge, first);
        }
        let indices: Vec<u32> = self.bound.keys().copied().collect();
        indices.into_iter().for_each(|index| self.session_turn(network, judge, index));
    }

    fn sends_first(&mut self, network: &mut Network, judge: &Judge, first: First) {
        let this = *self.pairs.context(first.pair).expect("it asks");
        let call = judge.call(this.call);
        let request = judge.request(this.call);
        let attachment = self.attachments.iter().find(|it| it.id == first.attachment);
        let Attachment { router, told, .. } = attachment.expect("it asks by one that is there");
        let left = call.timeout_at - network.now;
        let is_limited = call.timeout_at != Time::NEVER;
        // What a call is to its router follows from its number.
        let (policy, key_hash) = match this.call % 4 {
            0 => (RoutePolicy::Primary, 0),
            1 => (RoutePolicy::Hash, this.call as u32 % 64),
            _ => (RoutePolicy::Any, 0),
        };
        let block = RoutingBlock {
            policy,
            priority: (this.call % 16) as u8,
            is_claim: first.is_claim,
            reply: self.node.address(),
            client: told.client,
            epoch: 0,
            pair: first.pair.index,
            pair_tag: first.tag,
            number: first.number,
            lifetime_us: is_limited.then_some(left.as_micros() as u32),
            key_hash,
        };
        let header = Header::for_session(told.client, told.tag)
            .with_request(Kind::Routed, first.pair.request, block.transmission())
            .with_client(0, call.request_bytes, 1);
        let carried = if first.is_claim { CLAIM_BYTES_MAX } else { request.len() };
        let body = &request[..request.len().min(carried)];
        let bytes = [&header.to_bytes()[..], &block.to_bytes(), body].concat();
        network.send(self.node, *router, &bytes);
    }

    fn session_turn(&mut self, network: &mut Network, judge: &mut Judge, index: u32) {
        let now = network.now;
        let bound = self.bound.get_mut(&index).expect("it has a session");
        if let Some(expired) = bound.session.poll_expired(now) {
            let cancel = expired.cancel.expect("its worker knows of it");
            network.send(self.node, bound.node, &cancel.to_bytes());
            let this = self.ends(index);
            return self.unanswered(judge, this, false, true);
        }
        if now >= bound.heard_at + SILENCE {
            return self.fails(judge, index);
        }
        bound.session.share(path(&mut self.paths, bound.worker.member));
        if bound.session.next_timeout() <= now {
            bound.session.handle_timeout(now);
        }
        while let Some(transmit) = bound.session.poll_transmit(now) {
            let bytes = match transmit {
                Transmit::Bare(header) => header.to_bytes().to_vec(),
                Transmit::Request { index, header, .. } => {
                    [&header.to_bytes()[..], part(&bound.request, index)].concat()
                }
            };
            network.send(self.node, bound.node, &bytes);
        }
    }

    /// The client crashes: nobody waits for its calls any longer.
    pub(crate) fn abandon(&mut self, judge: &mut Judge) {
        for this in core::mem::take(&mut self.waiting) {
            judge.ends(this.call, Outcome::Abandoned);
        }
        for index in self.bound.keys().copied().collect::<Vec<_>>() {
            let this = self.ends(index);
            judge.ends(this.call, Outcome::Abandoned);
        }
        for attachment in core::mem::take(&mut self.attachments) {
            self.pairs.detach(attachment.id);
        }
        while let Some(over) = self.pairs.poll_over() {
            judge.ends(over.context.call, Outcome::Abandoned);
        }
    }
}

fn path(paths: &mut BTreeMap<(u32, u16), LinkPath>, member: Member) -> &mut LinkPath {
    let Member { attachment, worker } = member;
    paths
        .entry((attachment.0, worker))
        .or_insert_with(|| LinkPath::new(&TimerConfig::default(), &congestion(), &params(0, 0, 0)))
}

/// RT15.
fn is_certain(code: RejectCode) -> bool {
    use RejectCode as Code;
    matches!(
        code,
        Code::UnknownMethod
            | Code::TooLarge
            | Code::Overloaded
            | Code::Draining
            | Code::Again
            | Code::Expired
    )
}

/// A response has come.
fn answers(judge: &mut Judge, call: u64, response: &[u8]) {
    if judge.has_bug(Sabotage::NeverEnd, call) {
        return;
    }
    judge.answered(call, response);
    if judge.has_bug(Sabotage::EndAgain, call) {
        judge.answered(call, response);
    }
}
