//! From what sessions want to send to batches of packets.

use arrayvec::ArrayVec;
use petasos_buf::copy_short;
use petasos_netio::{PacketIo, Route, TX_BATCH_MAX, TxPacket};
use petasos_proto::Transmit;
use petasos_wire::{BITMAP_WORDS_MAX, CHECKSUM_BYTES, HEADER_BYTES, Header};

use crate::core::Core;
use crate::sessions::{ClientState, SessionId};

const _: () = assert!(HEADER_BYTES == petasos_buf::HEADER_BYTES, "buffers reserve what wire needs");
const _: () = assert!(
    petasos_buf::PAYLOAD_BYTES_MIN == petasos_wire::PAYLOAD_BYTES_MIN as usize,
    "buffers reserve room for as many headers as the smallest payload needs"
);

/// Packets up to this length are put next to each other as they are made, so that a run of them
/// is one train; the copy costs less than the reference. Longer ones are sent from their buffers.
const STAGED_BYTES_MAX: usize = 512;

/// Payload of the longest packet that is staged.
pub(crate) const STAGED_PAYLOAD_BYTES_MAX: usize = STAGED_BYTES_MAX - HEADER_BYTES;

/// Bytes of a train: what one send takes on any path.
const TRAIN_BYTES_MAX: u32 = 65_000;

/// Packets of a train. Longer ones cost less per packet, but both ends would take turns over a
/// usual window (8 sessions of 8 slots) instead of working at the same time: half of it is best.
const TRAIN_PACKETS_MAX: u32 = 32;

/// Padding that a packet takes to join the train before it: far cheaper than a send of its own on
/// kernel sockets, and little on the wire.
const PADDING_BYTES_MAX: u32 = 128;

/// The stage's first size: a turn's packets in most programs.
const STAGE_BYTES_MIN: usize = 64 << 10;

/// What an item of the queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A reference to a packet of the request in a client session's slot.
    Request,
    /// A reference to a packet of the response in a server session's slot.
    Response,
    /// A train of staged packets.
    Train,
}

/// A reference to a packet (see the crate's documentation), or a train of staged ones.
#[derive(Clone, Copy, Debug)]
struct TxItem {
    route: Route,
    kind: Kind,
    slot: u8,
    /// The session; of a train, the bytes of each packet.
    session: u32,
    /// The packet's index; of a train, where it starts in the stage.
    index: u32,
    /// The request's number; of a train, its bytes.
    request: u64,
}

/// The train that the next staged packet may join: the queue's last item, if `room` is not 0.
#[derive(Clone, Copy, Debug)]
struct OpenTrain {
    route: Route,
    segment_bytes: u32,
    room: u32,
}

/// Packets to be sent, in order. Milestone 2's pacing wheel stands before it: a paced packet is
/// the same reference with a time.
pub(crate) struct TxQueue {
    items: Vec<TxItem>,
    /// Room for the bytes of the trains, and how many there are.
    stage: Vec<u8>,
    staged: usize,
    open: OpenTrain,
    /// Items that have been taken by the packet I/O.
    sent: usize,
}

const CLOSED: OpenTrain = OpenTrain { route: Route(0), segment_bytes: 0, room: 0 };

impl Default for TxQueue {
    fn default() -> TxQueue {
        TxQueue { items: Vec::new(), stage: Vec::new(), staged: 0, open: CLOSED, sent: 0 }
    }
}

impl TxQueue {
    /// Queues a reference.
    #[inline]
    fn push(&mut self, item: TxItem) {
        self.items.push(item);
        self.open.room = 0;
    }

    /// Queues a reference to packet `index` of a request.
    #[inline]
    pub(crate) fn push_request(
        &mut self,
        route: Route,
        session: u32,
        slot: u32,
        request: u64,
        index: u32,
    ) {
        self.push(TxItem { route, kind: Kind::Request, slot: slot as u8, session, index, request });
    }

    /// Queues packet `index` of a message cut into `payload_bytes`, copying it.
    fn push_part(
        &mut self,
        route: Route,
        header: Header,
        message: &[u8],
        (index, payload_bytes): (u32, usize),
    ) {
        if message.len() <= payload_bytes {
            self.push_short(route, header, message);
        } else {
            self.push_staged(route, header, part(message, index, payload_bytes));
        }
    }

