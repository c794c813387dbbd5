//! Random configurations.

use std::time::Duration;

use petasos_base::Rng;
use petasos_router::{Bound, Config, Ejection, Hold, Keys, Liveness, Policy, Rule};

/// Most packets take no longer, unless they are lost.
pub const TRIP: Duration = Duration::from_millis(1);

/// A configuration in which everything happens within some hundred trips.
pub fn random(rng: &mut Rng) -> Config {
    let rules = [Rule::Random, Rule::RoundRobin, Rule::PowerOfTwo, Rule::ShortestQueue];
    let rule = rules[rng.below(8).min(3) as usize];
    let bounds = [Bound::Announced, Bound::AtMost(3)];
    let hold = Hold { requests_max: 4, time: Duration::from_micros(500) };
    let ejection = Ejection { failures_min: 3, time: TRIP * 4, ..Ejection::default() };
    let (probe_after, probe_after_max, lease) = (TRIP / 2, TRIP * 4, TRIP * 20);
    let liveness = Liveness { probe_after, probe_after_max, lease, outlive: TRIP * 60 };
    let waiting_max = [2, 10, 1000][rng.below(3) as usize];
    Config {
        policy: Policy { rule, bound: bounds[rng.below(2) as usize] },
        workers_max: [3, 8, 100][rng.below(3) as usize],
        waiting_max,
        waiting_age_max: rng.chance(0.3).then_some(TRIP * 5),
        hold: (rule == Rule::ShortestQueue && waiting_max > 2 && rng.chance(0.2)).then_some(hold),
        liveness: Some(liveness),
        slow_start: rng.chance(0.2).then_some(TRIP * 20),
        ejection: rng.chance(0.3).then_some(ejection),
        keys: Keys {
            places: rng.below(2) as u16 * 16,
            excess_percent: 25,
            least: 1 + rng.below(3) as u16,
        },
        priority_max: [0, 7, 15][rng.below(3) as usize],
    }
}
