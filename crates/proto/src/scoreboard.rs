//! Which packets of one message have arrived, are in flight, or have to be sent (again).
//!
//! The client keeps one scoreboard per multi-packet message. For a request it tracks which packets
//! were *sent* and acknowledged, for a response which were *pulled* and received. Loss is handled
//! in the same way for both.
//!
//! Invariants: `base <= next <= total`; `next - base <= window`; every packet below `base` has
//! arrived; `next <= sent`, and no packet at or above `sent` was ever sent (the two differ only
//! after go-back-N); `in_flight` and `lost` count the entries of `base..next` in these states.
//!
//! Loss is detected by the order of transmission, not of indices (RFC 9002, section 6.1): a packet
//! in flight is lost once a packet sent `REORDER_THRESHOLD` or more transmissions later is known to
//! have arrived. So the loss of a *re*transmission is detected as well, without a timeout.

use petasos_base::Time;

use crate::spares::Reusable;

/// How many later transmissions may overtake a packet before it counts as lost.
const REORDER_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Place in the order of transmission.
    stamp: u32,
    /// Transmission number under which it was last sent or pulled.
    transmission: u32,
    /// When it was sent: the low bits of nanoseconds.
    sent_ns: u32,
    state: State,
    resent: bool,
}

const UNSENT: Entry =
    Entry { stamp: 0, transmission: 0, sent_ns: 0, state: State::Done, resent: false };

#[derive(Debug)]
pub(crate) struct Scoreboard {
    total: u32,
    base: u32,
    next: u32,
    sent: u32,
    in_flight: u32,
    lost: u32,
    /// The next packet's place in the order of transmission.
    stamp_next: u32,
    /// The latest place in that order that is known to have arrived.
    stamp_arrived: Option<u32>,
    /// When the transmission that the latest arrival answers was sent, until
    /// [`Scoreboard::take_round_trip`] takes it.
    answered_ns: Option<u32>,
    /// Its length is the window, a power of two.
    ring: Vec<Entry>,
}

/// What a packet's arrival says about its transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The packet was in flight.
    New,
    /// The packet had been given up or sent again, needlessly.
    Late,
    /// The packet had arrived before, or was never asked for.
    Known,
}

impl Scoreboard {
    /// A board for `total` packets, of which the first `done` have arrived. At most `window`
    /// packets (rounded up to a power of two) lie between the first gap and the last packet sent.
    pub(crate) fn new(total: u32, done: u32, window: u32) -> Scoreboard {
        Scoreboard::with_ring(Vec::new(), total, done, window)
    }

    /// Starts over with another message, as [`Scoreboard::new`] would, but keeps its memory.
    pub(crate) fn reset(&mut self, total: u32, done: u32, window: u32) {
        let ring = core::mem::take(&mut self.ring);
        *self = Scoreboard::with_ring(ring, total, done, window);
    }

    fn with_ring(mut ring: Vec<Entry>, total: u32, done: u32, window: u32) -> Scoreboard {
        let capacity = window.min(total).next_power_of_two() as usize;
        ring.clear();
        ring.resize(capacity, UNSENT);
        Scoreboard {
            total,
            base: done,
            next: done,
            sent: done,
            in_flight: 0,
            lost: 0,
            stamp_next: 0,
            stamp_arrived: None,
            answered_ns: None,
            ring,
        }
    }

    /// Packets sent that have neither arrived nor been given up.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether no packet was ever sent, for a board that was created with `done` = 0.
    pub(crate) fn is_untouched(&self) -> bool {
        self.sent == 0
    }

