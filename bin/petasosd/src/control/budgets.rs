//! Holds engines to the budgets of their policies (E8).
//!
//! The loop measures some of its turns ([`petasos_service::Hub::turn_sampled`]). What an engine
//! takes in a second is the mean time of the items that were measured in it, times all items.

use std::collections::HashMap;
use std::time::Duration;

use petasos_base::Time;
use petasos_engine::{Application as Number, EngineCounts, Place};

use super::{Known, World};
use crate::budget::Budget;
use crate::policies::Rule;

/// How long a budget is for.
const PERIOD: Duration = Duration::from_secs(1);
/// An engine is taken out if it exceeds its budget so many times in a row. What is measured is time
/// that has passed: in one period, it may be another program that took the processor.
const TAKEN_OUT_AFTER: u32 = 3;

/// What engines had done when they were looked at last.
#[derive(Default)]
pub struct Meter {
    looked_at: Time,
    /// By application and rule: those of rules with budgets.
    engines: HashMap<(Number, u64), Measured>,
}

/// What an engine had done.
#[derive(Clone, Copy)]
struct Measured {
    counts: EngineCounts,
    budget: Budget,
    /// In how many periods in a row it has exceeded this budget.
    over: u32,
}

/// An engine that takes more than its budget.
struct Exceeded {
    number: Number,
    place: Place,
    rule: Rule,
    percent: f64,
    /// In how many periods in a row.
    over: u32,
}

impl Meter {
    /// When to look again.
    pub fn due(&self) -> Time {
        self.looked_at + PERIOD
    }
}

impl World<'_> {
    /// Looks at what engines took since the last time, if that is a period ago. Reports those that
    /// exceed their budgets, and takes them out if their rules say so.
    pub fn check_budgets(&mut self, now: Time) {
        if now < self.control.meter.due() {
            return;
        }
        for exceeded in self.exceeded(now) {
            self.note_exceeded(&exceeded);
        }
    }

    /// The engines that exceed their budgets, without those that were reported and stay.
    fn exceeded(&mut self, now: Time) -> Vec<Exceeded> {
        let before = std::mem::take(&mut self.control.meter.engines);
        let nanos = now.nanos_since(self.control.meter.looked_at);
        let (mut exceeded, mut engines) = (Vec::new(), HashMap::new());
        for (number, place, counts) in self.engines_with_budgets() {
            let datapath = self.application(number).expect("it was just there").datapath();
            let policy = datapath.policy(place).expect("likewise").clone();
            let id = self.control.known(&policy).rule.expect("its rule has a budget");
            let Some(rule) = self.control.policies().rule(id) else { continue };
            let last = before.get(&(number, id)).copied();
            let percent = last.map_or(0.0, |last| percent(&last.counts, &counts, nanos));
            let Some(budget) = rule.budget else { continue };
            let before = last.filter(|last| last.budget == budget).map_or(0, |last| last.over);
            let over = if percent > budget.percent() { before + 1 } else { 0 };
            let is_out = over >= TAKEN_OUT_AFTER && budget.over.without().is_some();
            if over == 1 || is_out {
                exceeded.push(Exceeded { number, place, rule: rule.clone(), percent, over });
            }
            engines.insert((number, id), Measured { counts, budget, over });
        }
        (self.control.meter.engines, self.control.meter.looked_at) = (engines, now);
        exceeded
    }

    fn engines_with_budgets(&self) -> Vec<(Number, Place, EngineCounts)> {
        if !self.control.policies().have_budgets() {
            return Vec::new();
        }
        let mut engines = Vec::new();
        for application in self.applications() {
            let datapath = application.datapath();
            for place in 0..datapath.len() {
                let known = datapath.policy(place).map(|policy| self.control.known(policy));
                let is_meant = known.is_some_and(|known| {
                    let rule = known.rule.and_then(|id| self.control.policies().rule(id));
                    known.made.without().is_none() && rule.is_some_and(|it| it.budget.is_some())
                });
                let counts = datapath.engine_counts(place).filter(|_| is_meant);
                engines.extend(counts.map(|counts| (application.number(), place, counts)));
            }
        }
        engines
    }

    fn note_exceeded(&mut self, exceeded: &Exceeded) {
        let Exceeded { number, place, rule, percent, over } = exceeded;
        let budget = rule.budget.expect("it was exceeded");
        let Some(application) = self.application(*number) else { return };
        let who = format!(
            "policy {} ({}) takes {percent:.3} % of a processor for `{}` ({}), more than its {} %",
            rule.id,
            rule.made.kind_name(),
            application.name(),
            number.0,
            budget.percent(),
        );
        let without = budget.over.without().filter(|_| *over >= TAKEN_OUT_AFTER);
        let Some(without) = without else {
            return eprintln!("petasosd: {who}");
        };
        // The one that is there, which an operator may have configured for this application alone.
        let policy = application.datapath().policy(*place).expect("it was just there").clone();
        let Known { made, rule } = self.control.known(&policy).clone();
        let made = made.absent(without);
        let absent = made.policy.clone();
        self.control.know(Known { made, rule });
        let application = self.application(*number).expect("it was just there");
        match application.replace(*place, absent) {
            Ok(_) => {
                eprintln!("petasosd: {who}; it is taken out, its place is {}", budget.over.name());
            }
            Err(error) => eprintln!("petasosd: {who}; it cannot be taken out: {error}"),
        }
        self.control.forget_unused();
    }
}

/// The share of a processor that an engine took, in percent.
fn percent(before: &EngineCounts, after: &EngineCounts, nanos: u64) -> f64 {
    let since = |count: fn(&EngineCounts) -> u64| count(after).saturating_sub(count(before));
    let (items, measured) = (since(|counts| counts.items), since(|counts| counts.sampled_items));
    // Of few items none may have been measured lately.
    let (took, of) = match measured {
        0 => (after.sampled_ns, after.sampled_items),
        measured => (since(|counts| counts.sampled_ns), measured),
    };
    if of == 0 || nanos == 0 {
        return 0.0;
    }
    items as f64 * (took as f64 / of as f64) / nanos as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8_what_was_measured_stands_for_all_items() {
        let counts = |items, sampled_ns, sampled_items| EngineCounts {
            items,
            sampled_ns,
            sampled_items,
            ..EngineCounts::default()
        };
        let second = 1_000_000_000;
        // 1000 ns for each of 10,000 items: 10 ms of a second.
        let share = percent(&counts(5, 50, 5), &counts(10_005, 100_050, 105), second);
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        // None was measured since: as those before.
        let share = percent(&counts(10, 20_000, 10), &counts(20, 20_000, 10), second);
        assert!((share - 0.002).abs() < 1e-9, "{share}");
        for (before, after) in [((0, 0, 0), (9, 0, 0)), ((5, 9, 3), (5, 9, 3))] {
            let [before, after] = [before, after].map(|(a, b, c)| counts(a, b, c));
            assert!(percent(&before, &after, second) == 0.0);
        }
        // An engine that was replaced by one that counts anew.
        assert!(percent(&counts(10, 10, 10), &counts(2, 2, 2), second) == 0.0);
        assert!(percent(&counts(0, 0, 0), &counts(2, 2, 2), 0) == 0.0);
    }
}
