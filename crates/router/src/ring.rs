//! Keys on a ring, for consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam,
//! "Consistent hashing with bounded loads", SODA 2018): a key goes to the first worker at or after
//! its own place that has a slot and does not exceed the average load by too much. A worker that
//! comes or goes moves the keys of its own places only.
//!
//! Invariant: places are in ascending order. Room for all workers' places is there from the start.

use petasos_base::Rng;

/// How many places are looked at for a key. The expected number of workers is below 20 if they may
/// have a quarter more than the average, and does not depend on the number of workers.
const LOOKS_MAX: usize = 256;

/// Workers' places.
#[derive(Clone, Debug)]
pub(crate) struct KeyRing {
    places: Vec<(u64, u16)>,
    each: usize,
}

impl KeyRing {
    /// A ring for so many workers of `each` places.
    pub(crate) fn new(workers: usize, each: u16) -> KeyRing {
        let each = usize::from(each);
        KeyRing { places: Vec::with_capacity(workers * each), each }
    }

    /// Whether keys mean anything.
    pub(crate) fn is_used(&self) -> bool {
        self.each > 0
    }

    /// Adds a worker with `percent` of the places. They depend on `identity` only, so that a worker
    /// that comes back has the same.
    pub(crate) fn insert(&mut self, worker: u16, identity: u64, percent: u8) {
        let count = (self.each * usize::from(percent)).div_ceil(100);
        let mut rng = Rng::new(identity);
        self.places.extend((0..count).map(|_| (rng.next_u64(), worker)));
        // Merging runs is what this sort does best.
        self.places.sort();
    }

    /// Removes a worker's places.
    pub(crate) fn remove(&mut self, worker: u16) {
        self.places.retain(|(_, other)| *other != worker);
    }

    /// The first worker for a key that `fits`, if it is soon found.
    pub(crate) fn find(&self, key: u64, mut fits: impl FnMut(u16) -> bool) -> Option<u16> {
        // Keys may be small numbers.
        let key = Rng::new(key).next_u64();
        let start = self.places.partition_point(|(place, _)| *place < key);
        let (before, after) = self.places.split_at(start);
        let looks = after.iter().chain(before).take(LOOKS_MAX);
        looks.map(|(_, worker)| *worker).find(|worker| fits(*worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(workers: u16) -> KeyRing {
        let mut ring = KeyRing::new(usize::from(workers), 64);
        (0..workers).for_each(|worker| ring.insert(worker, 1000 + u64::from(worker), 100));
        ring
    }

    #[test]
    fn a_worker_that_goes_moves_its_own_keys_only_and_gets_them_again() {
        let (mut ring, all) = (ring(10), |_| true);
        let before: Vec<_> = (0..10_000).map(|key| ring.find(key, all)).collect();
        ring.remove(3);
        let without: Vec<_> = (0..10_000).map(|key| ring.find(key, all)).collect();
        for (before, without) in before.iter().zip(&without) {
            assert!(*without != Some(3) && (before == without || *before == Some(3)));
        }
        ring.insert(3, 1003, 100);
        assert!((0..10_000).all(|key| ring.find(key, all) == before[key as usize]));
    }

    #[test]
    fn workers_have_keys_by_their_weight() {
        let mut ring = ring(4);
        ring.insert(4, 9, 50);
        let mut counts = [0u32; 5];
        for key in 0..45_000 {
            counts[usize::from(ring.find(key, |_| true).expect("there are workers"))] += 1;
        }
        // 64 places spread by an eighth, 32 by a sixth: three times that.
        assert!(counts[..4].iter().all(|count| (6_000..14_000).contains(count)), "{counts:?}");
        assert!((2_500..7_500).contains(&counts[4]), "{counts:?}");
    }

    #[test]
    fn the_search_ends() {
        let mut looks = 0;
        let found = ring(100).find(7, |_| {
            looks += 1;
            false
        });
        assert_eq!((found, looks), (None, LOOKS_MAX));
        assert_eq!(KeyRing::new(4, 64).find(7, |_| true), None);
    }
}
