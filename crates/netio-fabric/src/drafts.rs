//! Messages that are being filled, and those that wait for the provider.
//!
//! The scheduler of mRPC (section 5, feature 2), for packets instead of scatter-gather elements:
//! packets of one batch to one peer share a message, whatever session, call or application they are
//! of, in the order in which they come, and also if packets to other peers come between them.
//!
//! Each draft has a transmit slot of its own, which the caller takes for it and frees.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use petasos_netio::Route;

use crate::message::Writer;
use crate::sys::Peer;

/// Peers whose messages are filled at the same time. That of one more ends the oldest.
pub(crate) const DRAFTS_MAX: usize = 8;

/// A message to one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) route: Route,
    pub(crate) peer: Peer,
    /// Where its bytes are.
    pub(crate) slot: usize,
    pub(crate) writer: Writer,
    /// Bytes of its packets.
    pub(crate) bytes: usize,
}

/// All of them.
pub(crate) struct Drafts {
    /// At most one of each peer, the oldest first.
    open: ArrayVec<Draft, DRAFTS_MAX>,
    /// Ended; the provider has had no room for the first. Each has a slot, for which there is room.
    waiting: VecDeque<Draft>,
}

impl Drafts {
    /// For messages in so many slots.
    pub(crate) fn new(slots: usize) -> Drafts {
        Drafts { open: ArrayVec::new(), waiting: VecDeque::with_capacity(slots) }
    }

    /// Where the message to a peer is that can be added to.
    #[inline]
    pub(crate) fn find(&self, route: Route) -> Option<usize> {
        self.open.iter().position(|draft| draft.route == route)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> &mut Draft {
        &mut self.open[at]
    }

    /// Whether the message of one more peer can be begun.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.open.is_full()
    }

    /// Begins a message to a peer that has none. Returns where it is.
    #[inline]
    pub(crate) fn begin(&mut self, draft: Draft) -> usize {
        self.open.push(draft);
        self.open.len() - 1
    }

    /// Nothing is added to this one any more.
    #[inline]
    pub(crate) fn end(&mut self, at: usize) {
        self.waiting.push_back(self.open.remove(at));
    }

    /// Nothing is added to any.
    #[inline]
    pub(crate) fn end_all(&mut self) {
        self.waiting.extend(self.open.drain(..));
    }

    /// The next message for the provider.
    #[inline]
    pub(crate) fn next(&self) -> Option<Draft> {
        self.waiting.front().copied()
    }

    /// The provider has it.
    #[inline]
    pub(crate) fn pop(&mut self) {
        self.waiting.pop_front();
    }

    /// Takes out one of the messages to a peer that is not reached any more.
    pub(crate) fn drop_one(&mut self, peer: Peer) -> Option<Draft> {
        let at = self.waiting.iter().position(|draft| draft.peer == peer)?;
        self.waiting.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(number: u32) -> Draft {
        let (route, peer) = (Route(number), Peer(number.into()));
        Draft { route, peer, slot: number as usize, writer: Writer::default(), bytes: 0 }
    }

    #[test]
    fn drafts_wait_in_the_order_in_which_they_end() {
        let mut drafts = Drafts::new(16);
        for number in 0..DRAFTS_MAX as u32 {
            assert!(drafts.has_room() && drafts.find(Route(number)).is_none());
            let at = drafts.begin(draft(number));
            assert_eq!(drafts.find(Route(number)), Some(at));
        }
        assert!(!drafts.has_room());
        drafts.end(drafts.find(Route(3)).expect("it was begun"));
        assert!(drafts.has_room() && drafts.find(Route(3)).is_none());
        drafts.end_all();
        drafts.pop();
        assert_eq!(drafts.drop_one(Peer(5)).map(|draft| draft.slot), Some(5));
        assert!(drafts.drop_one(Peer(5)).is_none());
        let next = || drafts.next().inspect(|_| drafts.pop()).map(|draft| draft.slot);
        assert_eq!(std::iter::from_fn(next).collect::<Vec<_>>(), [0, 1, 2, 4, 6, 7]);
    }
}
