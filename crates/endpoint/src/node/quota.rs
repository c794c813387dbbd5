//! What one address may take of the control thread, so that others find room.
//!
//! An address stands for whoever is behind it: for IPv6 the /64, since a host may choose any
//! address in its own. TCP has shown that the peer can receive there, so nobody uses up another's
//! quota from afar.
//!
//! Who may touch what: the control thread owns [`Handshakes`]; anybody may read [`NodeStats`].

use std::collections::HashMap;
use std::net::IpAddr;

use petasos_base::Time;
use petasos_base::sync::{AtomicU64, Ordering};

/// Addresses that are remembered at one time.
const ADDRESSES_MAX: usize = 4096;
const SECOND_NANOS: u64 = 1_000_000_000;

/// A token bucket for each address: how often it may begin a handshake.
pub(super) struct Handshakes {
    /// Tokens that come in a second, and at most lie there.
    per_second: u32,
    buckets: HashMap<IpAddr, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// When it was, or will be, empty: a bucket is as full as that is ago, up to a second.
    empty_at: Time,
}

impl Handshakes {
    pub(super) fn new(per_second: u32) -> Handshakes {
        Handshakes { per_second: per_second.max(1), buckets: HashMap::new() }
    }

    /// Whether a peer at `source` may begin a handshake now; if so, it has.
    pub(super) fn take(&mut self, source: IpAddr, now: Time) -> bool {
        if self.buckets.len() >= ADDRESSES_MAX && !self.buckets.contains_key(&source) {
            self.make_room(now);
        }
        let token = SECOND_NANOS / u64::from(self.per_second);
        let bucket = self.buckets.entry(source).or_insert(Bucket { empty_at: Time::ZERO });
        // A full bucket does not get fuller.
        let full_since = Time::from_nanos(now.as_nanos().saturating_sub(SECOND_NANOS));
        let empty_at = bucket.empty_at.max(full_since).plus_nanos(token);
        if empty_at > now {
            return false;
        }
        bucket.empty_at = empty_at;
        true
    }

    /// Forgets the addresses whose buckets are full; if there are none, all: the room for addresses
    /// must not be something that many can take from others.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.buckets.retain(|_, bucket| now.nanos_since(bucket.empty_at) < SECOND_NANOS);
        if self.buckets.len() >= ADDRESSES_MAX {
            self.buckets.clear();
        }
    }
}

/// What a node has refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Connections closed at once because there were
    /// [`connections_max`](crate::NodeConfig::connections_max).
    pub connections_refused: u64,
    /// Connections closed at once because their address had
    /// [`connections_per_address_max`](crate::NodeConfig::connections_per_address_max).
    pub address_connections_refused: u64,
    /// Connections closed at once because their address began more handshakes than
    /// [`handshakes_per_second`](crate::NodeConfig::handshakes_per_second).
    pub handshakes_refused: u64,
}

/// [`NodeStats`] as the control thread counts them. Relaxed: numbers for people.
#[derive(Default)]
pub(crate) struct Counters {
    pub(super) connections_refused: AtomicU64,
    pub(super) address_connections_refused: AtomicU64,
    pub(super) handshakes_refused: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> NodeStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NodeStats {
            connections_refused: read(&self.connections_refused),
            address_connections_refused: read(&self.address_connections_refused),
            handshakes_refused: read(&self.handshakes_refused),
        }
    }
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(10 * SECOND_NANOS + ms * 1_000_000)
    }

    fn v4(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn an_address_has_a_seconds_worth_at_once_and_then_its_rate() {
        let mut handshakes = Handshakes::new(10);
        let taken = |handshakes: &mut Handshakes, ip, ms| {
            (0..100).filter(|_| handshakes.take(ip, at(ms))).count()
        };
        assert_eq!(taken(&mut handshakes, v4(1), 0), 10);
        assert_eq!(taken(&mut handshakes, v4(2), 0), 10, "another address has its own");
        assert_eq!(taken(&mut handshakes, v4(1), 99), 0);
        assert_eq!(taken(&mut handshakes, v4(1), 250), 2);
        assert_eq!(taken(&mut handshakes, v4(1), 60_000), 10, "no more than a second's");
    }

    #[test]
    fn addresses_are_forgotten_before_there_are_too_many() {
        let mut handshakes = Handshakes::new(1);
        for number in 0..3 * ADDRESSES_MAX as u32 {
            assert!(handshakes.take(IpAddr::from(number.to_be_bytes()), at(0)));
            assert!(handshakes.buckets.len() <= ADDRESSES_MAX);
        }
    }
}
