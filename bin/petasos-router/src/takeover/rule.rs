//! Which of two routers is the active one: the rule, without clocks, connections and addresses.
//!
//! A router that starts stands by. It becomes active when the other one is gone or does not want to
//! be active, with a term above all that it knows; and stands by again when it hears of a higher
//! term, so that of two active ones, after a link was cut, the later one stays. Both may be active
//! meanwhile, which costs no call (ADR 41, 4).

use std::time::Duration;

use petasos_base::Time;

/// How long a router that starts waits for the other one, in which there may be nobody active.
pub const START: Duration = Duration::from_secs(1);

/// What the other router has said, as long as the connection with it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The term with which it is active; `None`: it stands by.
    pub term: Option<u32>,
}

/// What a router has to do, with the term that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Become active.
    Take(u32, Why),
    /// Stand by.
    GiveUp(u32),
}

/// Why a router becomes active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The active one cannot be reached any more.
    Gone,
    /// The other one stands by.
    StandsBy,
    /// The other one has never been reached.
    Alone,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Rule {
    /// Whether this one goes first if nothing else decides. True of one of the two.
    is_first: bool,
    /// The highest term that was heard or said.
    term: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Active,
    Standby {
        /// Whether the other one was heard to be active.
        has_heard: bool,
        /// Until when the other one is waited for, if it was not.
        until: Time,
    },
}

impl Rule {
    /// A router that starts.
    pub fn new(now: Time, is_first: bool) -> Rule {
        let state = State::Standby { has_heard: false, until: now + START };
        Rule { is_first, term: 0, state }
    }

    /// Whether it is the active one.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Active)
    }

    /// The highest term that was heard or said.
    pub fn term(&self) -> u32 {
        self.term
    }

    /// What has to be done now that the other one is seen so; `None`: it cannot be reached.
    pub fn turn(&mut self, now: Time, seen: Option<Seen>) -> Option<Change> {
        let heard = seen.and_then(|seen| seen.term);
        match &mut self.state {
            State::Active => {
                let term = heard?;
                let is_above = term > self.term || term == self.term && !self.is_first;
                is_above.then(|| self.give_up(now, term))
            }
            State::Standby { has_heard, .. } if heard.is_some() => {
                *has_heard = true;
                self.term = self.term.max(heard?);
                None
            }
            State::Standby { has_heard, until } => {
                let why = match seen {
                    Some(_) if *has_heard || self.is_first || now >= *until => Why::StandsBy,
                    None if *has_heard => Why::Gone,
                    None if now >= *until => Why::Alone,
                    _ => return None,
                };
                (self.term, self.state) = (self.term.saturating_add(1), State::Active);
                Some(Change::Take(self.term, why))
            }
        }
    }

    fn give_up(&mut self, now: Time, term: u32) -> Change {
        self.term = term;
        // If both do so at once, one of them waits.
        self.state = State::Standby { has_heard: false, until: now + START };
        Change::GiveUp(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: fn(u32) -> Option<Seen> = |term| Some(Seen { term: Some(term) });
    const STANDBY: Option<Seen> = Some(Seen { term: None });

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn who_hears_of_an_active_one_stands_by_until_it_is_gone_or_gives_up() {
        for (then, why) in [(None, Why::Gone), (STANDBY, Why::StandsBy)] {
            let mut rule = Rule::new(at(0), false);
            assert_eq!(rule.turn(at(1), None), None);
            assert_eq!(rule.turn(at(5), ACTIVE(7)), None);
            assert_eq!(rule.turn(at(50_000), ACTIVE(7)), None);
            assert_eq!(rule.turn(at(50_001), then), Some(Change::Take(8, why)));
            assert!(rule.is_active());
            assert_eq!(rule.turn(at(50_002), then), None);
        }
    }

    #[test]
    fn who_is_alone_waits_for_the_other_one_at_first() {
        let mut rule = Rule::new(at(0), true);
        assert_eq!(rule.turn(at(999), None), None);
        assert_eq!(rule.turn(at(1000), None), Some(Change::Take(1, Why::Alone)));
    }

    #[test]
    fn of_two_that_start_one_goes_first() {
        let (mut first, mut second) = (Rule::new(at(0), true), Rule::new(at(0), false));
        assert_eq!(second.turn(at(1), STANDBY), None);
        assert_eq!(first.turn(at(1), STANDBY), Some(Change::Take(1, Why::StandsBy)));
        assert_eq!(second.turn(at(2), ACTIVE(1)), None);
        assert!(!second.is_active());
        // And the second one does not wait for ever for one that does not want to.
        let mut second = Rule::new(at(0), false);
        assert_eq!(second.turn(at(1000), STANDBY), Some(Change::Take(1, Why::StandsBy)));
    }

    #[test]
    fn of_two_active_ones_the_higher_term_stays_and_of_equal_ones_the_first() {
        for (own, other, is_first, stays) in
            [(2, 1, false, true), (1, 2, true, false), (1, 1, true, true), (1, 1, false, false)]
        {
            let mut rule = Rule::new(at(0), is_first);
            if own == 2 {
                rule.turn(at(0), ACTIVE(1));
                rule.turn(at(1), None);
            }
            rule.turn(at(1000), None);
            assert!(rule.is_active() && rule.term() == own);
            let change = rule.turn(at(1001), ACTIVE(other));
            assert_eq!(change, (!stays).then_some(Change::GiveUp(other)), "{own} {other}");
            assert_eq!(rule.is_active(), stays);
        }
    }

    #[test]
    fn the_greatest_term_can_be_heard() {
        let mut rule = Rule::new(at(0), true);
        assert_eq!(rule.turn(at(1), ACTIVE(u32::MAX)), None);
        assert_eq!(rule.turn(at(2), None), Some(Change::Take(u32::MAX, Why::Gone)));
    }

    #[test]
    fn whatever_two_see_of_each_other_in_the_end_one_is_active() {
        // Each sees what the other one says, with the link between them up or down by turns.
        for seed in 0..200_u64 {
            let mut rules = [Rule::new(at(0), true), Rule::new(at(0), false)];
            let mut links = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for ms in 0..4000 {
                if ms % 50 == 0 && ms < 2000 {
                    links = links.rotate_left(7).wrapping_mul(5);
                }
                let is_up = [ms >= 2000 || links & 1 == 0, ms >= 2000 || links & 2 == 0];
                for (own, other) in [(0, 1), (1, 0)] {
                    let term = rules[other].is_active().then(|| rules[other].term());
                    let seen = is_up[own].then_some(Seen { term });
                    rules[own].turn(at(ms), seen);
                }
            }
            let active = rules.iter().filter(|rule| rule.is_active()).count();
            assert_eq!(active, 1, "seed {seed}: {rules:?}");
        }
    }
}
