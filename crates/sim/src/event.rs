//! The deterministic event queue: events leave by time, and at one time in the order of entry.

use core::cmp::Ordering;
use core::fmt;
use std::collections::BinaryHeap;

use petasos_base::Time;

/// A bounded queue of future events.
///
/// The order depends on nothing but the times and the order of [`EventQueue::push`] calls, so a
/// simulation driven by it replays exactly.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    events_max: usize,
    pushed: u64,
}

impl<E> EventQueue<E> {
    /// An empty queue that holds at most `events_max` events.
    pub fn new(events_max: usize) -> EventQueue<E> {
        EventQueue { heap: BinaryHeap::new(), events_max, pushed: 0 }
    }

    /// Adds an event at `time`, after those already queued for the same time.
    ///
    /// # Errors
    /// [`QueueFull`] when the queue holds its maximum; the event is dropped.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) -> Result<(), QueueFull> {
        if self.heap.len() >= self.events_max {
            return Err(QueueFull);
        }
        let key = (u128::from(time.as_nanos()) << 64) | u128::from(self.pushed);
        self.pushed += 1;
        self.heap.push(Entry { key, event });
        Ok(())
    }

    /// The time of the next event, [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, Entry::time)
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.time(), entry.event))
    }

    /// Events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

/// The event queue holds its maximum: whoever chose the bound chose it too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the event queue is full")
    }
}

impl std::error::Error for QueueFull {}

/// `key` is the time in its upper and the sequence number in its lower half: one comparison.
#[derive(Debug)]
struct Entry<E> {
    key: u128,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    fn time(&self) -> Time {
        Time::from_nanos((self.key >> 64) as u64)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, because the heap gives its greatest element first.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petasos_base::Rng;

    #[test]
    fn events_leave_by_time_and_then_by_entry() {
        let mut rng = Rng::new(1);
        let mut queue = EventQueue::new(1000);
        let mut expected: Vec<(u64, usize)> = (0..1000).map(|i| (rng.below(50), i)).collect();
        for &(time, number) in &expected {
            queue.push(Time::from_nanos(time), number).unwrap();
        }
        expected.sort_unstable();
        let left: Vec<_> =
            core::iter::from_fn(|| queue.pop()).map(|(time, n)| (time.as_nanos(), n)).collect();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut queue = EventQueue::new(1);
        assert_eq!(queue.next_time(), Time::NEVER);
        queue.push(Time::from_nanos(5), 'a').unwrap();
        assert_eq!(queue.push(Time::from_nanos(1), 'b'), Err(QueueFull));
        assert_eq!(queue.pop(), Some((Time::from_nanos(5), 'a')));
        assert!(queue.is_empty() && queue.push(Time::ZERO, 'c').is_ok());
    }
}
