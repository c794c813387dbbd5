//! Runs the engines of a datapath.

use std::sync::Arc;

use petasos_base::Time;

use super::{Datapath, Placed, Turn};
use crate::queue::Queue;
use crate::work::{Declared, Lane, Work};
use crate::{BATCH_MAX, Declare, Direction, FieldError, MethodId, Schema};

impl Datapath {
    /// Lets each engine work that has items or whose time has come: along the chain and back, so
    /// that an item can pass all engines in one run, whichever way it goes.
    pub fn run(&mut self, now: Time) -> Turn {
        self.run_each(|datapath, place| datapath.run_engine(place, now).is_some())
    }

    /// The same, and measures by a clock what each engine costs that works
    /// ([`crate::EngineCounts::sampled_ns`]).
    pub fn run_sampled(&mut self, now: Time, clock: &dyn Fn() -> Time) -> Turn {
        let mut before = clock();
        self.run_each(|datapath, place| {
            let items = datapath.run_engine(place, now);
            let after = clock();
            let nanos = after.nanos_since(std::mem::replace(&mut before, after));
            let Some(items) = items.filter(|items| *items > 0) else { return items.is_some() };
            let counts = &mut datapath.chain[place].counts;
            counts.sampled_ns += nanos;
            counts.sampled_items += u64::from(items);
            true
        })
    }

    fn run_each(&mut self, mut run: impl FnMut(&mut Datapath, usize) -> bool) -> Turn {
        let mut has_worked = false;
        for place in (0..self.chain.len()).chain((0..self.chain.len()).rev()) {
            has_worked |= run(self, place);
        }
        let wake_at = self.chain.iter().map(|placed| placed.wake_at).min();
        Turn {
            has_worked,
            has_more: (0..self.chain.len()).any(|place| self.has_items(place)),
            wake_at: wake_at.unwrap_or(Time::NEVER),
        }
    }

    fn has_items(&self, place: usize) -> bool {
        let [outbound, inbound] = &self.queues;
        !outbound[place].is_empty() || !inbound[place + 1].is_empty()
    }

    /// Lets an engine work that has something to do. Says how many items it took.
    fn run_engine(&mut self, place: usize, now: Time) -> Option<u32> {
        if !self.has_items(place) && now < self.chain[place].wake_at {
            return None;
        }
        let before = self.items.in_use();
        let Placed { key, engine, wake_at, counts, .. } = &mut self.chain[place];
        let [outbound, inbound] = &mut self.queues;
        let mut work = Work {
            items: &mut self.items,
            lanes: [
                lane(outbound, place, Direction::Outbound),
                lane(inbound, place, Direction::Inbound),
            ],
            engine: *key,
            wake_at: Time::NEVER,
            now,
            runtime: self.runtime,
            rng: &mut self.rng,
            ended: 0,
        };
        engine.work(&mut work);
        *wake_at = work.wake_at;
        let items = work.lanes.iter().map(|lane| BATCH_MAX - lane.left).sum();
        counts.items += u64::from(items);
        counts.ended += u64::from(work.ended);
        // Streams that were ended have made items.
        self.counts.entered += (self.items.in_use() - before) as u64;
        Some(items)
    }
}

/// The queues beside the engine at `place`.
fn lane(queues: &mut [Queue], place: usize, direction: Direction) -> Lane<'_> {
    let (front, back) = queues.split_at_mut(place + 1);
    let (front, back) = (&mut front[place], &mut back[0]);
    let (input, output) = match direction {
        Direction::Outbound => (front, back),
        Direction::Inbound => (back, front),
    };
    Lane { input, output, left: BATCH_MAX }
}

/// Tells an engine of a method. If it refuses that, what it has declared of it is forgotten.
pub(super) fn declare(
    placed: &mut Placed,
    method: MethodId,
    name: &Arc<str>,
    declared: &mut Vec<Declared>,
    schema: &mut dyn Schema,
) -> Result<(), FieldError> {
    let engine = placed.key;
    placed.engine.method(method, name, &mut Declare { engine, method, name, declared, schema })
}
