//! Workers in order of their load, so that one of the least loaded is found in a few instructions,
//! however many workers there are.
//!
//! A level is a load: for workers of full weight, the number of outstanding requests. Each level
//! has the set of its workers, and another set has the levels with workers. Every request moves
//! its worker up by one level, and every served one down: two bits change.
//!
//! Invariants: a worker is in the set of its level and in no other; a level is in `occupied` if and
//! only if it has workers. Nothing is allocated after [`Levels::new`].

use petasos_base::Rng;

use crate::set::{CAPACITY_MAX, Set};

/// In no level.
const NOWHERE: u16 = u16::MAX;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    levels: Box<[Set]>,
    occupied: Set,
    /// Of each worker, or [`NOWHERE`].
    level_of: Box<[u16]>,
}

impl Levels {
    /// Empty levels for so many workers. Loads at and above the last level count as equal.
    ///
    /// # Panics
    /// If there is no level, or more than [`CAPACITY_MAX`] of either.
    pub(crate) fn new(workers: usize, levels: usize) -> Levels {
        assert!((1..=CAPACITY_MAX).contains(&levels), "{levels} levels");
        Levels {
            levels: vec![Set::new(workers); levels].into(),
            occupied: Set::new(levels),
            level_of: vec![NOWHERE; workers].into(),
        }
    }

    /// Moves a worker to a level, or to none.
    #[inline]
    pub(crate) fn place(&mut self, worker: usize, load: Option<u64>) {
        let last = self.levels.len() as u64 - 1;
        let level = load.map_or(NOWHERE, |load| load.min(last) as u16);
        let before = core::mem::replace(&mut self.level_of[worker], level);
        if level == before {
            return;
        }
        if before != NOWHERE {
            let set = &mut self.levels[usize::from(before)];
            set.remove(worker);
            if set.is_empty() {
                self.occupied.remove(usize::from(before));
            }
        }
        if level != NOWHERE {
            let set = &mut self.levels[usize::from(level)];
            if set.is_empty() {
                self.occupied.insert(usize::from(level));
            }
            set.insert(worker);
        }
    }

    /// One of the workers of the lowest level, each with the same probability.
    #[inline]
    pub(crate) fn least(&self, rng: &mut Rng) -> Option<usize> {
        self.levels[self.occupied.first()?].random(rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_is_found_wherever_workers_move() {
        let (workers, levels) = (200, 80);
        let mut rng = Rng::new(3);
        let mut table = Levels::new(workers, levels);
        let mut model: Vec<Option<u64>> = vec![None; workers];
        assert_eq!(table.least(&mut rng), None);
        for _ in 0..5000 {
            let worker = rng.below(workers as u64) as usize;
            model[worker] = rng.chance(0.9).then(|| rng.below(100));
            table.place(worker, model[worker]);
            let level = |load: u64| load.min(levels as u64 - 1);
            let least = model.iter().flatten().map(|load| level(*load)).min();
            let found = table.least(&mut rng).map(|found| model[found].map(level));
            assert_eq!(found, least.map(Some));
        }
        (0..workers).for_each(|worker| table.place(worker, None));
        assert_eq!(table.least(&mut rng), None);
    }
}
