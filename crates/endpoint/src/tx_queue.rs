//! The packets of a turn: trains of short packets, references to long ones.
//!
//! Who may touch what: only [`crate::transmit`] takes packets out.

use petasos_buf::{MsgBuf, copy_short, copy_short_twice};
use petasos_netio::{Route, TX_BATCH_MAX};
use petasos_seal::Sealer;
use petasos_wire::{BITMAP_WORDS_MAX, CHECKSUM_BYTES, HEADER_BYTES, Header, SEAL_BYTES};

pub(crate) use crate::guard::Guard;
use crate::guard::protect;

/// Packets up to this length are written next to each other as they are made, so that a run of them
/// is one train; copying costs less than a reference. Longer packets are sent from their buffers.
const STAGED_BYTES_MAX: usize = 512;

/// Payload of the longest packet that is staged.
pub(crate) const STAGED_PAYLOAD_BYTES_MAX: usize = STAGED_BYTES_MAX - HEADER_BYTES;

/// The most bytes of a train: what one send can carry on any path.
const TRAIN_BYTES_MAX: usize = 65_000;

/// The most packets of a train. Longer trains cost less per packet, but then both ends would take
/// turns over a usual window (8 sessions of 8 slots) instead of working at the same time. Half of
/// that window is best.
const TRAIN_PACKETS_MAX: u32 = 32;

/// The most padding for a packet to join the train before it. That is far cheaper than a separate
/// send on kernel sockets, and costs little on the wire.
const PADDING_BYTES_MAX: usize = 128;

/// The stage's first size: a turn's packets in most programs.
const STAGE_BYTES_MIN: usize = 64 << 10;

/// A queue of this length accepts no more packets of responses; clients ask for them again.
const ITEMS_FULL: usize = 1 << 16;
const STAGED_BYTES_FULL: usize = 64 << 20;

/// If this many items are left after a turn, nothing is received until they have been sent, since
/// received packets make more to send.
const ITEMS_BACKED_UP: usize = ITEMS_FULL / 4;
const STAGED_BYTES_BACKED_UP: usize = STAGED_BYTES_FULL / 4;

/// The most items, all together, that may wait for queues with a single peer each: so few that they
/// do not stop receiving.
const ITEMS_ALONE: usize = ITEMS_BACKED_UP / 2;
const STAGED_BYTES_ALONE: usize = STAGED_BYTES_BACKED_UP / 2;

/// The kind of an item of the queue.
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
    /// The session. For a train: the bytes of each packet.
    pub(crate) session: u32,
    /// The packet's index. For a train: where it starts in the stage.
    pub(crate) index: u32,
    /// The request's number. For a train: its bytes.
    pub(crate) request: u64,
}

impl TxItem {
    /// How many bytes of the stage the item uses.
    fn staged_bytes(&self) -> usize {
        if self.kind == Kind::Train { self.request as usize } else { 0 }
    }
}

/// The train that the next staged packet may join. It becomes an item of the queue when it is
/// closed.
#[derive(Clone, Copy, Debug)]
struct OpenTrain {
    route: Route,
    /// Bytes of each packet; 0 if no train is open.
    segment_bytes: u32,
    /// Packets that may still join: at least 1 in an open train.
    room: u32,
    /// Where it starts in the stage.
    start: usize,
}

const CLOSED: OpenTrain = OpenTrain { route: Route(0), segment_bytes: 0, room: 0, start: 0 };

impl OpenTrain {
    /// The padding with which a packet of `packet_bytes` to `route` can join the train, if it can.
    fn padding(&self, route: Route, packet_bytes: usize) -> Option<usize> {
        let padding = (self.segment_bytes as usize).checked_sub(packet_bytes)?;
        (padding <= PADDING_BYTES_MAX && self.route == route).then_some(padding)
    }
}

