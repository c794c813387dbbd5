//! The deterministic event queue: events are taken in the order of their times, and at one time in
//! the order of insertion.
//!
//! Almost every event lies within a few microseconds of the present. So the queue is a wheel with
//! one slot per nanosecond for the near future, and a heap for the rest. Invariants, with `base`
//! the time of the last event taken: the wheel has exactly the events in `base..base + SLOTS`, the
//! heap the later ones. An event moves from the heap to the wheel as soon as its time comes within
//! reach, hence before any event that is inserted later for the same time; that keeps the order of
//! insertion.

use core::cmp::Ordering;
use core::fmt;
use std::collections::BinaryHeap;

use petasos_base::{SLOTS_MAX, SlotLists, Time};

/// Nanoseconds of the near future: enough for a full frame at 10 Gbit/s and the usual cables.
const SLOTS: u64 = SLOTS_MAX;

/// A bounded queue of future events.
///
/// The order depends on nothing but the times and the order of [`EventQueue::push`] calls, so a
/// simulation driven by it replays exactly.
#[derive(Debug)]
pub struct EventQueue<E> {
    wheel: SlotLists<E>,
    far: BinaryHeap<Far<E>>,
    base: u64,
    events_max: usize,
    pushed: u64,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue that holds at most `events_max` events, and under 2^32.
    pub fn new(events_max: usize) -> EventQueue<E> {
        let events_max = events_max.min(u32::MAX as usize);
        let (wheel, far) = (SlotLists::new(SLOTS), BinaryHeap::new());
        EventQueue { wheel, far, base: 0, events_max, pushed: 0 }
    }

    /// Adds an event at `time`, after those already queued for the same time.
    ///
    /// # Errors
    /// [`QueueFull`] when the queue holds its maximum; the event is dropped.
    ///
    /// # Panics
    /// If `time` is before that of the last event that left: the caller's fault.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) -> Result<(), QueueFull> {
        if self.len() >= self.events_max {
            return Err(QueueFull);
        }
        let at = time.as_nanos();
        assert!(at >= self.base, "an event lies in the future");
        if at - self.base < SLOTS {
            self.wheel.push(at, event);
        } else {
            let key = (u128::from(at) << 64) | u128::from(self.pushed);
            self.pushed += 1;
            self.far.push(Far { key, event });
        }
        Ok(())
    }

    /// The time of the next event, [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        match self.wheel.next(self.base) {
            Some(at) => Time::from_nanos(at),
            None => self.far.peek().map_or(Time::NEVER, |far| Time::from_nanos(far.at())),
        }
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        if self.is_empty() {
            return None;
        }
        let time = self.next_time();
        self.base = time.as_nanos();
        while let Some(far) = self.far.peek()
            && far.at() - self.base < SLOTS
        {
            let far = self.far.pop().expect("it was there to be seen");
            self.wheel.push(far.at(), far.event);
        }
        Some((time, self.wheel.pop(self.base)))
    }

    /// The number of queued events.
    #[inline]
    pub fn len(&self) -> usize {
        self.wheel.len() + self.far.len()
    }

    /// Whether no event is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The event queue is full: its bound was chosen too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event queue is full")
    }
}

impl std::error::Error for QueueFull {}

/// An event in the far future. `key` has its time in the upper half and the order of insertion in
/// the lower.
#[derive(Debug)]
struct Far<E> {
    key: u128,
    event: E,
}

impl<E> Far<E> {
    fn at(&self) -> u64 {
        (self.key >> 64) as u64
    }
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Far<E> {}

impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Far<E> {
    /// Reversed, because the heap returns its greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use petasos_base::Rng;

    /// Compares random pushes and pops with an ordered set, for delays of at most `reach`.
    fn against_an_oracle(seed: u64, reach: u64) {
        let mut rng = Rng::new(seed);
        let mut queue = EventQueue::new(10_000);
        let (mut oracle, mut now) = (BTreeSet::new(), 0);
        for number in 0..20_000u64 {
            if rng.chance(0.55) {
                let at = now + rng.below(reach);
                queue.push(Time::from_nanos(at), number).unwrap();
                oracle.insert((at, number));
            }
            if rng.chance(0.5) {
                let next = queue.next_time();
                let popped = queue.pop().map(|(time, number)| (time.as_nanos(), number));
                assert_eq!(popped, oracle.pop_first());
                now = popped.map_or(now, |(at, _)| at);
                assert!(popped.is_none_or(|(at, _)| at == next.as_nanos()));
            }
            assert_eq!(queue.len(), oracle.len());
        }
        let rest: Vec<_> = core::iter::from_fn(|| queue.pop()).map(|(_, number)| number).collect();
        assert_eq!(rest, oracle.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
    }

    #[test]
    fn events_leave_by_time_and_then_by_entry() {
        for (seed, reach) in [1, 3, 64, 500, 4096, 4097, 5000, 100_000].into_iter().enumerate() {
            against_an_oracle(seed as u64, reach);
        }
    }

    #[test]
    fn an_event_that_came_near_precedes_one_pushed_later() {
        let mut queue = EventQueue::new(10);
        queue.push(Time::from_nanos(5000), 'a').unwrap();
        queue.push(Time::from_nanos(1000), 'b').unwrap();
        assert_eq!(queue.pop(), Some((Time::from_nanos(1000), 'b')));
        queue.push(Time::from_nanos(5000), 'c').unwrap();
        assert_eq!(queue.pop(), Some((Time::from_nanos(5000), 'a')));
        assert_eq!(queue.pop(), Some((Time::from_nanos(5000), 'c')));
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut queue = EventQueue::new(2);
        assert_eq!(queue.next_time(), Time::NEVER);
        queue.push(Time::from_nanos(5), 'a').unwrap();
        queue.push(Time::from_nanos(1 << 40), 'b').unwrap();
        assert_eq!(queue.push(Time::from_nanos(6), 'c'), Err(QueueFull));
        assert_eq!(queue.pop(), Some((Time::from_nanos(5), 'a')));
        assert_eq!(queue.pop(), Some((Time::from_nanos(1 << 40), 'b')));
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    #[should_panic(expected = "an event lies in the future")]
    fn the_past_is_refused() {
        let mut queue = EventQueue::new(2);
        queue.push(Time::from_nanos(5), ()).unwrap();
        queue.pop();
        _ = queue.push(Time::from_nanos(4), ());
    }
}
