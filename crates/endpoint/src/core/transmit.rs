//! Collects the packets that sessions want to send into batches.

use arrayvec::ArrayVec;
use petasos_base::Time;
use petasos_buf::MsgBuf;
use petasos_netio::{PacketIo, TX_BATCH_MAX, TxPacket};
use petasos_proto::Transmit;
use petasos_wire::{BITMAP_WORDS_MAX, HEADER_BYTES, Header};

use super::{Core, SHORT_REQUEST_BYTES_MAX};
use crate::secure::sealer;
use crate::sessions::{ClientState, SessionId};
use crate::tx_queue::{Kind, STAGED_PAYLOAD_BYTES_MAX, TxItem, cut_shares};

const _: () = assert!(HEADER_BYTES == petasos_buf::HEADER_BYTES, "buffers reserve what wire needs");
const _: () = assert!(
    petasos_buf::PAYLOAD_BYTES_MIN == petasos_wire::PAYLOAD_BYTES_MIN as usize,
    "buffers reserve room for as many headers as the smallest payload needs"
);

/// Whether packets of a message of so many bytes are copied. So are those of one of which somebody
/// else may write a part: no slice of it may be had.
#[inline]
pub(super) fn is_staged(message_bytes: usize, header: &Header) -> bool {
    message_bytes <= STAGED_PAYLOAD_BYTES_MAX || header.has_checksum()
}

impl<S> Core<S> {
    /// Takes the packets that a client session has to send.
    pub(crate) fn pump_client(&mut self, index: u32) {
        let Some(entry) = self.clients.get_mut(index) else { return self.pump_pair(index) };
        entry.dirty = false;
        let ClientState::Ready { session, route } = &mut entry.state else { return };
        let secure = &mut entry.secure;
        let (now, route) = (self.now, *route);
        while let Some(sent) = session.send_queued(SHORT_REQUEST_BYTES_MAX as u32, now) {
            self.tx.push_short(route, sent.header, &sent.context.request, None);
        }
        session.start_queued(now);
        while let Some(transmit) = session.poll_transmit(now) {
            match transmit {
                Transmit::Request { slot, request, index: packet, header } => {
                    let payload_bytes = session.params().payload_bytes as usize;
                    let buf = &mut session.context_mut(slot).request;
                    if is_staged(buf.len(), &header) || buf.is_shared() {
                        let part = (packet, payload_bytes);
                        self.tx.push_buffer_part(route, header, buf, part, sealer(secure));
                        continue;
                    }
                    buf.write_header(packet, payload_bytes, &header.to_bytes());
                    self.tx.push_request(route, index, slot, request, packet);
                }
                Transmit::Bare(header) => {
                    self.tx.push_bare(route, header, &[], sealer(secure));
                }
            }
        }
        let next_send = session.next_send();
        if session.busy() > 0 && entry.needs_timer(now) {
            self.arm_retransmission(index);
        }
        if next_send != Time::NEVER {
            self.park(index, next_send);
        }
    }

    /// Arms the timer of a session for a packet that leaves now. It may have been set for a call
    /// that waits far longer.
    #[cold]
    pub(crate) fn arm_retransmission(&mut self, index: u32) {
        let now = self.now;
        let Some(entry) = self.clients.get_mut(index) else { return };
        let id = SessionId { index, generation: entry.generation };
        if let ClientState::Ready { session, .. } = &entry.state {
            let at = now.plus_nanos(session.timer_ns());
            self.arm(id, at);
        }
    }