/// Packets to be sent, in order. Paced sessions wait in a wheel before this queue, never packets.
pub(crate) struct TxQueue {
    pub(crate) items: Vec<TxItem>,
    /// The bytes of the trains, and after them room for at least [`STAGED_BYTES_MAX`] more.
    pub(crate) stage: Vec<u8>,
    /// How many bytes of the stage are in use.
    pub(crate) staged: usize,
    open: OpenTrain,
    /// Items that the packet I/O has accepted.
    pub(crate) sent: usize,
    /// Where a flush collects refused items; empty between flushes.
    pub(crate) left: Vec<TxItem>,
    /// Packets dropped because their number was not above the previous one's (W29).
    pub(crate) unsealed: u64,
}

impl Default for TxQueue {
    fn default() -> TxQueue {
        let stage = vec![0; STAGE_BYTES_MIN];
        let (items, left) = (Vec::new(), Vec::new());
        TxQueue { items, stage, staged: 0, open: CLOSED, sent: 0, left, unsealed: 0 }
    }
}

impl TxQueue {
    /// Queues a reference.
    pub(crate) fn push(&mut self, item: TxItem) {
        self.close_train();
        self.items.push(item);
    }

    /// Queues a reference to packet `index` of a request.
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

    /// Queues a copy of packet `index` of a message cut into `payload_bytes`. A sealed session
    /// passes its sealer.
    pub(crate) fn push_part(
        &mut self,
        route: Route,
        header: Header,
        message: &[u8],
        (index, payload_bytes): (u32, usize),
        sealer: Option<&mut Sealer>,
    ) {
        let padded = message.len() <= payload_bytes;
        self.push_copy(route, header, part(message, index, payload_bytes), padded, sealer);
    }

    /// Like [`TxQueue::push_part`], for a message in a buffer, which may have a tail.
    pub(crate) fn push_buffer_part(
        &mut self,
        route: Route,
        header: Header,
        message: &MsgBuf,
        (index, payload_bytes): (u32, usize),
        sealer: Option<&mut Sealer>,
    ) {
        if !message.has_tail() {
            return self.push_part(route, header, message, (index, payload_bytes), sealer);
        }
        let start = index as usize * payload_bytes;
        let bytes = (message.len() - start).min(payload_bytes);
        let padded = message.len() <= payload_bytes;
        let fill = |to: &mut [u8]| message.copy_range(start, to);
        self.push_filled(route, header, &[], (bytes, fill), padded, Guard::of(sealer));
    }

    /// Queues a packet with a block between header and payload (RT2, RT7), and a payload of so many
    /// bytes, which is written to where it is sent from. In a sealed group the header says that
    /// there is a checksum, and a guard makes the tag.
    #[inline]
    pub(crate) fn push_with_block(
        &mut self,
        route: Route,
        header: Header,
        block: &[u8],
        payload: (usize, impl FnOnce(&mut [u8])),
        padded: bool,
        guard: Guard<'_>,
    ) {
        let is_sealed = !matches!(guard, Guard::Checksum);
        debug_assert!(header.has_checksum() == is_sealed, "groups have seals, but no checksums");
        self.push_filled(route, header, block, payload, padded, guard);
    }

    /// The same, out of line for what is sealed: what is not is not slowed down by that.
    #[inline(never)]
    pub(crate) fn push_sealed(
        &mut self,
        route: Route,
        header: Header,
        block: &[u8],
        payload: (usize, impl FnOnce(&mut [u8])),
        padded: bool,
        guard: Guard<'_>,
    ) {
        self.push_with_block(route, header, block, payload, padded, guard);
    }

    /// Queues a copy of a message's only packet, in a session without checksums; its payload has at
    /// most [`STAGED_PAYLOAD_BYTES_MAX`]. Also copies the payload to `kept`, which has its length.
    /// If the packet before it is a little longer, this one is padded to that length and joins its
    /// train (W7).
    ///
    /// The packet is written first, and joins or begins a train afterwards: there is always room
    /// for one more.
    #[inline(always)]
    pub(crate) fn push_short(
        &mut self,
        route: Route,
        header: Header,
        payload: &[u8],
        kept: Option<&mut [u8]>,
    ) {
        debug_assert!(!header.has_checksum() && payload.len() <= STAGED_PAYLOAD_BYTES_MAX);
        let start = self.staged;
        let segment_bytes = HEADER_BYTES + payload.len();
        let room = &mut self.stage[start..start + segment_bytes];
        let (head, body) = room.split_first_chunk_mut().expect("the header is part of the room");
        header.write_to(head);
        match kept {
            Some(kept) => copy_short_twice(body, kept, payload),
            None => copy_short(body, payload),
        }
        self.staged = start + segment_bytes;
        let open = &mut self.open;
        if open.segment_bytes != segment_bytes as u32 || open.route != route {
            return self.join_or_open(route, start, true);
        }
        open.room -= 1;
        if open.room == 0 {
            self.close_train();
        }
    }

