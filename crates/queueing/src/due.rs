//! When the next feedback arrives, and of which worker: a tournament between workers.
//!
//! Invariant: each inner node is the least of the two below it. A change of one worker compares
//! once per level of the tree, without a branch.

/// Bits of a key that name the worker.
const WORKER_BITS: u32 = 12;
/// Later than any time.
const NEVER: u64 = u64::MAX;
/// Times are below this, so that they fit in a key.
pub(crate) const TICKS_MAX: u64 = 1 << (64 - WORKER_BITS - 1);

/// The earliest time of each worker, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    /// The root is at 1, the children of node i at 2 i and 2 i + 1.
    nodes: Box<[u64]>,
    leaves: usize,
}

impl Due {
    pub(crate) fn new(workers: usize) -> Due {
        assert!(workers <= 1 << WORKER_BITS, "{workers} workers");
        let leaves = workers.next_power_of_two();
        Due { nodes: vec![NEVER; 2 * leaves].into(), leaves }
    }

    /// Sets a worker's time.
    #[inline]
    pub(crate) fn set(&mut self, worker: usize, ticks: Option<u64>) {
        let key = ticks.map_or(NEVER, |ticks| (ticks << WORKER_BITS) | worker as u64);
        let mut node = self.leaves + worker;
        self.nodes[node] = key;
        while node > 1 {
            let least = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            self.nodes[node] = least;
        }
    }

    /// The earliest time and its worker, if it is no later than `ticks`.
    #[inline]
    pub(crate) fn first(&self, ticks: u64) -> Option<(u64, usize)> {
        let key = self.nodes[1];
        let (at, worker) = (key >> WORKER_BITS, key & ((1 << WORKER_BITS) - 1));
        (key != NEVER && at <= ticks).then_some((at, worker as usize))
    }
}

#[cfg(test)]
mod tests {
    use petasos_base::Rng;

    use super::*;

    #[test]
    fn the_earliest_is_first() {
        let mut rng = Rng::new(4);
        for workers in [1, 2, 3, 16, 100, 4096] {
            let mut due = Due::new(workers);
            let mut model = vec![None; workers];
            for _ in 0..2000 {
                let worker = rng.below(workers as u64) as usize;
                model[worker] = rng.chance(0.8).then(|| rng.below(TICKS_MAX));
                due.set(worker, model[worker]);
                let all = model.iter().enumerate();
                let least = all.filter_map(|(worker, at)| Some(((*at)?, worker))).min();
                assert_eq!(due.first(TICKS_MAX), least);
                let before = least.and_then(|(at, _)| due.first(at.checked_sub(1)?));
                assert_eq!(before, None);
            }
        }
    }
}
