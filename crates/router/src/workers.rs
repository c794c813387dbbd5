//! All workers of a group, and which of them may get a request.
//!
//! Invariants, of each member: it is in `free` if and only if it has a slot, and counted in `idle`
//! if and only if it has a slot and nothing outstanding; with a policy that compares all loads, it
//! is in the level of its load if it has a slot, and in none otherwise. `outstanding`, `shares` and
//! `usable_outstanding` are sums over members, the latter two over those with a limit above 0.
//! [`Workers::update`] and [`Workers::refresh`] restore all that after a change of one.

use core::time::Duration;

use petasos_base::Time;
use petasos_wire::WorkerCounts;

use crate::account::WrongCounts;
use crate::config::Config;
use crate::levels::Levels;
use crate::policy::{BOUND_MAX, Policy, Rule};
use crate::request::Affinity;
use crate::set::{CAPACITY_MAX, Set};
use crate::worker::{Join, Worker, WorkerId};

/// Loads of workers of low weight are high numbers: room for them beyond the bound.
const LEVELS_MIN: usize = 512;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    pub(crate) all: Box<[Worker]>,
    pub(crate) policy: Policy,
    pub(crate) members: Set,
    pub(crate) free: Set,
    pub(crate) levels: Option<Levels>,
    /// Free ones without a request.
    pub(crate) idle: usize,
    pub(crate) outstanding: u64,
    /// The part of it at members with a limit above 0.
    pub(crate) usable_outstanding: u64,
    pub(crate) shares: u64,
    /// Members with a limit above 0.
    pub(crate) usable: usize,
    /// Members that will take requests, at some time.
    pub(crate) willing: usize,
    /// See [`Worker::probe_wait`].
    probe_after: Duration,
    pub(crate) ejected: usize,
    pub(crate) primary: Option<WorkerId>,
    /// Where the next turn begins.
    pub(crate) cursor: usize,
    /// Of each place, the turns that its worker has saved up, in percent.
    pub(crate) turns: Box<[u8]>,
}

impl Workers {
    pub(crate) fn new(config: &Config) -> Workers {
        let places = config.workers_max;
        Workers {
            all: vec![Worker::vacant(); places].into(),
            policy: config.policy,
            members: Set::new(places),
            free: Set::new(places),
            levels: levels(config.policy, places),
            idle: 0,
            outstanding: 0,
            usable_outstanding: 0,
            shares: 0,
            usable: 0,
            willing: 0,
            probe_after: config.liveness.map_or(Duration::ZERO, |liveness| liveness.probe_after),
            ejected: 0,
            primary: None,
            cursor: 0,
            turns: vec![0; places].into(),
        }
    }

