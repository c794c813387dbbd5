use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What happens to a window, relative to the highest number.
#[derive(Clone, Copy, Debug)]
enum Step {
    One(i64),
    All(i64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let near = prop_oneof![8 => -200i64..200, 4 => -20_000i64..20_000, 1 => 0i64..1 << 40];
    let all = (-20_000i64..200, 0u64..20_000).prop_map(|(from, count)| Step::All(from, count));
    prop::collection::vec(prop_oneof![6 => near.prop_map(Step::One), 1 => all], 1..300)
}

/// Compares a window with a set of all numbers ever seen.
fn compare<const WORDS: usize>(steps: &[Step]) -> Result<(), TestCaseError> {
    let width = ReplayWindow::<WORDS>::WIDTH;
    let (mut window, mut seen) = (ReplayWindow::<WORDS>::new(), BTreeSet::new());
    for step in steps {
        let next = seen.last().map_or(0, |highest| highest + 1);
        prop_assert_eq!(window.next(), next);
        let oldest = next.saturating_sub(width);
        match *step {
            Step::One(step) => {
                let number = next.saturating_sub(1).saturating_add_signed(step);
                let expected = match (number < oldest, seen.contains(&number)) {
                    (true, _) => Freshness::Below,
                    (false, true) => Freshness::Seen,
                    (false, false) => Freshness::New,
                };
                prop_assert_eq!(window.freshness(number), expected, "{} of {}", number, next);
                if window.is_new(number) {
                    window.insert(number);
                    seen.insert(number);
                }
            }
            Step::All(step, count) => {
                let from = next.saturating_add_signed(step);
                let inside = from.max(oldest)..(from + count + 1).min(next);
                let new: Vec<_> = inside.filter(|number| !seen.contains(number)).collect();
                prop_assert_eq!(window.insert_all(from..=from + count), new.len() as u64);
                seen.extend(new);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(petasos_cases::kept_with(64))]

    #[test]
    fn a_number_is_new_once_within_each_width(steps in steps()) {
        compare::<{ replay_words(64) }>(&steps)?;
        compare::<{ replay_words(1024) }>(&steps)?;
        compare::<{ replay_words(4096) }>(&steps)?;
        compare::<{ replay_words(8192) }>(&steps)?;
        compare::<{ replay_words(16_384) }>(&steps)?;
    }
}

/// The edges, for each width exactly.
#[test]
fn a_window_has_a_definite_width() {
    fn check<const WORDS: usize>(width: u64) {
        assert_eq!(ReplayWindow::<WORDS>::WIDTH, width);
        for highest in [width - 1, width, 100_000, 100_031, (1 << 50) + 5] {
            let mut window = ReplayWindow::<WORDS>::new();
            window.insert(highest);
            assert_eq!(window.freshness(highest + 1 - width), Freshness::New);
            assert_eq!(window.insert_all(0..=u64::MAX), width - 1);
            for number in highest + 1 - width..=highest {
                assert_eq!(window.freshness(number), Freshness::Seen);
            }
            if highest >= width {
                assert_eq!(window.freshness(highest - width), Freshness::Below);
            }
        }
    }
    check::<{ replay_words(1024) }>(1024);
    check::<{ replay_words(4096) }>(4096);
    check::<{ replay_words(16_384) }>(16_384);
}
