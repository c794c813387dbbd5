//! A queue in which peers take turns, so that one peer's items do not delay those of others.
//!
//! Invariant: each peer is in the list once, with its queued items, oldest first. It has at least
//! one item, unless it is the only peer.

use std::collections::VecDeque;

/// Items `T` of peers named by `P`.
pub(crate) struct FairQueue<P, T> {
    /// The first is the next one to have its turn.
    peers: VecDeque<(P, VecDeque<T>)>,
}

impl<P, T> Default for FairQueue<P, T> {
    fn default() -> FairQueue<P, T> {
        FairQueue { peers: VecDeque::new() }
    }
}

impl<P: PartialEq, T> FairQueue<P, T> {
    /// Adds an item of `peer`. Most queues have items of one peer.
    pub(crate) fn push(&mut self, peer: P, item: T) {
        match self.peers.iter_mut().find(|(of, _)| *of == peer) {
            Some((_, items)) => items.push_back(item),
            None => self.peers.push_back((peer, VecDeque::from([item]))),
        }
    }

    /// The oldest item of the peer that has waited longest for its turn.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (peer, mut items) = self.peers.pop_front()?;
        let item = items.pop_front();
        let is_alone = self.peers.is_empty();
        // A peer that is alone keeps its entry, so that its memory is reused.
        if is_alone || !items.is_empty() {
            self.peers.push_back((peer, items));
        }
        if item.is_none() && !is_alone { self.pop() } else { item }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peers_items_come_in_order() {
        let mut queue = FairQueue::default();
        for round in 0..3 {
            assert_eq!(queue.pop(), None);
            (0..4).for_each(|item| queue.push(round, item));
            let items: Vec<i32> = core::iter::from_fn(|| queue.pop()).collect();
            assert_eq!(items, [0, 1, 2, 3]);
        }
    }

    #[test]
    fn peers_take_turns_however_much_one_has_put_in() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|item| queue.push(1, ("a", item)));
        (0..2).for_each(|item| queue.push(2, ("b", item)));
        queue.push(3, ("c", 0));
        let first: Vec<_> = core::iter::from_fn(|| queue.pop()).take(6).collect();
        assert_eq!(first, [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1), ("a", 2)]);
        assert_eq!(core::iter::from_fn(|| queue.pop()).count(), 97);
    }
}
