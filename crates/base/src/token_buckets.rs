//! Limits how often each of many peers may do something.

use std::collections::HashMap;
use std::hash::Hash;

use crate::Time;

/// The most peers that are remembered at a time.
const PEERS_MAX: usize = 4096;
const SECOND_NANOS: u64 = 1_000_000_000;

/// A token bucket for each peer. A bucket gets a number of tokens per second, and holds at most a
/// second's worth, which it has at first.
#[derive(Debug)]
pub struct TokenBuckets<P> {
    per_second: u32,
    buckets: HashMap<P, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When the bucket was, or will be, empty. It is as full as the time since then, up to a
    /// second's worth.
    empty_at: Time,
}

impl<P: Eq + Hash> TokenBuckets<P> {
    /// Buckets that get this many tokens per second, but at least one.
    pub fn new(per_second: u32) -> TokenBuckets<P> {
        TokenBuckets { per_second: per_second.max(1), buckets: HashMap::new() }
    }

    /// Takes a token of `peer`. Returns false if it has none now.
    ///
    /// Times must not be within a second of [`Time::ZERO`], when no bucket is full yet.
    pub fn take(&mut self, peer: P, now: Time) -> bool {
        if self.buckets.len() >= PEERS_MAX && !self.buckets.contains_key(&peer) {
            self.make_room(now);
        }
        let token = SECOND_NANOS / u64::from(self.per_second);
        let bucket = self.buckets.entry(peer).or_insert(Bucket { empty_at: Time::ZERO });
        // A full bucket does not fill further.
        let full_since = Time::from_nanos(now.as_nanos().saturating_sub(SECOND_NANOS));
        let empty_at = bucket.empty_at.max(full_since).plus_nanos(token);
        if empty_at > now {
            return false;
        }
        bucket.empty_at = empty_at;
        true
    }

    /// Undoes [`TokenBuckets::take`], because it counts for another peer.
    pub fn give_back(&mut self, peer: &P) {
        if let Some(bucket) = self.buckets.get_mut(peer) {
            let token = SECOND_NANOS / u64::from(self.per_second);
            bucket.empty_at = Time::from_nanos(bucket.empty_at.as_nanos().saturating_sub(token));
        }
    }

    /// Forgets the peers whose buckets are full; if there are none, forgets all. Many peers
    /// together must not be able to take the room for buckets away from others.
    #[cold]
    fn make_room(&mut self, now: Time) {
        self.buckets.retain(|_, bucket| now.nanos_since(bucket.empty_at) < SECOND_NANOS);
        if self.buckets.len() >= PEERS_MAX {
            self.buckets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(10 * SECOND_NANOS + ms * 1_000_000)
    }

    #[test]
    fn a_peer_has_a_seconds_worth_at_once_and_then_its_rate() {
        let mut buckets = TokenBuckets::new(10);
        let taken = |buckets: &mut TokenBuckets<u8>, peer, ms| {
            (0..100).filter(|_| buckets.take(peer, at(ms))).count()
        };
        assert_eq!(taken(&mut buckets, 1, 0), 10);
        assert_eq!(taken(&mut buckets, 2, 0), 10, "another peer has its own");
        assert_eq!(taken(&mut buckets, 1, 99), 0);
        assert_eq!(taken(&mut buckets, 1, 250), 2);
        assert_eq!(taken(&mut buckets, 1, 60_000), 10, "no more than a second's");
    }

    #[test]
    fn what_a_name_takes_its_address_has_again() {
        let mut buckets = TokenBuckets::new(3);
        for _ in 0..3 {
            assert!(buckets.take("address", at(0)) && buckets.take("name", at(0)));
            buckets.give_back(&"address");
        }
        assert!(!buckets.take("name", at(0)), "the name has used up its own");
        assert!((0..3).all(|_| buckets.take("address", at(0))));
        assert!(!buckets.take("address", at(0)), "giving back makes no more of it");
    }

    #[test]
    fn peers_are_forgotten_before_there_are_too_many() {
        let mut buckets = TokenBuckets::new(1);
        for peer in 0..3 * PEERS_MAX {
            assert!(buckets.take(peer, at(0)));
            assert!(buckets.buckets.len() <= PEERS_MAX);
        }
    }
}
