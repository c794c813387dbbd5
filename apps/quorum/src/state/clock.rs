//! The replicated clock (QR12).

/// Counts what leaders' clocks count while they lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplicatedClock {
    pub now_ms: u64,
    /// The leader that was heard last, by its term, and how long it had led.
    pub term: u64,
    pub led_ms: u64,
}

impl ReplicatedClock {
    /// An entry says how long the leader of a term has led. It does not go back.
    pub fn hear(&mut self, term: u64, led_ms: u64) {
        let before_ms = if term == self.term { self.led_ms } else { 0 };
        self.now_ms = self.now_ms.saturating_add(led_ms.saturating_sub(before_ms));
        (self.term, self.led_ms) = (term, led_ms.max(before_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QR12.
    #[test]
    fn the_clock_stands_still_without_a_leader_and_does_not_go_back() {
        let mut clock = ReplicatedClock::default();
        let hear = |clock: &mut ReplicatedClock, term, led_ms| {
            clock.hear(term, led_ms);
            clock.now_ms
        };
        assert_eq!(hear(&mut clock, 3, 100), 100);
        assert_eq!(hear(&mut clock, 3, 250), 250);
        assert_eq!(hear(&mut clock, 3, 240), 250);
        assert_eq!(hear(&mut clock, 3, 260), 260);
        // Another leader, that has led for 5 ms, whatever its clock shows.
        assert_eq!(hear(&mut clock, 7, 5), 265);
        assert_eq!(hear(&mut clock, 7, u64::MAX), u64::MAX);
    }
}
