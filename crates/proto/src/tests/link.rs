//! A virtual link in virtual time, with seeded and with aimed faults, and a log of all packets.

use std::collections::BTreeMap;
use std::ops::Range;

use petasos_base::{Rng, Time};
use petasos_wire::{HEADER_BYTES, Kind, Packet};

/// Random behaviour, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) delay_ns: u64,
    /// A packet takes up to this much longer, so that packets overtake each other.
    pub(super) jitter_ns: u64,
    /// Probability that a packet is lost.
    pub(super) loss: f64,
    /// Probability that a packet arrives twice.
    pub(super) duplication: f64,
}

/// One way on a link without faults: a round trip is 10 us.
pub(super) const DELAY_NS: u64 = 5_000;

impl Link {
    pub(super) const CLEAN: Link =
        Link { delay_ns: DELAY_NS, jitter_ns: 0, loss: 0.0, duplication: 0.0 };
}

/// What happens to chosen packets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Lost,
    /// Takes so much longer, in nanoseconds.
    Late(u64),
    Twice,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) kind: Kind,
    pub(super) request: u64,
    pub(super) transmission: u32,
    /// First two fields of a client's packet: index and length, or the range pulled.
    pub(super) start: u32,
    pub(super) end: u32,
    /// Fields of a server's packet.
    pub(super) echo: u32,
    pub(super) value: u32,
    pub(super) credits: u32,
    pub(super) later: bool,
    pub(super) payload_bytes: usize,
}

/// In the name of an event: a packet arrives, marked or not, rather than leaves.
const MARKING: u8 = 1 << 7;

pub(super) struct Network {
    pub(super) link: Link,
    pub(super) log: Vec<Sent>,
    seed: u64,
    rng: Rng,
    /// How often each packet has been sent, and has arrived (`MARKING`), by what it carries.
    copies: BTreeMap<(u8, u64, u32, u32), u64>,
    sequence: u64,
    in_flight: BTreeMap<(Time, u64), Vec<u8>>,
    /// Packets sent of each kind, and the fates chosen for those to come.
    counts: [u32; 16],
    fates: Vec<(Kind, Range<u32>, Fate)>,
}

impl Network {
    pub(super) fn new(link: Link, seed: u64) -> Network {
        Network {
            link,
            log: Vec::new(),
            seed,
            rng: Rng::new(seed),
            copies: BTreeMap::new(),
            sequence: 0,
            in_flight: BTreeMap::new(),
            counts: [0; 16],
            fates: Vec::new(),
        }
    }

    /// Chooses the fate of packets of `kind` that are yet to be sent, counted from now.
    pub(super) fn doom(&mut self, kind: Kind, which: Range<u32>, fate: Fate) {
        let sent = self.counts[kind as usize];
        self.fates.push((kind, sent + which.start..sent.saturating_add(which.end), fate));
    }

    /// Ends all faults, random and chosen.
    pub(super) fn heal(&mut self) {
        self.link = Link::CLEAN;
        self.fates.clear();
    }

    pub(super) fn send(&mut self, bytes: Vec<u8>, now: Time) {
        let packet = Packet::parse(&bytes).expect("only well-formed packets are sent");
        let kind = packet.kind();
        self.log.push(describe(&packet, now));
        let ordinal = self.counts[kind as usize];
        self.counts[kind as usize] += 1;
        let chosen =
            self.fates.iter().find(|(of, which, _)| *of == kind && which.contains(&ordinal));
        let fate = chosen.map(|(_, _, fate)| *fate);
        self.rng = self.luck_of(kind as u8, &packet);
        if matches!(fate, Some(Fate::Lost)) || self.rng.chance(self.link.loss) {
            return;
        }
        let extra_ns = if let Some(Fate::Late(ns)) = fate { ns } else { 0 };
        if matches!(fate, Some(Fate::Twice)) || self.rng.chance(self.link.duplication) {
            self.deliver(bytes.clone(), now, extra_ns);
        }
        self.deliver(bytes, now, extra_ns);
    }

    /// Whether a packet that arrives has met congestion, which it does with this `probability`.
    pub(super) fn marks(&mut self, packet: &Packet<'_>, probability: f64) -> bool {
        self.luck_of(packet.kind() as u8 | MARKING, packet).chance(probability)
    }

    /// What befalls a packet depends on what it carries and on how often this `event` has befallen
    /// such a packet, not on which slot took its turn first: so runs that differ in such turns are
    /// comparable.
    fn luck_of(&mut self, event: u8, packet: &Packet<'_>) -> Rng {
        let request = packet.request();
        let part = if packet.from_server() {
            (packet.value(), u32::from(packet.is_later()))
        } else {
            (packet.packet_index(), packet.message_bytes())
        };
        let copies = self.copies.entry((event, request, part.0, part.1)).or_default();
        *copies += 1;
        let mut seed = self.seed;
        for word in [event.into(), request, part.0.into(), part.1.into(), *copies] {
            seed = Rng::new(seed ^ word).next_u64();
        }
        Rng::new(seed)
    }

    /// Puts `bytes` on the way without faults or log: also for what no honest peer sends.
    pub(super) fn deliver(&mut self, bytes: Vec<u8>, now: Time, extra_ns: u64) {
        let jitter_ns = self.rng.below(self.link.jitter_ns + 1);
        let at = now.plus_nanos(self.link.delay_ns + jitter_ns + extra_ns);
        self.sequence += 1;
        self.in_flight.insert((at, self.sequence), bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// When the next packet arrives.
    pub(super) fn next_at(&self) -> Time {
        self.in_flight.keys().next().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// What has arrived by `now`.
    pub(super) fn arrivals(&mut self, now: Time) -> Vec<Vec<u8>> {
        let later = self.in_flight.split_off(&(now.plus_nanos(1), 0));
        core::mem::replace(&mut self.in_flight, later).into_values().collect()
    }
}

fn describe(packet: &Packet<'_>, at: Time) -> Sent {
    Sent {
        at,
        kind: packet.kind(),
        request: packet.request(),
        transmission: packet.transmission(),
        start: packet.packet_index(),
        end: packet.message_bytes(),
        echo: packet.echo(),
        value: packet.value(),
        credits: packet.credits(),
        later: packet.is_later(),
        payload_bytes: packet.payload().len(),
    }
}

/// A packet's bytes.
pub(super) fn bytes_of(header: petasos_wire::Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(payload);
    bytes
}