    /// Queues a copy of a packet. Long packets only come here if their checksum or seal requires a
    /// copy. `padded` says whether the packet may be padded because it is a message's only one.
    fn push_copy(
        &mut self,
        route: Route,
        header: Header,
        payload: &[u8],
        padded: bool,
        sealer: Option<&mut Sealer>,
    ) {
        let fill = |to: &mut [u8]| to.copy_from_slice(payload);
        let guard = Guard::of(sealer);
        self.push_filled(route, header, &[], (payload.len(), fill), padded, guard);
    }

    /// Queues a packet with a payload of so many bytes, which is written to where it is sent from.
    #[inline(always)]
    fn push_filled(
        &mut self,
        route: Route,
        header: Header,
        block: &[u8],
        (bytes, fill): (usize, impl FnOnce(&mut [u8])),
        padded: bool,
        guard: Guard<'_>,
    ) {
        let start = self.staged;
        let trailer = match guard {
            _ if !header.has_checksum() => 0,
            Guard::Checksum => CHECKSUM_BYTES,
            Guard::Seal(_) | Guard::First(_) => SEAL_BYTES,
        };
        let payload_at = start + HEADER_BYTES + block.len();
        let mut end = payload_at + bytes;
        self.reserve(end + PADDING_BYTES_MAX + trailer);
        self.stage[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.stage[start + HEADER_BYTES..payload_at].copy_from_slice(block);
        fill(&mut self.stage[payload_at..end]);
        if trailer != 0 {
            // The padding comes before the checksum or tag, which covers it (W12, W27).
            let padding = self.open.padding(route, end - start + trailer);
            let padding = padding.filter(|_| padded).unwrap_or(0);
            self.stage[end..end + padding].fill(0);
            end += padding;
            if !protect(&mut self.stage[start..end + trailer], block.len(), guard) {
                // Drop it, as if the network had lost it.
                self.unsealed += 1;
                return;
            }
        }
        self.staged = end + trailer;
        self.join_or_open(route, start, padded && trailer == 0);
    }

    /// Adds the packet that has just been staged, from `start` on, to the open train if possible;
    /// otherwise it begins a new one.
    #[inline(never)]
    fn join_or_open(&mut self, route: Route, start: usize, padded: bool) {
        let packet_bytes = self.staged - start;
        match self.open.padding(route, packet_bytes).filter(|bytes| padded || *bytes == 0) {
            Some(padding) => {
                self.stage[self.staged..self.staged + padding].fill(0);
                self.staged += padding;
            }
            None => self.open_train(route, start),
        }
        self.open.room -= 1;
        if self.open.room == 0 {
            self.close_train();
        }
    }

    /// Begins a train with what has been staged from `start` on.
    fn open_train(&mut self, route: Route, start: usize) {
        self.end_train(start);
        let segment_bytes = self.staged - start;
        let room = (TRAIN_BYTES_MAX / segment_bytes).clamp(1, TRAIN_PACKETS_MAX as usize);
        self.reserve(start + room * segment_bytes);
        let (segment_bytes, room) = (segment_bytes as u32, room as u32);
        self.open = OpenTrain { route, segment_bytes, room, start };
    }

    /// Closes the open train, if there is one, so that no more packets join it.
    #[inline(never)]
    pub(crate) fn close_train(&mut self) {
        self.end_train(self.staged);
    }

    /// Queues the bytes staged up to `end` as a train.
    fn end_train(&mut self, end: usize) {
        let OpenTrain { route, segment_bytes, start, .. } = self.open;
        if segment_bytes != 0 {
            debug_assert!(u32::try_from(start).is_ok(), "what is staged is bounded");
            let (kind, slot, index) = (Kind::Train, 0, start as u32);
            let (session, request) = (segment_bytes, (end - start) as u64);
            self.items.push(TxItem { route, kind, slot, session, index, request });
        }
        self.open = CLOSED;
    }

    /// Makes room in the stage up to `end`, and for one more short packet after it.
    fn reserve(&mut self, end: usize) {
        let end = end + STAGED_BYTES_MAX;
        if end > self.stage.len() {
            self.stage.resize(end.next_power_of_two(), 0);
        }
    }

    /// Queues a packet that is not part of a message: a header, and the bitmap of an
    /// acknowledgement.
    pub(crate) fn push_bare(
        &mut self,
        route: Route,
        header: Header,
        bitmap: &[u64],
        sealer: Option<&mut Sealer>,
    ) {
        let mut payload = [0; BITMAP_WORDS_MAX * 8];
        for (word, bytes) in bitmap.iter().zip(payload.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.push_copy(route, header, &payload[..bitmap.len() * 8], false, sealer);
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
        self.items.is_empty() && self.staged == 0
    }

    /// Whether no more packets of responses may be queued.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_FULL || self.staged >= STAGED_BYTES_FULL
    }

    /// Whether so much waits that receiving must pause. Items that were sent count until all have
    /// been sent, so that the queue runs empty now and then, however fast it is filled.
    #[inline]
    pub(crate) fn is_backed_up(&self) -> bool {
        self.items.len() >= ITEMS_BACKED_UP || self.staged >= STAGED_BYTES_BACKED_UP
    }

    /// Keeps only `left`, some of the items in their order. No train may be open.
    ///
    /// Waiting trains move to the stage's start if they take less than half of it. Otherwise the
    /// stage would grow for as long as one peer's packets wait and others' are sent.
    pub(crate) fn keep(&mut self, left: Vec<TxItem>) {
        self.left = core::mem::replace(&mut self.items, left);
        self.left.clear();
        self.sent = 0;
        let bytes = staged_bytes(&self.items);
        if self.staged <= STAGE_BYTES_MIN / 2 || bytes > self.staged / 2 {
            return;
        }
        let mut end = 0;
        for train in self.items.iter_mut().filter(|item| item.kind == Kind::Train) {
            let (start, len) = (train.index as usize, train.request as usize);
            self.stage.copy_within(start..start + len, end);
            train.index = end as u32;
            end += len;
        }
        self.staged = end;
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.staged = 0;
        self.open = CLOSED;
        self.sent = 0;
    }
}

/// Each of `routes` has a queue for itself and a share of the items. This drops what exceeds their
/// shares: the latest items to a peer that does not read. They are lost, as on a network; the
/// peer's own calls repeat them. Returns how many there were.
///
/// Items that wait for a queue with many peers have no share: receiving pauses for them, and that
/// queue moves on.
pub(crate) fn cut_shares(items: &mut Vec<TxItem>, routes: impl Iterator<Item = Route>) -> u64 {
    if items.len() <= ITEMS_ALONE && staged_bytes(items) <= STAGED_BYTES_ALONE {
        return 0;
    }
    let mut used: Vec<_> = routes.map(|route| (route, 0, 0)).collect();
    let of = used.len().max(1);
    let (items_max, bytes_max) = (ITEMS_ALONE / of, STAGED_BYTES_ALONE / of);
    let before = items.len();
    items.retain(|item| {
        let Some((_, items, bytes)) = used.iter_mut().find(|(route, ..)| *route == item.route)
        else {
            return true;
        };
        *items += 1;
        *bytes += item.staged_bytes();
        *items <= items_max && *bytes <= bytes_max
    });
    (before - items.len()) as u64
}

fn staged_bytes(items: &[TxItem]) -> usize {
    items.iter().map(TxItem::staged_bytes).sum()
}

const _: () = assert!(STAGED_BYTES_MAX < STAGE_BYTES_MIN);
const _: () = assert!(STAGED_BYTES_FULL < u32::MAX as usize / 2, "a train's start fits its index");
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
