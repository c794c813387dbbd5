//! The highest load that meets an objective.

/// What a search has found, in requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Highest {
    /// The highest load that was tried and met the objective.
    pub met: Option<f64>,
    /// The lowest load that was tried and did not, if any.
    pub missed: Option<f64>,
}

/// Loads that are closer than this part of each other are not told apart.
const PRECISION: f64 = 0.01;

/// Searches for the highest load from `low` to `high` for which `meets` says yes, by bisection with
/// at most `tries` loads. Latencies grow with the load, so if one load meets the objective, lower
/// ones are taken to meet it, too.
///
/// # Errors
/// Those of `meets`, at once.
pub fn highest_load<E>(
    (low, high): (f64, f64),
    tries: u32,
    mut meets: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Highest, E> {
    let mut found = Highest { met: None, missed: None };
    let next = |found: &Highest| match (found.met, found.missed) {
        (None, None) => Some(low),
        (Some(met), None) if met < high => Some(high),
        (Some(met), Some(missed)) if missed - met > PRECISION * met => Some((met + missed) / 2.0),
        _ => None,
    };
    for _ in 0..tries {
        let Some(load) = next(&found) else { break };
        match meets(load)? {
            true => found.met = Some(load),
            false => found.missed = Some(load),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches from 100 to 900 where loads up to `most` meet the objective.
    fn search(most: f64, tries: u32) -> (Highest, Vec<f64>) {
        let mut tried = Vec::new();
        let found = highest_load((100.0, 900.0), tries, |load| {
            tried.push(load);
            Ok::<_, ()>(load <= most)
        });
        (found.expect("nothing fails"), tried)
    }

    #[test]
    fn the_highest_is_found_between_the_ends() {
        let (found, tried) = search(333.0, 50);
        let (met, missed) = (found.met.expect("some do"), found.missed.expect("some do not"));
        assert!(met <= 333.0 && missed > 333.0 && missed - met <= 0.01 * met, "{found:?}");
        assert_eq!(tried[..4], [100.0, 900.0, 500.0, 300.0]);
        assert!(tried.len() <= 11, "{tried:?}");
    }

    #[test]
    fn ends_are_enough_if_they_say_it_all() {
        assert_eq!(search(50.0, 9), (Highest { met: None, missed: Some(100.0) }, vec![100.0]));
        let all = Highest { met: Some(900.0), missed: None };
        assert_eq!(search(1000.0, 9), (all, vec![100.0, 900.0]));
    }

    #[test]
    fn tries_are_bounded() {
        assert_eq!(search(333.0, 3).1.len(), 3);
        let failed = highest_load((1.0, 2.0), 3, |_| Err("lost"));
        assert_eq!(failed, Err("lost"));
    }
}