    /// Takes the acknowledgements that a server session has to send.
    pub(crate) fn pump_server(&mut self, index: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return self.pump_request(index) };
        entry.dirty = false;
        let mut bitmap = [0; BITMAP_WORDS_MAX];
        while let Some(ack) = entry.session.poll_ack(&mut bitmap) {
            let words = &bitmap[..ack.bitmap_words as usize];
            self.tx.push_bare(entry.route, ack.header, words, sealer(&mut entry.secure));
        }
    }

    /// Queues packets `start..end` of the response in `slot`, as many as the session may send in
    /// one turn (W19). The client considers the rest lost, and asks again.
    pub(crate) fn send_pulled(&mut self, index: u32, slot: u32, start: u32, end: u32) {
        let turn = self.stats.turns;
        let Some(entry) = self.servers.get_mut(index) else { return };
        let request = entry.session.request_in(slot);
        let credits_max = entry.session.params().credits_max;
        let packets = entry.pulls.take(turn, credits_max, end - start);
        self.stats.pulls_cut += u64::from(packets < end - start);
        self.note_pulled(index, request, (start, end));
        self.send_response(index, slot, start, start + packets);
    }

    /// Queues packets `start..end` of the response in `slot`.
    #[inline]
    pub(crate) fn send_response(&mut self, index: u32, slot: u32, start: u32, end: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let (request, route) = (entry.session.request_in(slot), entry.route);
        let payload_bytes = entry.session.params().payload_bytes as usize;
        for packet in start..end {
            if self.tx.is_full() {
                self.stats.transmit_overruns += u64::from(end - packet);
                return;
            }
            let header = entry.session.response_header(slot, packet);
            let kept = entry.session.kept_mut(slot);
            let is_shared = kept.buffer().is_some_and(MsgBuf::is_shared);
            if is_staged(kept.len(), &header) || is_shared {
                let (part, sealer) = ((packet, payload_bytes), sealer(&mut entry.secure));
                match kept.buffer() {
                    Some(buf) => self.tx.push_buffer_part(route, header, buf, part, sealer),
                    None => self.tx.push_part(route, header, kept.as_slice(), part, sealer),
                }
                continue;
            }
            let buf = kept.buffer_mut().expect("a long response is in a buffer");
            buf.write_header(packet, payload_bytes, &header.to_bytes());
            let (kind, slot) = (Kind::Response, slot as u8);
            self.tx.push(TxItem { route, kind, slot, session: index, index: packet, request });
        }
    }

    /// Passes the queue to the packet I/O. Refused items stay queued, and hold back only items that
    /// have to wait for the same underlying queue ([`PacketIo::holds_back`]).
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut impl PacketIo) {
        self.tx.close_train();
        io.begin_batch();
        self.offer_all(io);
        io.end_batch();
    }

    #[inline]
    fn offer_all(&mut self, io: &mut impl PacketIo) {
        while let Some(item) = self.tx.items.get(self.tx.sent) {
            let all_taken = match item.kind {
                Kind::Train => self.flush_train(*item, io),
                Kind::Request | Kind::Response => self.flush_references(io),
            };
            if !all_taken {
                return self.flush_around(io);
            }
        }
        self.tx.clear();
    }

    /// The rest of a flush after the packet I/O has refused the next item: offers those items that
    /// need not wait for it. The remaining ones keep their order.
    #[cold]
    fn flush_around(&mut self, io: &mut impl PacketIo) {
        let mut left = core::mem::take(&mut self.tx.left);
        let mut full = vec![self.tx.items[self.tx.sent].route];
        while let Some(&item) = self.tx.items.get(self.tx.sent) {
            let waits = full.iter().any(|route| io.holds_back(*route, item.route));
            if !waits && self.flush_one(item, io) {
                continue;
            }
            if !waits {
                full.push(item.route);
            }
            // Its train may have been sent in part.
            left.push(self.tx.items[self.tx.sent]);
            self.tx.sent += 1;
        }
        let rings = full.into_iter().filter(|route| io.waits_alone(*route));
        self.stats.transmit_overruns += cut_shares(&mut left, rings);
        self.tx.keep(left);
    }

    /// Offers the next item of the queue. Returns whether it was sent or dropped.
    fn flush_one(&mut self, item: TxItem, io: &mut impl PacketIo) -> bool {
        if item.kind == Kind::Train {
            return self.flush_train(item, io);
        }
        let (offered, taken) = self.transmit_until(self.tx.sent + 1, io);
        let done = taken == offered;
        self.stats.transmit_void += u64::from(offered == 0);
        self.tx.sent += usize::from(done);
        done
    }

    /// Offers the train that is next in the queue. Returns whether all of it was accepted.
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

    /// Offers the references that are next in the queue. Returns whether all were accepted.
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
    /// and how many of these were accepted.
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

    /// The bytes of a reference's packet, unless it has become void.
    #[inline]
    fn resolve(&self, item: &TxItem) -> Option<(&[u8], &[u8])> {
        let slot = u32::from(item.slot);
        match item.kind {
            Kind::Request => {
                let Some(entry) = self.clients.get(item.session) else {
                    return self.bound_packet(item.session, (slot, item.request), item.index);
                };
                let ClientState::Ready { session, .. } = &entry.state else { return None };
                let context = session.context_of(slot, item.request)?;
                let payload_bytes = session.params().payload_bytes as usize;
                Some(context.request.packet(item.index, payload_bytes))
            }
            Kind::Response => {
                let Some(entry) = self.servers.get(item.session) else {
                    return self.taken_packet(item.session, item.request, item.index);
                };
                let session = &entry.session;
                let buf = session.response_of(slot, item.request)?.buffer()?;
                Some(buf.packet(item.index, session.params().payload_bytes as usize))
            }
            Kind::Train => None,
        }
    }
}