    /// Queues a message's only packet, copying it. If the packet before it is a little longer, it
    /// is padded to that length and joins its train (W7).
    #[inline(always)]
    pub(crate) fn push_short(&mut self, route: Route, header: Header, payload: &[u8]) {
        let trailer = if header.has_checksum() { CHECKSUM_BYTES } else { 0 };
        let segment_bytes = (HEADER_BYTES + payload.len() + trailer) as u32;
        let open = &self.open;
        if open.room > 0 && open.segment_bytes == segment_bytes && open.route == route {
            self.join_train();
            self.stage_packet(&header.to_bytes(), payload);
            if trailer != 0 {
                self.stage_checksum(HEADER_BYTES + payload.len());
            }
        } else {
            self.push_unequal(route, header, payload, segment_bytes);
        }
    }

    /// [`TxQueue::push_short`] of a packet whose length is not that of the one before it.
    #[inline(never)]
    fn push_unequal(&mut self, route: Route, header: Header, payload: &[u8], segment_bytes: u32) {
        let open = &self.open;
        let padding = open.segment_bytes.wrapping_sub(segment_bytes);
        if padding <= PADDING_BYTES_MAX && open.room > 0 && open.route == route {
            self.push_padded(header, payload, padding as usize);
        } else {
            self.push_staged(route, header, payload);
        }
    }

    fn push_padded(&mut self, header: Header, payload: &[u8], padding: usize) {
        self.join_train();
        self.stage_packet(&header.to_bytes(), payload);
        let end = self.staged + padding;
        if end > self.stage.len() {
            self.stage.resize(end.next_power_of_two(), 0);
        }
        self.stage[self.staged..end].fill(0);
        self.staged = end;
        if header.has_checksum() {
            self.stage_checksum(HEADER_BYTES + payload.len() + padding);
        }
    }

    /// Counts one more packet in the open train.
    #[inline(always)]
    fn join_train(&mut self) {
        self.open.room -= 1;
        let train = self.items.last_mut().expect("an open train is the last item");
        train.request += u64::from(self.open.segment_bytes);
    }

    /// Queues a packet, copying it; long packets only where the copy is needed for their checksum.
    pub(crate) fn push_staged(&mut self, route: Route, header: Header, payload: &[u8]) {
        let trailer = if header.has_checksum() { CHECKSUM_BYTES } else { 0 };
        let segment_bytes = (HEADER_BYTES + payload.len() + trailer) as u32;
        let open = &self.open;
        if open.room > 0 && open.segment_bytes == segment_bytes && open.route == route {
            self.join_train();
        } else {
            self.open_train(route, segment_bytes);
        }
        self.stage_packet(&header.to_bytes(), payload);
        if trailer != 0 {
            self.stage_checksum(HEADER_BYTES + payload.len());
        }
    }

    /// Ends the packet of `covered_bytes` that has just been staged with its CRC32C (W12).
    #[cold]
    fn stage_checksum(&mut self, covered_bytes: usize) {
        let covered = &self.stage[self.staged - covered_bytes..self.staged];
        let checksum = crc32c::crc32c(covered).to_le_bytes();
        let end = self.staged + CHECKSUM_BYTES;
        if end > self.stage.len() {
            self.stage.resize(end.next_power_of_two(), 0);
        }
        self.stage[self.staged..end].copy_from_slice(&checksum);
        self.staged = end;
    }

