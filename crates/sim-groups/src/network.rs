//! The network between the parties, in virtual time.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use petasos_base::{Rng, Time};

use crate::forger;
use crate::scenario::Scenario;

/// A party, as an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    Client(u8),
    Router(u8),
    Worker(u8),
}

impl Node {
    pub(crate) fn address(self) -> SocketAddr {
        let (kind, index) = match self {
            Node::Client(index) => (1, index),
            Node::Router(index) => (2, index),
            Node::Worker(index) => (3, index),
        };
        SocketAddr::from((Ipv4Addr::new(10, 0, kind, index), 7000))
    }
}

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) bytes: Vec<u8>,
}

/// See the module's documentation.
pub(crate) struct Network {
    pub(crate) now: Time,
    rng: Rng,
    loss: f64,
    copies: f64,
    late: f64,
    forged: f64,
    under_way: BTreeMap<(Time, u64), Sent>,
    sequence: u64,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Network {
        let Scenario { loss, copies, late, forged, .. } = *scenario;
        Network {
            now: Time::ZERO + Duration::from_secs(1),
            rng: Rng::new(seed),
            loss,
            copies,
            late,
            forged,
            under_way: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        (self.loss, self.copies, self.late, self.forged) = (0.0, 0.0, 0.0, 0.0);
    }

    pub(crate) fn send(&mut self, from: Node, to: Node, bytes: &[u8]) {
        if self.rng.chance(self.forged)
            && let Some(bytes) = forger::forged(&mut self.rng, bytes)
        {
            self.carry(from, to, &bytes);
        }
        self.carry(from, to, bytes);
    }

    fn carry(&mut self, from: Node, to: Node, bytes: &[u8]) {
        if self.rng.chance(self.loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(self.copies));
        for _ in 0..copies {
            let is_late = self.rng.chance(self.late);
            let takes_us = 20 + self.rng.below(if is_late { 30_000 } else { 10 });
            let at = self.now + Duration::from_micros(takes_us);
            self.sequence += 1;
            let sent = Sent { from, to, bytes: bytes.to_vec() };
            self.under_way.insert((at, self.sequence), sent);
        }
    }

    /// The next packet that has arrived.
    pub(crate) fn arrival(&mut self) -> Option<Sent> {
        let (at, _) = *self.under_way.first_key_value()?.0;
        (at <= self.now).then(|| self.under_way.pop_first().expect("it was there").1)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }
}
