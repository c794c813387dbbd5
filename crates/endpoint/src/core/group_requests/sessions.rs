//! The sessions of requests at a worker: binding, sending, and ends.

use petasos_buf::MsgBuf;
use petasos_netio::Route;
use petasos_proto::pairs::PAIR_BIT;
use petasos_proto::taken::{Asker, Part, Progress, SessionName, TakenId};
use petasos_proto::{RequestAction, ServerSession, SessionParams};
use petasos_wire::{
    BITMAP_WORDS_MAX, Header, Kind, PAYLOAD_BYTES_MIN, Packet, RejectCode, WorkerBlock,
};

use super::{AnswerAs, GroupRequests, TakenOf};
use crate::core::assemblies::pool_bytes;
use crate::core::transmit::is_staged;
use crate::core::{Core, Half};
use crate::kept::Kept;
use crate::sealed_links::{SealId, SealedLink};
use crate::sessions::Pulls;
use crate::tx_queue::{Guard, Kind as ItemKind, TxItem, TxQueue};

/// A session of one slot with a pair. When its request is gone, it is bound to another.
pub(crate) struct TakenSession {
    pub(crate) session: ServerSession<Kept>,
    /// The request that it is bound to.
    pub(crate) id: TakenId,
    pub(crate) client: u32,
    pub(crate) answer_as: AnswerAs,
    dirty: bool,
    /// Whether the transmit queue may refer to its response.
    has_references: bool,
    /// Bytes that count for the client: of a request that arrives, or of a response that is kept.
    counted: u64,
    pub(crate) pulls: Pulls,
}

impl<S> Core<S> {
    /// Binds the session at a request's place to it.
    pub(super) fn bind_taken(
        &mut self,
        id: TakenId,
        asker: &Asker,
        tag: u32,
        of: TakenOf,
        is_claim: bool,
    ) {
        let place = (id.index & !PAIR_BIT) as usize;
        let GroupRequests { sessions, params, .. } = self.group_requests_mut();
        let params = SessionParams {
            peer_session: asker.pair,
            peer_tag: asker.pair_tag,
            local_tag: tag,
            payload_bytes: of.payload_bytes,
            checksum: of.answer_as.seal.is_some(),
            ..params.expect("there is a membership, or was")
        };
        if sessions.len() <= place {
            sessions.resize_with(place + 1, || None);
        }
        let (client, answer_as) = (asker.client, of.answer_as);
        let session = sessions[place].get_or_insert_with(|| {
            Box::new(TakenSession {
                session: ServerSession::for_pairs(params),
                id,
                client,
                answer_as,
                dirty: false,
                has_references: false,
                counted: 0,
                pulls: Pulls::default(),
            })
        });
        debug_assert!(session.counted == 0, "what was counted for another was given back");
        (session.id, session.client, session.answer_as) = (id, client, answer_as);
        session.pulls = Pulls::default();
        match is_claim {
            true => session.session.bind_claim(params, asker),
            false => session.session.bind_whole(params, asker),
        }
    }

    /// Binds a session to a whole request that runs, unless it has one.
    pub(super) fn bind_running(&mut self, id: TakenId, asker: &Asker, tag: u32, of: TakenOf) {
        let is_bound = self.group_requests_mut().session(id.index).is_some_and(|it| it.id == id);
        if !is_bound {
            self.bind_taken(id, asker, tag, of, false);
        }
    }

    /// A claim was taken: its session waits for the request.
    pub(crate) fn bind_claimed(&mut self, id: TakenId, asker: &Asker, tag: u32, of: TakenOf) {
        self.bind_taken(id, asker, tag, of, true);
        self.list_group_requests();
    }

    /// The client of a request, and how it is reached.
    #[inline]
    pub(super) fn route_to_client(&self, place: u32) -> Route {
        let requests = self.group_requests.as_deref().expect("a request of it is there");
        requests.clients.at(place).route
    }

    /// Sends a packet without payload from a request's session, with a block if its kind has one.
    pub(super) fn push_from_taken(&mut self, index: u32, name: SessionName, header: Header) {
        let Some(session) = self.group_requests_mut().session(index) else { return };
        let (client, AnswerAs { worker, seal }) = (session.client, session.answer_as);
        let block = WorkerBlock { session: name.index, tag: name.tag, worker };
        self.push_bare_answer((client, seal), block, header);
    }

    /// Sends a packet with a worker block and nothing behind it, also no padding (RT9).
    fn push_bare_answer(&mut self, to: (u32, Option<SealId>), block: WorkerBlock, header: Header) {
        self.push_to_client(to, block, header, (0, |_: &mut [u8]| {}), false);
    }

