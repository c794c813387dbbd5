//! From what sessions want to send to batches of packets.

use arrayvec::ArrayVec;
use petasos_netio::{PacketIo, Route, TX_BATCH_MAX, TxPacket};
use petasos_proto::Transmit;
use petasos_wire::{BITMAP_WORDS_MAX, HEADER_BYTES, Header};

use crate::core::Core;
use crate::sessions::{ClientState, SessionId};

/// Bytes of the longest packet that is not part of a message: an acknowledgement.
const BARE_BYTES_MAX: usize = HEADER_BYTES + BITMAP_WORDS_MAX * 8;

const _: () = assert!(HEADER_BYTES == petasos_buf::HEADER_BYTES, "buffers reserve what wire needs");
const _: () = assert!(
    petasos_buf::PAYLOAD_BYTES_MIN == petasos_wire::PAYLOAD_BYTES_MIN as usize,
    "buffers reserve room for as many headers as the smallest payload needs"
);

/// What a queued packet refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A packet of the request in a client session's slot.
    Request,
    /// A packet of the response in a server session's slot.
    Response,
    /// A packet kept in the queue itself.
    Bare,
}

/// A reference to a packet; see the crate's documentation.
#[derive(Clone, Copy, Debug)]
struct TxItem {
    route: Route,
    kind: Kind,
    slot: u8,
    session: u32,
    index: u32,
    request: u64,
}

struct BarePacket {
    bytes: [u8; BARE_BYTES_MAX],
    len: u8,
}

/// Packets to be sent, in order. Milestone 2's pacing wheel stands before it: a paced packet is
/// the same reference with a time.
#[derive(Default)]
pub(crate) struct TxQueue {
    items: Vec<TxItem>,
    bare: Vec<BarePacket>,
    /// Items that have been taken by the packet I/O.
    sent: usize,
}

impl TxQueue {
    #[inline]
    fn push(&mut self, item: TxItem) {
        self.items.push(item);
    }

    /// Queues a packet of its own: a header and the bitmap of an acknowledgement.
    pub(crate) fn push_bare(&mut self, route: Route, header: Header, bitmap: &[u64]) {
        let mut packet = BarePacket { bytes: [0; BARE_BYTES_MAX], len: 0 };
        packet.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let words = packet.bytes[HEADER_BYTES..].chunks_exact_mut(8);
        for (word, bytes) in bitmap.iter().zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        packet.len = (HEADER_BYTES + bitmap.len() * 8) as u8;
        let index = self.bare.len() as u32;
        self.bare.push(packet);
        self.push(TxItem { route, kind: Kind::Bare, slot: 0, session: 0, index, request: 0 });
    }

    /// Queues packet `index` of a response.
    #[inline]
    pub(crate) fn push_response(
        &mut self,
        route: Route,
        session: u32,
        slot: u32,
        request: u64,
        index: u32,
    ) {
        let slot = slot as u8;
        self.push(TxItem { route, kind: Kind::Response, slot, session, index, request });
    }

    /// Whether packets are waiting because the packet I/O took no more.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

const _: () = assert!(BARE_BYTES_MAX <= u8::MAX as usize);
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
                    let buf = &mut session.context_mut(slot).request;
                    buf.write_header(packet, &header.to_bytes());
                    self.tx.push(TxItem {
                        route,
                        kind: Kind::Request,
                        slot: slot as u8,
                        session: index,
                        index: packet,
                        request,
                    });
                }
                Transmit::Bare(header) => self.tx.push_bare(route, header, &[]),
            }
        }
        if entry.timer_at == petasos_base::Time::NEVER && session.busy() > 0 {
            let at = now.plus_nanos(session.rtt().rto_ns(0));
            let id = SessionId { index, generation: entry.generation };
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

    /// Writes the headers of response packets `start..end` and queues them.
    #[inline]
    pub(crate) fn send_response(&mut self, index: u32, slot: u32, start: u32, end: u32) {
        let Some(entry) = self.servers.get_mut(index) else { return };
        let request = entry.session.request_in(slot);
        for packet in start..end {
            let header = entry.session.response_header(slot, packet);
            let buf = entry.session.buffer_mut(slot).as_mut();
            let buf = buf.expect("an answered slot keeps its response");
            buf.write_header(packet, &header.to_bytes());
            self.tx.push_response(entry.route, index, slot, request, packet);
        }
    }

    /// Hands the queue to the packet I/O. What it does not take stays queued.
    #[inline]
    pub(crate) fn flush(&mut self, io: &mut impl PacketIo) {
        while self.tx.sent < self.tx.items.len() {
            let end = self.tx.items.len().min(self.tx.sent + TX_BATCH_MAX);
            let (offered, taken) = self.transmit_until(end, io);
            self.stats.transmit_void += (end - self.tx.sent - offered) as u64;
            if taken < offered {
                self.tx.sent = self.position_after(taken);
                return;
            }
            self.tx.sent = end;
        }
        self.tx.items.clear();
        self.tx.bare.clear();
        self.tx.sent = 0;
    }

    /// Offers the packets up to queue position `end`. Returns how many of them were not void, and
    /// how many of these were taken.
    #[inline]
    fn transmit_until(&self, end: usize, io: &mut impl PacketIo) -> (usize, usize) {
        let mut packets = ArrayVec::<TxPacket<'_>, TX_BATCH_MAX>::new();
        for item in &self.tx.items[self.tx.sent..end] {
            if let Some((head, body)) = self.resolve(item) {
                packets.push(TxPacket { route: item.route, head, body });
            }
        }
        (packets.len(), io.transmit(&packets))
    }

    /// The queue's position after `taken` packets that were not void.
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
        match item.kind {
            Kind::Request => {
                let ClientState::Ready { session, .. } = &self.clients.get(item.session)?.state
                else {
                    return None;
                };
                let context = session.context_of(u32::from(item.slot), item.request)?;
                let payload_bytes = session.params().payload_bytes as usize;
                Some(context.request.packet(item.index, payload_bytes))
            }
            Kind::Response => {
                let session = &self.servers.get(item.session)?.session;
                let buf = session.response_of(u32::from(item.slot), item.request)?;
                Some(buf.packet(item.index, session.params().payload_bytes as usize))
            }
            Kind::Bare => {
                let bare = &self.tx.bare[item.index as usize];
                Some((&bare.bytes[..usize::from(bare.len)], &[]))
            }
        }
    }
}
