//! The packets of a turn: trains of short ones, references to long ones.
//!
//! Who may touch what: only [`crate::transmit`] takes packets out.

use petasos_buf::copy_short;
use petasos_netio::{Route, TX_BATCH_MAX};
use petasos_wire::{BITMAP_WORDS_MAX, CHECKSUM_BYTES, HEADER_BYTES, Header};

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
pub(crate) enum Kind {
    /// A reference to a packet of the request in a client session's slot.
    Request,
    /// A reference to a packet of the response in a server session's slot.
    Response,
    /// A train of staged packets.
    Train,
}

/// A reference to a packet (see the crate's documentation), or a train of staged ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxItem {
    pub(crate) route: Route,
    pub(crate) kind: Kind,
    pub(crate) slot: u8,
    /// The session; of a train, the bytes of each packet.
    pub(crate) session: u32,
    /// The packet's index; of a train, where it starts in the stage.
    pub(crate) index: u32,
    /// The request's number; of a train, its bytes.
    pub(crate) request: u64,
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
    pub(crate) items: Vec<TxItem>,
    /// Room for the bytes of the trains, and how many there are.
    pub(crate) stage: Vec<u8>,
    pub(crate) staged: usize,
    open: OpenTrain,
    /// Items that have been taken by the packet I/O.
    pub(crate) sent: usize,
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
    pub(crate) fn push(&mut self, item: TxItem) {
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
    pub(crate) fn push_part(
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

    /// Lets no further packet join the last train.
    pub(crate) fn close_train(&mut self) {
        self.open.room = 0;
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

    pub(crate) fn clear(&mut self) {
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

/// The bytes of packet `index` of a message.
#[inline]
fn part(message: &[u8], index: u32, payload_bytes: usize) -> &[u8] {
    let rest = &message[index as usize * payload_bytes..];
    &rest[..rest.len().min(payload_bytes)]
}
