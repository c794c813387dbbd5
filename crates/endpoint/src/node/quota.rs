//! How much of the control thread one peer may use, so that others find room.
//!
//! A connection first counts for its address: TCP has shown that the peer can receive there, so
//! nobody can use up another's quota from elsewhere. Once the peer has proved a name over TLS, the
//! connection counts for that name instead ([`Holder`]).
//!
//! Who may touch what: the control thread owns [`Handshakes`]; any thread may read [`NodeStats`].

use std::collections::HashMap;

use petasos_base::Time;
use petasos_base::sync::{AtomicU64, Ordering};

use crate::source::Holder;

/// The most peers that are remembered at a time.
const HOLDERS_MAX: usize = 4096;
const SECOND_NANOS: u64 = 1_000_000_000;

/// A token bucket for each peer, which limits how often the peer may begin a handshake.
pub(super) struct Handshakes {
    /// How many tokens a bucket gets per second, and the most that it holds.
    per_second: u32,
    buckets: HashMap<Holder, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// When the bucket was, or will be, empty. It is as full as the time since then, up to a
    /// second's worth.
    empty_at: Time,
}

impl Handshakes {
    pub(super) fn new(per_second: u32) -> Handshakes {
        Handshakes { per_second: per_second.max(1), buckets: HashMap::new() }
    }

    /// Whether `holder` may begin a handshake now. If so, a token is taken.
    pub(super) fn take(&mut self, holder: Holder, now: Time) -> bool {
        if self.buckets.len() >= HOLDERS_MAX && !self.buckets.contains_key(&holder) {
            self.make_room(now);
        }
        let token = SECOND_NANOS / u64::from(self.per_second);
        let bucket = self.buckets.entry(holder).or_insert(Bucket { empty_at: Time::ZERO });
        // A full bucket does not fill further.
        let full_since = Time::from_nanos(now.as_nanos().saturating_sub(SECOND_NANOS));
        let empty_at = bucket.empty_at.max(full_since).plus_nanos(token);
        if empty_at > now {
            return false;
        }
        bucket.empty_at = empty_at;
        true
    }

    /// Undoes [`Handshakes::take`], because the handshake counts for another holder.
    pub(super) fn give_back(&mut self, holder: &Holder) {
        if let Some(bucket) = self.buckets.get_mut(holder) {
            let token = SECOND_NANOS / u64::from(self.per_second);
            bucket.empty_at = Time::from_nanos(bucket.empty_at.as_nanos().saturating_sub(token));
        }
    }

    /// Forgets the peers whose buckets are full; if there are none, forgets all. Many peers
    /// together must not be able to take the room for buckets away from others.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.buckets.retain(|_, bucket| now.nanos_since(bucket.empty_at) < SECOND_NANOS);
        if self.buckets.len() >= HOLDERS_MAX {
            self.buckets.clear();
        }
    }
}

/// What a node has refused, and what it has resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Connections closed at once because there were
    /// [`connections_max`](crate::NodeConfig::connections_max).
    pub connections_refused: u64,
    /// Connections closed at once because their address had
    /// [`connections_per_address_max`](crate::NodeConfig::connections_per_address_max).
    pub address_connections_refused: u64,
    /// Connections closed after the handshake because their name had
    /// [`connections_per_name_max`](crate::NodeConfig::connections_per_name_max).
    pub name_connections_refused: u64,
    /// Connections closed because their address, or their name, began more handshakes than
    /// [`handshakes_per_second`](crate::NodeConfig::handshakes_per_second).
    pub handshakes_refused: u64,
    /// Connections that replaced one that broke.
    pub connections_resumed: u64,
    /// Tickets that were refused because they were shown by another process, address or name, too
    /// late, twice, or for a connection on which no session was asked for.
    pub resumptions_refused: u64,
}

/// [`NodeStats`] as the control thread counts them. Relaxed, since they are only displayed.
#[derive(Default)]
pub(crate) struct Counters {
    pub(super) connections_refused: AtomicU64,
    pub(super) address_connections_refused: AtomicU64,
    pub(super) name_connections_refused: AtomicU64,
    pub(super) handshakes_refused: AtomicU64,
    pub(super) connections_resumed: AtomicU64,
    pub(super) resumptions_refused: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self) -> NodeStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NodeStats {
            connections_refused: read(&self.connections_refused),
            address_connections_refused: read(&self.address_connections_refused),
            name_connections_refused: read(&self.name_connections_refused),
            handshakes_refused: read(&self.handshakes_refused),
            connections_resumed: read(&self.connections_resumed),
            resumptions_refused: read(&self.resumptions_refused),
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

    fn v4(last: u8) -> Holder {
        Holder::Address([127, 0, 0, last].into())
    }

    #[test]
    fn an_address_has_a_seconds_worth_at_once_and_then_its_rate() {
        let mut handshakes = Handshakes::new(10);
        let taken = |handshakes: &mut Handshakes, holder: Holder, ms| {
            (0..100).filter(|_| handshakes.take(holder.clone(), at(ms))).count()
        };
        assert_eq!(taken(&mut handshakes, v4(1), 0), 10);
        assert_eq!(taken(&mut handshakes, v4(2), 0), 10, "another address has its own");
        assert_eq!(taken(&mut handshakes, v4(1), 99), 0);
        assert_eq!(taken(&mut handshakes, v4(1), 250), 2);
        assert_eq!(taken(&mut handshakes, v4(1), 60_000), 10, "no more than a second's");
    }

    #[test]
    fn what_a_name_takes_its_address_has_again() {
        let mut handshakes = Handshakes::new(3);
        let name = || Holder::Name(b"alice".to_vec());
        for _ in 0..3 {
            assert!(handshakes.take(v4(1), at(0)) && handshakes.take(name(), at(0)));
            handshakes.give_back(&v4(1));
        }
        assert!(!handshakes.take(name(), at(0)), "the name has used up its own");
        assert!((0..3).all(|_| handshakes.take(v4(1), at(0))));
        assert!(!handshakes.take(v4(1), at(0)), "giving back makes no more of it");
    }

    #[test]
    fn addresses_are_forgotten_before_there_are_too_many() {
        let mut handshakes = Handshakes::new(1);
        for number in 0..3 * HOLDERS_MAX as u32 {
            assert!(handshakes.take(Holder::Address(number.to_be_bytes().into()), at(0)));
            assert!(handshakes.buckets.len() <= HOLDERS_MAX);
        }
    }
}