    #[inline(always)]
    fn stage_packet(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8]) {
        let room = self.stage.get_mut(self.staged..).unwrap_or_default();
        if let Some((head, rest)) = room.split_first_chunk_mut::<HEADER_BYTES>()
            && let Some(body) = rest.get_mut(..payload.len())
        {
            *head = *header;
            copy_short(body, payload);
            self.staged += HEADER_BYTES + payload.len();
        } else {
            self.grow_and_stage(header, payload);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_and_stage(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8]) {
        let end = self.staged + HEADER_BYTES + payload.len();
        self.stage.resize(end.next_power_of_two().max(STAGE_BYTES_MIN), 0);
        self.stage[self.staged..end][..HEADER_BYTES].copy_from_slice(header);
        self.stage[self.staged + HEADER_BYTES..end].copy_from_slice(payload);
        self.staged = end;
    }

    #[inline(never)]
    fn open_train(&mut self, route: Route, segment_bytes: u32) {
        let room = (TRAIN_BYTES_MAX / segment_bytes).clamp(1, TRAIN_PACKETS_MAX) - 1;
        self.open = OpenTrain { route, segment_bytes, room };
        self.items.push(TxItem {
            route,
            kind: Kind::Train,
            slot: 0,
            session: segment_bytes,
            index: self.staged as u32,
            request: u64::from(segment_bytes),
        });
    }

    /// Queues a packet that is not part of a message: a header, and the bitmap of an
    /// acknowledgement.
    pub(crate) fn push_bare(&mut self, route: Route, header: Header, bitmap: &[u64]) {
        let mut payload = [0; BITMAP_WORDS_MAX * 8];
        for (word, bytes) in bitmap.iter().zip(payload.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.push_staged(route, header, &payload[..bitmap.len() * 8]);
    }

    /// Makes every queued reference to a session's packets void: its index may soon name another.
    pub(crate) fn forget_session(&mut self, session: u32, server: bool) {
        let kind = if server { Kind::Response } else { Kind::Request };
        for item in &mut self.items[self.sent..] {
            if item.kind == kind && item.session == session {
                item.session = u32::MAX;
            }
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn clear(&mut self) {
        self.items.clear();
        self.staged = 0;
        self.open.room = 0;
        self.sent = 0;
    }
}

const _: () = assert!(HEADER_BYTES + BITMAP_WORDS_MAX * 8 <= STAGED_BYTES_MAX);
const _: () =
    assert!(STAGED_BYTES_MAX * TX_BATCH_MAX <= 65_507, "a train fits one datagram's limit");
const _: () = assert!(TRAIN_PACKETS_MAX as usize <= TX_BATCH_MAX);
const _: () = assert!(petasos_wire::SLOTS_MAX <= 1 << 8);

impl<S> Core<S> {
    /// Takes what a client session has to send.
    pub(crate) fn pump_client(&mut self, index: u32) {
        let Some(entry) = self.clients.get_mut(index) else { return };
        entry.dirty = false;
        let ClientState::Ready { session, route } = &mut entry.state else { return };
        let (now, route) = (self.now, *route);
        session.start_queued(now);
        while let Some(transmit) = session.poll_transmit(now) {
            match transmit {
                Transmit::Request { slot, request, index: packet, header } => {
                    let payload_bytes = session.params().payload_bytes as usize;
                    let buf = &mut session.context_mut(slot).request;
                    if buf.len() <= STAGED_PAYLOAD_BYTES_MAX || header.has_checksum() {
                        self.tx.push_part(route, header, buf, (packet, payload_bytes));
                        continue;
                    }
                    buf.write_header(packet, &header.to_bytes());
                    self.tx.push_request(route, index, slot, request, packet);
                }
                Transmit::Bare(header) => self.tx.push_bare(route, header, &[]),
            }
        }
        if session.busy() > 0 && entry.timer_at > now.plus_nanos(session.rtt().rto_ns(0)) {
            self.arm_retransmission(index);
        }
    }

    /// Arms the timer of a session for a packet that leaves now: it may have been set for a call
    /// that waits far longer.
    #[cold]
    pub(crate) fn arm_retransmission(&mut self, index: u32) {
        let now = self.now;
        let Some(entry) = self.clients.get_mut(index) else { return };
        let id = SessionId { index, generation: entry.generation };
        if let ClientState::Ready { session, .. } = &entry.state {
            let at = now.plus_nanos(session.rtt().rto_ns(0));
            self.arm(id, at);
        }
    }

    /// Takes what a server session has to acknowledge.
    pub(crate) fn pump_server(&mut self, index: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        entry.dirty = false;
        let mut bitmap = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = entry.session.poll_ack(&mut bitmap) {
            let words = &bitmap[..ack.bitmap_words as usize];
            self.tx.push_bare(entry.route, ack.header, words);
        }
    }

    /// Queues packets `start..end` of the response in `slot`.
    #[inline]
    pub(crate) fn send_response(&mut self, index: u32, slot: u32, start: u32, end: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let (request, route) = (entry.session.request_in(slot), entry.route);
        let payload_bytes = entry.session.params().payload_bytes as usize;
        for packet in start..end {
            let header = entry.session.response_header(slot, packet);
            let buf = entry.session.buffer_mut(slot).as_mut();
            let buf = buf.expect("an answered slot keeps its response");
            if buf.len() <= STAGED_PAYLOAD_BYTES_MAX || header.has_checksum() {
                self.tx.push_part(route, header, buf, (packet, payload_bytes));
                continue;
            }
            buf.write_header(packet, &header.to_bytes());
            let (kind, slot) = (Kind::Response, slot as u8);
            self.tx.push(TxItem { route, kind, slot, session: index, index: packet, request });
        }
    }

    /// Hands the queue to the packet I/O. What it does not take stays queued.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut impl PacketIo) {
        while let Some(item) = self.tx.items.get(self.tx.sent) {
            let all_taken = match item.kind {
                Kind::Train => self.flush_train(*item, io),
                Kind::Request | Kind::Response => self.flush_references(io),
            };
            if !all_taken {
                self.tx.open.room = 0;
                return;
            }
        }
        self.tx.clear();
    }

    /// Offers the train that is next in the queue. Returns whether it was taken whole.
    #[inline]
    fn flush_train(&mut self, train: TxItem, io: &mut impl PacketIo) -> bool {
        let (start, len) = (train.index as usize, train.request as usize);
        let segment_bytes = train.session as usize;
        let bytes = &self.tx.stage[start..start + len];
        let taken = io.transmit_train(train.route, bytes, segment_bytes);
        let taken_bytes = len.min(taken * segment_bytes);
        if taken_bytes == len {
            self.tx.sent += 1;
            return true;
        }
        let rest = &mut self.tx.items[self.tx.sent];
        rest.index += taken_bytes as u32;
        rest.request -= taken_bytes as u64;
        false
    }

    /// Offers the references that are next in the queue. Returns whether all were taken.
    fn flush_references(&mut self, io: &mut impl PacketIo) -> bool {
        let rest = &self.tx.items[self.tx.sent..];
        let references = rest.iter().take(TX_BATCH_MAX).take_while(|item| item.kind != Kind::Train);
        let end = self.tx.sent + references.count();
        let (offered, taken) = self.transmit_until(end, io);
        self.stats.transmit_void += (end - self.tx.sent - offered) as u64;
        if taken < offered {
            self.tx.sent = self.position_after(taken);
            return false;
        }
        self.tx.sent = end;
        true
    }

    /// Offers the references up to queue position `end`. Returns how many of them were not void,
    /// and how many of these were taken.
    fn transmit_until(&self, end: usize, io: &mut impl PacketIo) -> (usize, usize) {
        let mut packets = ArrayVec::<TxPacket<'_>, TX_BATCH_MAX>::new();
        for item in &self.tx.items[self.tx.sent..end] {
            if let Some((head, body)) = self.resolve(item) {
                packets.push(TxPacket { route: item.route, head, body });
            }
        }
        (packets.len(), io.transmit(&packets))
    }

    /// The queue's position after `taken` references that were not void.
    #[cold]
    fn position_after(&self, taken: usize) -> usize {
        let mut left = taken;
        let rest = &self.tx.items[self.tx.sent..];
        let position = rest.iter().position(|item| {
            let live = self.resolve(item).is_some();
            let waits = live && left == 0;
            left -= usize::from(live && left > 0);
            waits
        });
        self.tx.sent + position.unwrap_or(rest.len())
    }

    /// The bytes that a reference stands for, unless it has become void.
    #[inline]
    fn resolve(&self, item: &TxItem) -> Option<(&[u8], &[u8])> {
        let slot = u32::from(item.slot);
        match item.kind {
            Kind::Request => {
                let ClientState::Ready { session, .. } = &self.clients.get(item.session)?.state
                else {
                    return None;
                };
                let context = session.context_of(slot, item.request)?;
                let payload_bytes = session.params().payload_bytes as usize;
                Some(context.request.packet(item.index, payload_bytes))
            }
            Kind::Response => {
                let session = &self.servers.get(item.session)?.session;
                let buf = session.response_of(slot, item.request)?;
                Some(buf.packet(item.index, session.params().payload_bytes as usize))
            }
            Kind::Train => None,
        }
    }
}

/// The bytes of packet `index` of a message.
#[inline]
fn part(message: &[u8], index: u32, payload_bytes: usize) -> &[u8] {
    let rest = &message[index as usize * payload_bytes..];
    &rest[..rest.len().min(payload_bytes)]
}