    /// Sends a response of one packet (RT7).
    #[inline]
    pub(super) fn push_answer(
        &mut self,
        to: (u32, Option<SealId>),
        block: WorkerBlock,
        header: Header,
        payload: (usize, impl FnOnce(&mut [u8])),
    ) {
        self.push_to_client(to, block, header, payload, true);
    }

    #[inline]
    fn push_to_client(
        &mut self,
        (client, seal): (u32, Option<SealId>),
        block: WorkerBlock,
        header: Header,
        payload: (usize, impl FnOnce(&mut [u8])),
        padded: bool,
    ) {
        let (route, block) = (self.route_to_client(client), block.to_bytes());
        let Core { group_requests, tx, .. } = self;
        let Some(seal) = seal else {
            return tx.push_with_block(route, header, &block, payload, padded, Guard::Checksum);
        };
        let Some(requests) = group_requests.as_deref_mut() else { return };
        // Without keys it would be in plaintext: it is lost instead.
        if let Some((header, sealer)) = requests.sealed.get_mut(seal).next(header) {
            tx.push_sealed(route, header, &block, payload, padded, Guard::Seal(sealer));
        }
    }

    /// Rejects a first packet of which nothing is kept: with session 0 (RT7).
    pub(crate) fn reject_first(&mut self, asker: &Asker, answer_as: AnswerAs, code: RejectCode) {
        let AnswerAs { worker, seal } = answer_as;
        let block = WorkerBlock { session: 0, tag: 0, worker };
        let header = Header::for_session(asker.pair, asker.pair_tag)
            .with_request(Kind::Reject, asker.request, 0)
            .with_server(asker.echo, code as u32, 0);
        self.push_bare_answer((asker.client, seal), block, header);
    }

    /// A request with a session will not run: says so, and drops what has arrived of it.
    pub(crate) fn reject_bound(&mut self, id: TakenId, code: RejectCode) {
        let Some(asker) = self.group_requests_mut().taken.asker(id) else { return };
        self.drop_message(id.index);
        let session = self.group_requests_mut().session_mut(id.index);
        let Some(session) = session.filter(|session| session.id == id) else { return };
        let name = SessionName { index: id.index, tag: session.session.params().local_tag };
        if let Some(reject) = session.session.reject_pair(asker.request, code) {
            self.push_from_taken(id.index, name, reject.header);
        }
    }

    /// Counts the bytes of a message that a session has for its client, instead of earlier ones.
    pub(super) fn count_taken(&mut self, index: u32, bytes: usize) {
        let requests = self.group_requests_mut();
        let Some(session) = requests.session_mut(index) else { return };
        let now = if bytes == 0 { 0 } else { pool_bytes(bytes) };
        let before = core::mem::replace(&mut session.counted, now);
        let client = session.client;
        let holder = requests.clients.at(client).holder;
        self.holders.announce(holder, before, now);
    }

    /// Whether a client's messages leave room for those of others (RT39).
    pub(crate) fn has_room_for(&self, client: u32, bytes: usize) -> bool {
        let requests = self.group_requests.as_deref().expect("a request of it is there");
        let holder = requests.clients.at(client).holder;
        let more = if bytes == 0 { 0 } else { pool_bytes(bytes) };
        self.holders.announced(holder) + more <= self.pool.lendable_bytes() as u64
    }

    /// Drops the message of a session: a part of a request, or the response.
    fn drop_message(&mut self, index: u32) {
        let Some(session) = self.group_requests_mut().session_mut(index) else { return };
        let has_references = core::mem::take(&mut session.has_references);
        if let Some(buf) = session.session.kept_mut(0).take() {
            self.pool.give(buf);
        }
        if has_references {
            // Another client's request in this place may have the same number.
            self.tx.forget_session(index, true);
        }
        self.count_taken(index, 0);
    }

    /// There is no session for a request any more.
    pub(crate) fn free_taken(&mut self, id: TakenId) {
        let requests = self.group_requests_mut();
        let Some(session) = requests.session(id.index).filter(|session| session.id == id) else {
            return;
        };
        let client = session.client;
        self.drop_message(id.index);
        if let Some(session) = self.group_requests_mut().session_mut(id.index) {
            // It may be on the dirty list, and the client is perhaps nobody's any more.
            session.session.unbind();
        }
        self.drop_idle_client(client);
    }

