//! Queues between engines.

/// Indexes of items, in order: a vector whose front moves. Emptied between most batches, it seldom
/// has to move anything; a ring would cost more with each item.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: Vec<u32>,
    /// What has been taken.
    taken: usize,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue::default()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.taken
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == self.taken
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        self.items.get(self.taken).copied()
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<u32> {
        match self.items.get(self.taken) {
            Some(index) => {
                self.taken += 1;
                Some(*index)
            }
            None => {
                self.items.clear();
                self.taken = 0;
                None
            }
        }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, index: u32) {
        if self.items.len() == self.items.capacity() {
            self.make_room();
        }
        self.items.push(index);
    }

    pub(crate) fn push_front(&mut self, index: u32) {
        match self.taken.checked_sub(1) {
            Some(place) => {
                self.items[place] = index;
                self.taken = place;
            }
            None => self.items.insert(0, index),
        }
    }

    /// Moves all that is in `other` to the end.
    pub(crate) fn append(&mut self, other: &mut Queue) {
        self.items.extend_from_slice(&other.items[other.taken..]);
        *other = Queue::new();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.items[self.taken..].iter().copied()
    }

    /// What has been taken makes room, if it is half of all: then it is moved over once at most.
    #[cold]
    fn make_room(&mut self) {
        if self.taken > self.items.len() / 2 {
            self.items.drain(..self.taken);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use petasos_base::Rng;

    use super::*;

    #[test]
    fn a_queue_is_a_queue() {
        let (mut queue, mut model, mut rng) = (Queue::new(), VecDeque::new(), Rng::new(3));
        for number in 0..20_000 {
            match rng.below(7) {
                0..3 => {
                    queue.push_back(number);
                    model.push_back(number);
                }
                3 => {
                    queue.push_front(number);
                    model.push_front(number);
                }
                4 if rng.chance(0.01) => {
                    let mut other = Queue::new();
                    (0..5).for_each(|number| other.push_back(number));
                    assert_eq!(other.pop_front(), Some(0));
                    queue.append(&mut other);
                    model.extend(1..5);
                    assert!(other.is_empty());
                }
                _ => assert_eq!(queue.pop_front(), model.pop_front()),
            }
            assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(queue.front(), model.front().copied());
        }
        assert!(queue.iter().eq(model));
    }

    #[test]
    fn a_queue_that_is_never_empty_does_not_grow() {
        let mut queue = Queue::new();
        queue.push_back(0);
        for number in 0..100_000 {
            queue.push_back(number);
            queue.pop_front();
        }
        assert!(queue.items.capacity() < 64);
    }
}
