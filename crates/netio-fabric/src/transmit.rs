//! Tracks who has which transmit slot.
//!
//! A slot is free, or it is taken and its message is being filled or waits for room, or it belongs
//! to the provider from [`TxSlots::hand_over`] until its message has left. Only one message per
//! interval reports that. If reports come in order (`FI_ORDER_STRICT`), one frees its slot and all
//! that were handed over before it; otherwise every message reports for itself, in any order.

use std::collections::VecDeque;

/// The transmit slots.
pub(crate) struct TxSlots {
    free: Vec<usize>,
    /// Slots of the provider, in the order in which they were handed over. Never more than there
    /// are slots, for which it has room.
    flying: VecDeque<usize>,
    /// Messages handed over since the last that reports.
    unreported: u32,
    interval: u32,
    ordered: bool,
}

impl TxSlots {
    /// With `slots` slots, at least 1. With `ordered`, one message per `interval` reports.
    pub(crate) fn new(slots: usize, interval: u32, ordered: bool) -> TxSlots {
        // Several intervals fit, so that the provider's queue does not run empty while we wait for
        // a report.
        let interval_max = u32::try_from(slots / 4).unwrap_or(u32::MAX).max(1);
        TxSlots {
            free: (0..slots).rev().collect(),
            flying: VecDeque::with_capacity(slots),
            unreported: 0,
            interval: if ordered { interval.clamp(1, interval_max) } else { 1 },
            ordered,
        }
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Frees a slot that was taken and not handed over.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// Whether the message that is handed over next must report.
    #[inline]
    pub(crate) fn reports_next(&self) -> bool {
        self.unreported + 1 >= self.interval
    }

    /// Gives a slot that was taken to the provider.
    #[inline]
    pub(crate) fn hand_over(&mut self, slot: usize) {
        self.unreported = if self.reports_next() { 0 } else { self.unreported + 1 };
        self.flying.push_back(slot);
    }

    /// The message in `slot` has left.
    ///
    /// # Panics
    /// If the slot does not belong to the provider.
    pub(crate) fn complete(&mut self, slot: usize) {
        let at = self.flying.iter().position(|flying| *flying == slot);
        let at = at.expect("a completed slot is in use");
        if self.ordered {
            self.free.extend(self.flying.drain(..=at));
        } else {
            self.flying.swap_remove_front(at);
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands over all free slots. Returns each with whether it reports.
    fn fill(slots: &mut TxSlots) -> Vec<(usize, bool)> {
        let next = || {
            let slot = slots.take()?;
            let reports = slots.reports_next();
            slots.hand_over(slot);
            Some((slot, reports))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn an_ordered_report_frees_everything_before_it() {
        let mut slots = TxSlots::new(8, 2, true);
        let handed = fill(&mut slots);
        let reporting: Vec<_> = handed.iter().filter(|slot| slot.1).map(|slot| slot.0).collect();
        assert_eq!((handed.len(), reporting), (8, vec![1, 3, 5, 7]));
        slots.complete(5);
        let mut freed: Vec<_> = fill(&mut slots).iter().map(|slot| slot.0).collect();
        freed.sort_unstable();
        assert_eq!(freed, [0, 1, 2, 3, 4, 5]);
        slots.complete(7);
        assert_eq!(fill(&mut slots).len(), 2);
    }

    #[test]
    fn without_order_each_report_frees_its_own_slot() {
        let mut slots = TxSlots::new(4, 16, false);
        assert!(fill(&mut slots).iter().all(|slot| slot.1));
        slots.complete(1);
        assert_eq!(fill(&mut slots), [(1, true)]);
        for slot in [3, 0, 1, 2] {
            slots.complete(slot);
        }
        assert_eq!(fill(&mut slots).len(), 4);
    }

    #[test]
    fn a_slot_that_was_not_handed_over_needs_no_report() {
        let mut slots = TxSlots::new(2, 1, true);
        let slot = slots.take().expect("both are free");
        slots.give_back(slot);
        assert_eq!(fill(&mut slots).len(), 2);
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn there_are_several_reports_among_all_slots() {
        let mut slots = TxSlots::new(16, 1000, true);
        assert_eq!(fill(&mut slots).iter().filter(|slot| slot.1).count(), 4);
        let mut slots = TxSlots::new(1, 0, true);
        assert_eq!(fill(&mut slots), [(0, true)]);
        slots.complete(0);
        assert_eq!(fill(&mut slots), [(0, true)]);
    }

    #[test]
    #[should_panic(expected = "a completed slot is in use")]
    fn a_report_for_a_slot_of_ours_is_a_broken_provider() {
        let mut slots = TxSlots::new(4, 1, true);
        let slot = slots.take().expect("all are free");
        slots.hand_over(slot);
        slots.complete(slot + 1);
    }
}
