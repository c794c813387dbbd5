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
#[derive(Default)]
struct Train {
    route: Option<Route>,
    /// The member's place, if it is one.
    place: Option<usize>,
    bytes: Vec<u8>,
    segment_bytes: usize,
    packets: usize,
    /// No packet may follow: the last one is shorter.
    is_closed: bool,
    /// Bytes that the packet I/O has accepted.
    sent: usize,
}

impl Train {
    fn takes(&self, bytes: usize) -> bool {
        !self.is_closed
            && bytes <= self.segment_bytes
            && self.packets < TX_BATCH_MAX
            && self.bytes.len() + bytes <= TRAIN_BYTES_MAX
    }
}

/// All trains, in the order in which they were begun. A member has one that its next packet may
/// join.
#[derive(Default)]
pub(crate) struct Outbox {
    trains: Vec<Train>,
    /// By a member's place: the train that is open, if it is one of `trains`.
    open: Vec<u32>,
    /// Trains without packets, whose memory is used again.
    spare: Vec<Train>,
    bytes: usize,
}

const NONE: u32 = u32::MAX;

impl Outbox {
    /// Adds a packet, and returns its bytes for changes.
    #[inline]
    pub(crate) fn push(&mut self, to: Receiver, packet: &[u8]) -> &mut [u8] {
        let (place, route) = match to {
            Receiver::Member(place, route) => (Some(place), route),
            Receiver::Client(route) => (None, route),
        };
        let open = place.and_then(|place| self.open.get(place).copied());
        let at = open.unwrap_or(self.trains.len().wrapping_sub(1) as u32) as usize;
        let is_open = |train: &Train| {
            (train.place, train.route) == (place, Some(route)) && train.takes(packet.len())
        };
        let at = match self.trains.get(at).is_some_and(is_open) {
            true => at,
            false => self.begin(place, route, packet.len()),
        };
        let train = &mut self.trains[at];
        train.is_closed = packet.len() < train.segment_bytes;
        train.packets += 1;
        self.bytes += packet.len();
        let start = train.bytes.len();
        train.bytes.extend_from_slice(packet);
        &mut train.bytes[start..]
    }

    /// Begins a train.
    fn begin(&mut self, place: Option<usize>, route: Route, segment_bytes: usize) -> usize {
        let at = self.trains.len();
        if let Some(place) = place {
            if place >= self.open.len() {
                self.open.resize(place + 1, NONE);
            }
            self.open[place] = at as u32;
        }
        let spare = self.spare.pop().unwrap_or_default();
        self.trains.push(Train { route: Some(route), place, segment_bytes, ..spare });
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
            let route = train.route.expect("a train has a receiver");
            let rest = &train.bytes[train.sent..];
            let taken = io.transmit_train(route, rest, train.segment_bytes);
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
        for place in self.trains.iter().filter_map(|train| train.place) {
            self.open[place] = NONE;
        }
        for mut train in self.trains.drain(..done) {
            train.bytes.clear();
            self.spare.push(Train { bytes: train.bytes, ..Train::default() });
        }
    }
}