    /// A packet of a request has come: what the request has become.
    pub(crate) fn receive_part(&mut self, id: TakenId, packet: &Packet<'_>) -> Progress {
        let now = self.now;
        let part = match self.store_part(id, packet) {
            Ok(part) => part,
            Err(code) => {
                self.refuse_taken(id, code);
                return Progress::None;
            }
        };
        let progress = self.group_requests_mut().taken.receive(now, id, part);
        if let Progress::Rejected(code) = progress {
            self.reject_bound(id, code);
        }
        self.list_group_requests();
        progress
    }

    fn store_part(&mut self, id: TakenId, packet: &Packet<'_>) -> Result<Part, RejectCode> {
        let index = id.index;
        let Some(session) = self.group_requests_mut().session_mut(index) else {
            return Ok(Part::Old);
        };
        let (client, payload) = (session.client, packet.payload());
        match session.session.handle_packet(packet, false) {
            RequestAction::Deliver => Ok(Part::Last),
            RequestAction::Begin { bytes, offset, .. } => {
                self.touch_taken(index);
                self.share_with(Half::Server(index));
                let has_room = self.has_room_for(client, bytes as usize);
                self.stats.assemblies_refused += u64::from(!has_room);
                let buf = if has_room { self.take_buffer(bytes as usize) } else { None };
                let buf = buf.ok_or(RejectCode::Overloaded)?;
                self.count_taken(index, bytes as usize);
                self.put_message(index, buf);
                self.write_message(index, offset, payload);
                Ok(Part::New)
            }
            RequestAction::Store { offset, last, .. } => {
                self.touch_taken(index);
                self.share_with(Half::Server(index));
                self.write_message(index, offset, payload);
                Ok(if last { Part::Last } else { Part::New })
            }
            RequestAction::Repeat { .. } => {
                if session.session.kept_mut(0).len() > PAYLOAD_BYTES_MIN as usize {
                    let route = self.route_to_client(client);
                    self.doubt_path(route);
                }
                self.send_taken(index, 0, 1);
                Ok(Part::Old)
            }
            RequestAction::Reject(reject) => {
                let session = self.group_requests_mut().session(index);
                let tag = session.map_or(0, |session| session.session.params().local_tag);
                self.push_from_taken(index, SessionName { index, tag }, reject.header);
                Ok(Part::Old)
            }
            _ => {
                self.touch_taken(index);
                Ok(Part::Old)
            }
        }
    }

    /// Rejects a request that cannot be stored. It has not run.
    fn refuse_taken(&mut self, id: TakenId, code: RejectCode) {
        let now = self.now;
        // Its claim is confirmed all the same.
        self.group_requests_mut().taken.receive(now, id, Part::New);
        self.group_requests_mut().taken.reject(now, id, code);
        self.reject_bound(id, code);
        self.list_group_requests();
    }

    pub(super) fn put_message(&mut self, index: u32, buf: MsgBuf) {
        let session = self.group_requests_mut().session_mut(index).expect("it was just found");
        if let Some(old) = session.session.kept_mut(0).put(buf) {
            self.pool.give(old);
        }
    }

    fn write_message(&mut self, index: u32, offset: u32, payload: &[u8]) {
        let session = self.group_requests_mut().session_mut(index).expect("it was just found");
        let buf = session.session.kept_mut(0).buffer_mut();
        let buf = buf.expect("a request being received has a buffer");
        buf[offset as usize..][..payload.len()].copy_from_slice(payload);
    }

    /// Takes the buffer of a request that has arrived completely; `None` if its only packet has all
    /// of it.
    pub(crate) fn take_taken(&mut self, index: u32) -> Option<MsgBuf> {
        let session = self.group_requests_mut().session_mut(index)?;
        let buf = session.session.kept_mut(0).take();
        self.count_taken(index, 0);
        buf
    }

    fn touch_taken(&mut self, index: u32) {
        let requests = self.group_requests.as_deref_mut();
        if let Some(session) = requests.and_then(|requests| requests.session_mut(index))
            && !session.dirty
        {
            session.dirty = true;
            self.dirty_servers.push(index);
        }
    }

    /// Takes the acknowledgements that a request's session has to send.
    #[inline(never)]
    pub(crate) fn pump_taken(&mut self, index: u32) {
        let Core { group_requests, tx, .. } = self;
        let Some(GroupRequests { sessions, clients, sealed, .. }) = group_requests.as_deref_mut()
        else {
            return;
        };
        let place = index.checked_sub(PAIR_BIT).and_then(|at| sessions.get_mut(at as usize));
        let Some(session) = place.and_then(|place| place.as_deref_mut()) else { return };
        session.dirty = false;
        let mut bitmap = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = session.session.poll_ack(&mut bitmap) {
            let route = clients.at(session.client).route;
            let words = &bitmap[..ack.bitmap_words as usize];
            match session.answer_as.seal {
                None => tx.push_bare(route, ack.header, words, None),
                Some(seal) => {
                    if let Some((header, sealer)) = sealed.get_mut(seal).next(ack.header) {
                        tx.push_bare(route, header, words, Some(sealer));
                    }
                }
            }
        }
    }

