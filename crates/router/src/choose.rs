//! The choice of a worker among those with a free slot.

use petasos_base::Rng;

use crate::config::Keys;
use crate::policy::Rule;
use crate::ring::KeyRing;
use crate::workers::Workers;

/// Draws before a worker is taken whatever its weight.
const DRAWS: u32 = 64;
/// Workers that are passed over in a turn before one is taken whatever its weight.
const PASSES: u32 = 256;

impl Workers {
    /// A worker by the group's rule.
    #[inline]
    pub(crate) fn choose(&mut self, rng: &mut Rng) -> Option<usize> {
        match (self.policy.rule, &self.levels) {
            (Rule::ShortestQueue, Some(levels)) => levels.least(rng),
            (Rule::Random | Rule::ShortestQueue, _) => self.random(rng),
            (Rule::PowerOfTwo, _) => self.better_of_two(rng),
            (Rule::RoundRobin, _) => self.in_turn(),
        }
    }

    /// Each with a probability that is proportional to its share.
    fn random(&self, rng: &mut Rng) -> Option<usize> {
        for _ in 0..DRAWS {
            let index = self.free.random(rng)?;
            let share = self.all[index].share;
            if share == 100 || rng.below(100) < u64::from(share) {
                return Some(index);
            }
        }
        self.free.random(rng)
    }

    /// Of two different ones, that with less load; one of them at random if both have the same.
    fn better_of_two(&self, rng: &mut Rng) -> Option<usize> {
        let first = self.free.random(rng)?;
        let others = (0..DRAWS).map(|_| self.free.random(rng));
        let second = match self.free.len() {
            1 => None,
            _ => others.flatten().find(|other| *other != first),
        };
        let load = |index: usize| self.all[index].load();
        // The first is a random one of the two.
        Some(second.filter(|second| load(*second) < load(first)).unwrap_or(first))
    }

    /// The next one whose turn it is: a worker saves up its share with each turn.
    fn in_turn(&mut self) -> Option<usize> {
        let mut index = self.free.next(self.cursor)?;
        for _ in 0..PASSES {
            let saved = self.turns[index] + self.all[index].share;
            self.turns[index] = saved % 100;
            if saved >= 100 {
                break;
            }
            index = self.free.next(index + 1)?;
        }
        self.cursor = index + 1;
        Some(index)
    }

    /// The first worker for a key that has a slot and does not have too many requests; another, by
    /// the group's rule, if there is none soon.
    pub(crate) fn choose_by_key(
        &mut self,
        (ring, keys): (&KeyRing, Keys),
        key: u64,
        rng: &mut Rng,
    ) -> Option<usize> {
        if self.free.is_empty() {
            return None;
        }
        let allowed = u64::from(100 + keys.excess_percent);
        let found = ring.find(key, |worker| {
            let worker = &self.all[usize::from(worker)];
            // Its part of all requests of those who can be used, this one included, and the
            // excess; rounded up.
            let part = (self.usable_outstanding + 1) * u64::from(worker.share) * allowed;
            let most = part.div_ceil(self.shares.max(1) * 100).max(keys.least.into());
            worker.is_free && worker.account.outstanding() < most
        });
        found.map(usize::from).or_else(|| self.choose(rng))
    }
}