    /// Chooses in another way from now on.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        self.levels = levels(policy, self.all.len());
        for index in 0..self.all.len() {
            if self.members.contains(index) {
                self.update(index);
            }
        }
    }

    /// The place of a member; none of one that is no member any more.
    #[inline]
    pub(crate) fn index(&self, id: WorkerId) -> Option<usize> {
        let worker = self.all.get(id.index())?;
        let is_member = worker.generation == id.generation && self.members.contains(id.index());
        is_member.then_some(id.index())
    }

    pub(crate) fn id(&self, index: usize) -> WorkerId {
        WorkerId { index: index as u16, generation: self.all[index].generation }
    }

    /// Whether anybody will ever take such a request.
    pub(crate) fn has_willing(&self, affinity: Affinity) -> bool {
        match affinity {
            Affinity::Primary => {
                let primary = self.primary.and_then(|primary| self.index(primary));
                primary.is_some_and(|index| self.all[index].is_willing())
            }
            _ => self.willing > 0,
        }
    }

    /// Adds a member, if there is a place.
    pub(crate) fn insert(&mut self, now: Time, join: Join, ramp: u8) -> Option<WorkerId> {
        let index = (0..self.all.len()).find(|index| !self.members.contains(*index))?;
        let worker = &mut self.all[index];
        *worker = Worker {
            generation: worker.generation.wrapping_add(1),
            identity: join.identity,
            bound: join.bound,
            weight: join.weight.clamp(1, 100),
            ramp,
            ramp_from: now,
            heard_at: now,
            quiet_since: now,
            probe_wait: self.probe_after,
            look_at: worker.look_at,
            ..Worker::vacant()
        };
        self.members.insert(index);
        self.turns[index] = 0;
        self.update(index);
        Some(self.id(index))
    }

    /// Removes a member. Returns how many requests it had.
    pub(crate) fn remove(&mut self, index: usize) -> u64 {
        let outstanding = self.all[index].account.outstanding();
        self.outstanding -= outstanding;
        if self.primary == Some(self.id(index)) {
            self.primary = None;
        }
        self.ejected -= usize::from(self.all[index].ejected_until.take().is_some());
        self.all[index].is_leaving = true;
        self.update(index);
        self.members.remove(index);
        outstanding
    }

    /// Restores what follows from a worker's settings.
    pub(crate) fn update(&mut self, index: usize) {
        let bound = self.policy.bound;
        // A vacant place, and one that was left, have a limit of 0, and are not willing.
        let before = self.counted(index);
        self.all[index].update(bound);
        let after = self.counted(index);
        self.shares = self.shares - before.0 + after.0;
        self.usable_outstanding = self.usable_outstanding - before.1 + after.1;
        self.usable = self.usable + usize::from(after.0 > 0) - usize::from(before.0 > 0);
        let worker = &mut self.all[index];
        let is_willing = worker.is_willing();
        let was_willing = core::mem::replace(&mut worker.was_willing, is_willing);
        self.willing = self.willing + usize::from(is_willing) - usize::from(was_willing);
        self.refresh(index);
    }

    /// What a worker adds to the sums of shares and of what is outstanding at usable ones.
    fn counted(&self, index: usize) -> (u64, u64) {
        let worker = &self.all[index];
        if worker.limit > 0 { (worker.share.into(), worker.account.outstanding()) } else { (0, 0) }
    }

    /// Restores what follows from a worker's slots.
    #[inline]
    pub(crate) fn refresh(&mut self, index: usize) {
        let worker = &mut self.all[index];
        let is_free = worker.has_slot();
        if is_free != worker.is_free {
            worker.is_free = is_free;
            match is_free {
                true => self.free.insert(index),
                false => self.free.remove(index),
            }
        }
        let is_idle = is_free && worker.account.outstanding() == 0;
        self.idle = self.idle + usize::from(is_idle) - usize::from(worker.is_idle);
        worker.is_idle = is_idle;
        if let Some(levels) = &mut self.levels {
            levels.place(index, is_free.then(|| worker.load()));
        }
    }

    /// Counts a request that a worker gets now. Returns the request's number.
    #[inline]
    pub(crate) fn give(&mut self, now: Time, index: usize) -> u64 {
        let number = self.all[index].give(now, self.probe_after);
        self.outstanding += 1;
        // Only who has a limit gets one.
        self.usable_outstanding += 1;
        self.refresh(index);
        number
    }

    /// Counts requests that others have given to a worker.
    pub(crate) fn learn_given(&mut self, now: Time, index: usize, numbers: u64) {
        self.all[index].learn_given(now, numbers, self.probe_after);
        self.outstanding += numbers;
        if self.all[index].limit > 0 {
            self.usable_outstanding += numbers;
        }
        self.refresh(index);
    }

    /// Takes what a worker tells, and which is newer than the newest.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        now: Time,
        index: usize,
        told: &WorkerCounts,
    ) -> Result<u64, WrongCounts> {
        let settled = self.all[index].learn(now, told, self.probe_after)?;
        self.outstanding -= settled;
        if self.all[index].limit > 0 {
            self.usable_outstanding -= settled;
        }
        self.refresh(index);
        Ok(settled)
    }

    /// Counts a probe that is sent now. Returns its number.
    pub(crate) fn probe(&mut self, now: Time, index: usize, wait_max: Duration) -> u64 {
        self.outstanding += 1;
        self.usable_outstanding += u64::from(self.all[index].limit > 0);
        let number = self.all[index].probe(now, wait_max);
        self.refresh(index);
        number
    }

    /// The primary's place, if it has a slot.
    #[inline]
    pub(crate) fn free_primary(&self) -> Option<usize> {
        let index = self.index(self.primary?)?;
        self.all[index].is_free.then_some(index)
    }
}

/// Levels for a policy that compares all loads.
fn levels(policy: Policy, places: usize) -> Option<Levels> {
    let levels = usize::from(policy.bound.of(BOUND_MAX)) + 1;
    let levels = levels.clamp(LEVELS_MIN, CAPACITY_MAX);
    (policy.rule == Rule::ShortestQueue).then(|| Levels::new(places, levels))
}
