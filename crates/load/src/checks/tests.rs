//! Arrivals that are wrong in one way each are found; right ones are not, for as many seeds as the
//! p-values say.

use core::time::Duration;

use petasos_base::Rng;

use super::*;
use crate::arrivals::{Arrivals, Schedule};

const MEAN_NS: f64 = 100_000.0;

fn exponential(rng: &mut Rng) -> f64 {
    rng.exponential() * MEAN_NS
}

/// 2000 gaps, made by a function of the random numbers.
fn gaps(seed: u64, mut gap: impl FnMut(&mut Rng) -> f64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    (0..2000).map(|_| gap(&mut rng) as u64).collect()
}

fn checked(gaps: Vec<u64>) -> (f64, f64) {
    let checks = Checks::of_poisson(0.0, &[gaps]);
    (checks.p_exponential.expect("enough"), checks.p_independent.expect("enough"))
}

fn gaps_of(times: &[u64]) -> Vec<u64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn right_arrivals_fail_as_seldom_as_p_values_say() {
    let mut below = [[0; 2]; 3];
    let bounds = [0.1, 0.01, P_MIN];
    for seed in 0..4000 {
        let arrivals = Arrivals::Poisson { seed };
        let schedule = Schedule::new(&arrivals, 1000.0, Duration::from_secs(1));
        let times: Vec<u64> = schedule.expect("it is possible").collect();
        let (exponential, independent) = checked(gaps_of(&times));
        for (count, bound) in below.iter_mut().zip(bounds) {
            count[0] += usize::from(exponential < bound);
            count[1] += usize::from(independent < bound);
        }
    }
    // 400, 40 and 4 are expected, with deviations of 19, 6.3 and 2. The first test errs to larger
    // p-values, by a tenth or so.
    for of in 0..2 {
        assert!((300..=460).contains(&below[0][of]), "{below:?}");
        assert!((15..=62).contains(&below[1][of]), "{below:?}");
        assert!(below[2][of] <= 12, "{below:?}");
    }
}

#[test]
fn gaps_of_another_distribution_are_found() {
    type Gap = fn(&mut Rng) -> f64;
    let distributions: [(&str, Gap); 6] = [
        ("fixed", |_| MEAN_NS),
        ("uniform", |rng| rng.below(200_000) as f64),
        ("Erlang", |rng| exponential(rng) + exponential(rng)),
        ("heavy", |rng| exponential(rng) * if rng.chance(0.1) { 5.0 } else { 0.5 }),
        ("of a timer", |rng| (exponential(rng) / 50_000.0).ceil() * 50_000.0),
        ("at least half the mean", |rng| exponential(rng).max(50_000.0)),
    ];
    for (name, gap) in distributions {
        for seed in 0..50 {
            let p = p_exponential(&gaps(seed, gap), RESOLUTION).expect("enough");
            assert!(p < P_MIN, "{name}, {seed}: {p}");
        }
    }
}

#[test]
fn requests_in_pairs_are_found_although_no_gap_below_the_resolution_is_looked_at() {
    for seed in 0..50 {
        let mut is_second = false;
        let paired = gaps(seed, |rng| {
            is_second = !is_second;
            if is_second { 10.0 } else { exponential(rng) * 2.0 }
        });
        assert!(checked(paired).0 < P_MIN);
    }
}

#[test]
fn what_sending_takes_is_not_held_against_arrivals() {
    for seed in 0..50 {
        // A sender that needs a tenth of the mean gap for each request.
        let mut free_at = 0.0;
        let mut due = 0.0;
        let mut sent_before = 0.0;
        let gaps = gaps(seed, |rng| {
            due += exponential(rng);
            let sent = f64::max(due, free_at);
            free_at = sent + 0.1 * MEAN_NS;
            let gap = sent - sent_before;
            sent_before = sent;
            gap
        });
        let strict = p_exponential(&gaps, 0.0).expect("enough");
        assert!(strict < P_MIN, "a test of all gaps would refuse this: {strict}");
        assert!(checked(gaps).0 >= P_MIN);
    }
}

#[test]
fn correlated_gaps_are_found_although_they_are_exponential() {
    for seed in 0..50 {
        // Each gap is the one before with a probability of 0.3.
        let mut last = 0.0;
        let sticky = gaps(seed, |rng| {
            if last == 0.0 || !rng.chance(0.3) {
                last = exponential(rng);
            }
            last
        });
        assert!(checked(sticky).1 < P_MIN);
        // Long after short and short after long: pairs are in order.
        let mut held = None;
        let ordered = gaps(seed, |rng| match held.take() {
            Some(longer) => longer,
            None => {
                let (one, other) = (exponential(rng), exponential(rng));
                held = Some(f64::max(one, other));
                f64::min(one, other)
            }
        });
        let (p_exponential, p_independent) = checked(ordered);
        assert!(p_exponential >= P_MIN && p_independent < P_MIN, "{seed}");
    }
}

#[test]
fn a_rate_that_varies_slowly_is_found() {
    let mut found = 0;
    for seed in 0..50 {
        let mut index = 0.0;
        let waves = gaps(seed, |rng| {
            index += 1.0;
            exponential(rng) * (1.0 + 0.5 * f64::sin(index / 50.0))
        });
        found += usize::from(checked(waves).1 < P_MIN);
    }
    assert!(found >= 49, "{found}");
}

#[test]
fn equal_gaps_are_neither_exponential_nor_independent() {
    assert_eq!(checked(vec![0; 2000]), (0.0, 0.0));
    assert_eq!(checked(vec![7; 2000]), (0.0, 0.0));
}

#[test]
fn too_few_gaps_tell_nothing() {
    let checks = Checks::of_poisson(0.0, &[vec![7; GAPS_MIN - 1]]);
    assert_eq!((checks.p_exponential, checks.p_independent), (None, None));
}

#[test]
fn a_rate_is_compared_with_the_scheduled_one() {
    let slow = rate_error(1000, (0, 1_020_000_000), (0, 1_000_000_000));
    assert!((slow + 0.0196).abs() < 1e-4 && slow.abs() > RATE_ERROR_MAX, "{slow}");
    let fast = rate_error(1000, (500, 980_000_500), (0, 1_000_000_000));
    assert!((fast - 0.0204).abs() < 1e-4 && fast > RATE_ERROR_MAX, "{fast}");
    assert_eq!(rate_error(1, (3, 3), (0, 0)), 0.0);
}
