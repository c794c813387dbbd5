//! Tracks which transmit slots belong to the provider and which to us.
//!
//! Slots are used cyclically: `tail..head` belong to the provider. Only one packet per interval
//! reports its completion. If completions come in order (`FI_ORDER_STRICT`), a report frees its
//! slot and all before it; otherwise every packet reports for itself, in any order.
//!
//! Positions only grow (up to 2^64 packets); the slot of a position is its remainder.

/// The circular queue of transmit slots.
pub(crate) struct TxRing {
    /// The oldest position that belongs to the provider, if it is below `head`.
    tail: u64,
    /// The next position to use.
    head: u64,
    /// By slot: completed, but an older one is not. Only used without order.
    done: Vec<bool>,
    interval: u64,
    ordered: bool,
}

impl TxRing {
    /// With `slots` slots, at least 1. With `ordered`, one packet per `interval` reports.
    pub(crate) fn new(slots: u32, interval: u32, ordered: bool) -> TxRing {
        // Several intervals fit, so that the provider's queue does not run empty while we wait for
        // a report.
        let interval = if ordered { interval.clamp(1, (slots / 4).max(1)) } else { 1 };
        let done = vec![false; slots as usize];
        TxRing { tail: 0, head: 0, done, interval: interval.into(), ordered }
    }

    /// The next slot and whether its packet must report, if one belongs to us.
    #[inline]
    pub(crate) fn next(&self) -> Option<(usize, bool)> {
        if self.head - self.tail == self.done.len() as u64 {
            return None;
        }
        let reports = (self.head + 1).is_multiple_of(self.interval);
        Some(((self.head % self.done.len() as u64) as usize, reports))
    }

    /// Gives the slot that `next` returned to the provider.
    #[inline]
    pub(crate) fn push(&mut self) {
        self.head += 1;
    }

    /// The packet in `slot` has left, and its slot belongs to us again.
    ///
    /// # Panics
    /// If the slot does not belong to the provider.
    pub(crate) fn complete(&mut self, slot: usize) {
        let slots = self.done.len() as u64;
        let distance = (slot as u64 + slots - self.tail % slots) % slots;
        assert!(distance < self.head - self.tail, "a completed slot is in use");
        if self.ordered {
            self.tail += distance + 1;
            return;
        }
        self.done[slot] = true;
        while self.tail < self.head && self.done[(self.tail % slots) as usize] {
            self.done[(self.tail % slots) as usize] = false;
            self.tail += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all available slots. Returns each with whether it reports.
    fn fill(ring: &mut TxRing) -> Vec<(usize, bool)> {
        std::iter::from_fn(|| ring.next().inspect(|_| ring.push())).collect()
    }

    #[test]
    fn an_ordered_report_frees_everything_before_it() {
        let mut ring = TxRing::new(8, 2, true);
        let slots = fill(&mut ring);
        let reporting: Vec<_> = slots.iter().filter(|slot| slot.1).map(|slot| slot.0).collect();
        assert_eq!((slots.len(), reporting), (8, vec![1, 3, 5, 7]));
        ring.complete(5);
        let freed: Vec<_> = fill(&mut ring).iter().map(|slot| slot.0).collect();
        assert_eq!(freed, [0, 1, 2, 3, 4, 5]);
        ring.complete(7);
        assert_eq!(fill(&mut ring).len(), 2);
    }

    #[test]
    fn unordered_reports_free_what_is_complete_from_the_oldest_on() {
        let mut ring = TxRing::new(4, 16, false);
        assert!(fill(&mut ring).iter().all(|slot| slot.1));
        ring.complete(1);
        assert_eq!(ring.next(), None);
        ring.complete(0);
        assert_eq!(fill(&mut ring), [(0, true), (1, true)]);
        for slot in [3, 0, 1, 2] {
            ring.complete(slot);
        }
        assert_eq!(fill(&mut ring).len(), 4);
    }

    #[test]
    fn there_are_several_reports_in_a_circle() {
        let mut ring = TxRing::new(16, 1000, true);
        assert_eq!(fill(&mut ring).iter().filter(|slot| slot.1).count(), 4);
        let mut ring = TxRing::new(1, 0, true);
        assert_eq!(fill(&mut ring), [(0, true)]);
        ring.complete(0);
        assert_eq!(ring.next(), Some((0, true)));
    }

    #[test]
    #[should_panic(expected = "a completed slot is in use")]
    fn a_report_for_a_slot_of_ours_is_a_broken_provider() {
        let mut ring = TxRing::new(4, 1, true);
        ring.push();
        ring.complete(1);
    }
}
