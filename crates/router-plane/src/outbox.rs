//! Packets that leave at the end of a turn: trains to each receiver.

use petasos_netio::{PacketIo, Route, TX_BATCH_MAX};

/// The most bytes of a train: what one send can carry on any path.
const TRAIN_BYTES_MAX: usize = 65_000;
/// If more than this waits, nothing is received until it has been sent.
const BACKED_UP_BYTES: usize = 4 << 20;

/// Whom a packet goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Receiver {
    /// A member, by its place: packets to it join a train also if others were sent in between.
    Member(usize, Route),
    /// A client: packets to it are few.
    Client(Route),
}

/// Packets of equal length to one receiver, the last of which may be shorter.
struct Train {
    route: Route,
    /// The member's place, or [`NONE`].
    place: u32,
    bytes: Vec<u8>,
    segment_bytes: usize,
    packets: usize,
    /// With so many, it is full. A shorter packet is the last one.
    packets_max: usize,
    /// Bytes that the packet I/O has accepted.
    sent: usize,
}

impl Train {
    #[inline]
    fn takes(&self, bytes: usize) -> bool {
        self.packets < self.packets_max && bytes <= self.segment_bytes
    }
}

/// All trains, in the order in which they were begun. A member has one that its next packet may
/// join.
#[derive(Default)]
pub(crate) struct Outbox {
    trains: Vec<Train>,
    /// By a member's place: the train that is open, if it is one of `trains`.
    open: Vec<u32>,
    /// Memory of trains that have left, to be used again.
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

const NONE: u32 = u32::MAX;

impl Outbox {
    /// Adds a packet, and returns its bytes for changes.
    #[inline]
    pub(crate) fn push(&mut self, to: Receiver, packet: &[u8]) -> &mut [u8] {
        let (place, route, at) = match to {
            Receiver::Member(place, route) => {
                (place as u32, route, self.open.get(place).copied().unwrap_or(NONE))
            }
            Receiver::Client(route) => (NONE, route, self.trains.len().wrapping_sub(1) as u32),
        };
        let is_open = |train: &Train| {
            train.route == route && train.place == place && train.takes(packet.len())
        };
        let at = match self.trains.get(at as usize).is_some_and(is_open) {
            true => at as usize,
            false => self.begin(place, route, packet.len()),
        };
        let train = &mut self.trains[at];
        train.packets += 1;
        if packet.len() < train.segment_bytes {
            train.packets_max = train.packets;
        }
        self.bytes += packet.len();
        let start = train.bytes.len();
        train.bytes.extend_from_slice(packet);
        &mut train.bytes[start..]
    }

    /// Begins a train of packets of this length, which is not 0.
    #[inline(never)]
    fn begin(&mut self, place: u32, route: Route, segment_bytes: usize) -> usize {
        let at = self.trains.len();
        if place != NONE {
            let place = place as usize;
            if place >= self.open.len() {
                self.open.resize(place + 1, NONE);
            }
            self.open[place] = at as u32;
        }
        let packets_max = TX_BATCH_MAX.min(TRAIN_BYTES_MAX / segment_bytes).max(1);
        let bytes = self.spare.pop().unwrap_or_default();
        let (packets, sent) = (0, 0);
        self.trains.push(Train { route, place, bytes, segment_bytes, packets, packets_max, sent });
        at
    }

    /// Whether so much waits that nothing should be received.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.bytes > BACKED_UP_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// Passes trains to the packet I/O until it accepts no more. What is left stays, in its order.
    pub(crate) fn flush(&mut self, io: &mut impl PacketIo) {
        io.begin_batch();
        let mut done = 0;
        for train in &mut self.trains {
            let rest = &train.bytes[train.sent..];
            let taken = io.transmit_train(train.route, rest, train.segment_bytes);
            let taken_bytes = rest.len().min(taken * train.segment_bytes);
            train.sent += taken_bytes;
            self.bytes -= taken_bytes;
            if train.sent < train.bytes.len() {
                break;
            }
            done += 1;
        }
        io.end_batch();
        if done == 0 {
            return;
        }
        // The numbers of those that are left change: nothing joins them.
        for train in self.trains.iter().filter(|train| train.place != NONE) {
            self.open[train.place as usize] = NONE;
        }
        for Train { mut bytes, .. } in self.trains.drain(..done) {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