    /// Whether every packet has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.base == self.total
    }

    /// The first packet that has not arrived.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    fn entry(&mut self, index: u32) -> &mut Entry {
        let mask = self.ring.len() - 1;
        &mut self.ring[index as usize & mask]
    }

    /// The packet to send next; lost packets come first.
    pub(crate) fn next_to_send(&mut self) -> Option<u32> {
        if self.lost > 0 {
            let found = (self.base..self.next).find(|&at| self.entry(at).state == State::Lost);
            return Some(found.expect("lost packets are counted"));
        }
        let room = (self.next - self.base) < self.ring.len() as u32;
        (self.next < self.total && room).then_some(self.next)
    }

    /// Notes that `index`, which [`Scoreboard::next_to_send`] returned, is sent as `transmission`.
    /// Returns whether it had been sent before.
    pub(crate) fn on_sent(&mut self, index: u32, transmission: u32) -> bool {
        let stamp = self.stamp_next;
        self.stamp_next += 1;
        let resent = index < self.sent;
        if index < self.next {
            self.lost -= 1;
        } else {
            self.next += 1;
            self.sent = self.sent.max(self.next);
        }
        self.in_flight += 1;
        let state = State::InFlight;
        *self.entry(index) = Entry { stamp, transmission, sent_ns: 0, state, resent };
        resent
    }

    /// Sets the time at which `index`, which was just noted as sent, leaves.
    pub(crate) fn on_left(&mut self, index: u32, now: Time) {
        self.entry(index).sent_ns = now.as_nanos() as u32;
    }

    /// The exact round trip, in nanoseconds (up to 4 s), of the transmission that the latest
    /// arrival answers, if it was in flight. Each round trip is returned once.
    pub(crate) fn take_round_trip(&mut self, now: Time) -> Option<u64> {
        let sent_ns = self.answered_ns.take()?;
        Some(u64::from((now.as_nanos() as u32).wrapping_sub(sent_ns)))
    }

    /// Notes that packet `index` has arrived, by an answer to transmission `echo`.
    ///
    /// Only for a packet that was sent more than once is the echo needed to tell which transmission
    /// arrived.
    pub(crate) fn on_arrived(&mut self, index: u32, echo: u32) -> Arrival {
        if index < self.base || index >= self.next {
            return Arrival::Known;
        }
        let entry = self.entry(index);
        let stamp = entry.stamp;
        let echoed = entry.transmission == echo;
        let exact = !entry.resent || echoed;
        let sent_ns = entry.sent_ns;
        let before = core::mem::replace(&mut entry.state, State::Done);
        match before {
            State::Done => return Arrival::Known,
            State::Lost => self.lost -= 1,
            State::InFlight => self.in_flight -= 1,
        }
        if echoed && before == State::InFlight {
            self.answered_ns = Some(sent_ns);
        }
        if exact {
            self.stamp_arrived = self.stamp_arrived.max(Some(stamp));
        }
        while self.base < self.next && self.entry(self.base).state == State::Done {
            self.base += 1;
        }
        if exact && before == State::InFlight { Arrival::New } else { Arrival::Late }
    }

    /// Notes that every packet below `index` has arrived. Returns whether that was not known
    /// before.
    pub(crate) fn on_arrived_below(&mut self, index: u32, echo: u32) -> bool {
        let before = self.base;
        for at in before..index.min(self.next) {
            self.on_arrived(at, echo);
        }
        self.base > before
    }

    /// Gives up packets that too many later ones have overtaken. Returns how many.
    pub(crate) fn detect_lost(&mut self) -> u32 {
        let Some(arrived) = self.stamp_arrived else { return 0 };
        let mut found = 0;
        for at in self.base..self.next {
            let entry = self.entry(at);
            if entry.state != State::InFlight {
                continue;
            }
            if entry.stamp + REORDER_THRESHOLD <= arrived {
                entry.state = State::Lost;
                found += 1;
            } else if !entry.resent {
                // First transmissions are stamped in the order of their indices.
                break;
            }
        }
        self.in_flight -= found;
        self.lost += found;
        found
    }

    /// Gives up the packet sent last, so that sending it again probes the path: the answer will
    /// show which of the others are lost. If too few are in flight for that, all are given up.
    /// Returns whether there was one.
    pub(crate) fn probe_last(&mut self) -> bool {
        if self.in_flight <= REORDER_THRESHOLD {
            return self.lose_all() > 0;
        }
        let in_flight = (self.base..self.next).filter(|&at| self.state(at) == State::InFlight);
        let Some(last) = in_flight.max_by_key(|&at| self.stamp(at)) else { return false };
        self.entry(last).state = State::Lost;
        self.in_flight -= 1;
        self.lost += 1;
        true
    }

    /// Gives up everything in flight. Returns how many.
    pub(crate) fn lose_all(&mut self) -> u32 {
        for at in self.base..self.next {
            let entry = self.entry(at);
            if entry.state == State::InFlight {
                entry.state = State::Lost;
            }
        }
        let found = core::mem::take(&mut self.in_flight);
        self.lost += found;
        found
    }

    /// Go-back-N: forgets everything sent from the first gap on. Returns how many packets were in
    /// flight.
    pub(crate) fn roll_back(&mut self) -> u32 {
        self.next = self.base;
        self.lost = 0;
        core::mem::take(&mut self.in_flight)
    }

    fn state(&self, index: u32) -> State {
        self.ring[index as usize & (self.ring.len() - 1)].state
    }

    fn stamp(&self, index: u32) -> u32 {
        self.ring[index as usize & (self.ring.len() - 1)].stamp
    }
}

/// Enough for messages of up to 64 KiB in packets of 1 KiB. Takes 1 KiB.
const ENTRIES_KEPT_MAX: usize = 64;

impl Reusable for Scoreboard {
    fn is_small(&self) -> bool {
        self.ring.capacity() <= ENTRIES_KEPT_MAX
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