    /// Queues packets `start..end` of a request's response, as many as a session may send in one
    /// turn (W19).
    pub(crate) fn pull_taken(&mut self, index: u32, (start, end): (u32, u32)) {
        let turn = self.stats.turns;
        let Some(session) = self.group_requests_mut().session_mut(index) else { return };
        let request = session.session.request_in(0);
        let credits_max = session.session.params().credits_max;
        let packets = session.pulls.take(turn, credits_max, end - start);
        let is_again = session.pulls.note(request, (start, end));
        let client = session.client;
        self.stats.pulls_cut += u64::from(packets < end - start);
        if is_again {
            let route = self.route_to_client(client);
            self.doubt_path(route);
        }
        self.send_taken(index, start, start + packets);
    }

    /// Queues packets `start..end` of a request's response. The first has a worker block (RT7).
    pub(super) fn send_taken(&mut self, index: u32, start: u32, end: u32) {
        let Core { group_requests, tx, stats, .. } = self;
        let Some(GroupRequests { sessions, clients, sealed, .. }) = group_requests.as_deref_mut()
        else {
            return;
        };
        let place = index.checked_sub(PAIR_BIT).and_then(|at| sessions.get_mut(at as usize));
        let Some(TakenSession { session, client, answer_as, has_references, .. }) =
            place.and_then(|place| place.as_deref_mut())
        else {
            return;
        };
        let (route, AnswerAs { worker, seal }) = (clients.at(*client).route, *answer_as);
        let payload_bytes = session.params().payload_bytes as usize;
        let block = WorkerBlock { session: index, tag: session.params().local_tag, worker };
        let request = session.request_in(0);
        for packet in start..end {
            if tx.is_full() {
                stats.transmit_overruns += u64::from(end - packet);
                return;
            }
            let header = session.response_header(0, packet);
            let kept = session.kept_mut(0);
            let part = (packet, payload_bytes);
            if let Some(seal) = seal {
                let block = (packet == 0).then_some(&block);
                push_sealed_part(tx, route, (header, sealed.get_mut(seal)), block, kept, part);
                continue;
            }
            if packet == 0 {
                let (bytes, whole) = (kept.len().min(payload_bytes), kept.len() <= payload_bytes);
                let (payload, block) =
                    ((bytes, |to: &mut [u8]| kept.copy_to(to)), block.to_bytes());
                tx.push_with_block(route, header, &block, payload, whole, Guard::Checksum);
                continue;
            }
            let buf = kept.buffer_mut().expect("a response of several packets is in a buffer");
            if is_staged(buf.len(), &header) || buf.is_shared() {
                tx.push_buffer_part(route, header, buf, part, None);
                continue;
            }
            buf.write_header(packet, payload_bytes, &header.to_bytes());
            *has_references = true;
            let kind = ItemKind::Response;
            tx.push(TxItem { route, kind, slot: 0, session: index, index: packet, request });
        }
    }

    /// The bytes of packet `packet` of a request's response, unless it is gone.
    pub(crate) fn taken_packet(
        &self,
        index: u32,
        request: u64,
        packet: u32,
    ) -> Option<(&[u8], &[u8])> {
        let session = &self.group_requests.as_deref()?.session(index)?.session;
        let buf = session.response_of(0, request)?.buffer()?;
        Some(buf.packet(packet, session.params().payload_bytes as usize))
    }
}

/// Queues a packet of a response, sealed by its client's link. The first one has a block.
#[inline(never)]
fn push_sealed_part(
    tx: &mut TxQueue,
    route: Route,
    (header, link): (Header, &mut SealedLink),
    block: Option<&WorkerBlock>,
    kept: &mut Kept,
    (packet, payload_bytes): (u32, usize),
) {
    // Without keys it would be in plaintext: it is lost instead.
    let Some((header, sealer)) = link.next(header) else { return };
    if let Some(block) = block {
        let (bytes, whole) = (kept.len().min(payload_bytes), kept.len() <= payload_bytes);
        let payload = (bytes, |to: &mut [u8]| kept.copy_to(to));
        tx.push_sealed(route, header, &block.to_bytes(), payload, whole, Guard::Seal(sealer));
        return;
    }
    let buf = kept.buffer_mut().expect("a response of several packets is in a buffer");
    tx.push_buffer_part(route, header, buf, (packet, payload_bytes), Some(sealer));
}
