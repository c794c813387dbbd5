//! Alternating turns of Petasos and its floors, and the ratios within each pair of turns.
//!
//! Machines are noisy: a single turn varies by a factor of three. Both sides of one pair see about
//! the same noise. So the ratio is computed within each pair, and the median of the ratios is
//! reported.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the turns measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// A latency in microseconds: lower is better.
    LatencyUs,
    /// Operations per second: higher is better.
    OpsPerS,
    /// Gigabits of payload per second: higher is better.
    GbitPerS,
}

impl Quantity {
    /// The unit, as tables and axes show it.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::LatencyUs => "µs",
            Quantity::OpsPerS => "1/s",
            Quantity::GbitPerS => "Gbit/s",
        }
    }

    /// True when `left` is the better measurement of the two.
    fn is_better(self, left: f64, right: f64) -> bool {
        match self {
            Quantity::LatencyUs => left < right,
            Quantity::OpsPerS | Quantity::GbitPerS => left > right,
        }
    }
}

/// The turns of one experiment: each pair is one turn of Petasos and one of every floor.
#[derive(Clone, Debug)]
pub struct Pairs {
    quantity: Quantity,
    floor_names: Vec<String>,
    records: Vec<PairRecord>,
    refused: u64,
}

/// One pair of turns: Petasos and every floor, in the experiment's quantity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Petasos's value.
    pub petasos: f64,
    /// Each floor's value by its name.
    pub floors: BTreeMap<String, f64>,
}

/// Ratios of Petasos to one floor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median of the pairs' ratios: the number to report.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Pairs measured.
    pub count: usize,
}

/// A pair without a usable ratio: one of the caller's turns went wrong. Repeat the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// The caller passed another number of floors than it declared.
    #[error("{given} floors were measured in this pair, {declared} were declared")]
    FloorCount {
        /// Floors declared in [`Pairs::new`].
        declared: usize,
        /// Floors in this pair.
        given: usize,
    },
    /// Petasos's value is negative, infinite or not a number.
    #[error("the Petasos turn measured nothing")]
    Petasos,
    /// A floor's value is zero, negative, infinite or not a number: no ratio to it exists.
    #[error("the turn of floor number {index} measured nothing")]
    Floor {
        /// The floor's place in the list of names.
        index: usize,
    },
}

impl Pairs {
    /// No pairs yet, for Petasos and the named floors.
    pub fn new<I>(quantity: Quantity, floor_names: I) -> Pairs
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let floor_names = floor_names.into_iter().map(Into::into).collect();
        Pairs { quantity, floor_names, records: Vec::new(), refused: 0 }
    }

    /// Adds one pair: Petasos's value and each floor's, in the order of the names.
    ///
    /// # Errors
    /// Refuses and counts a pair of which no ratio can be formed. A Petasos turn without a single
    /// operation is a legitimate rate of 0, a floor turn without one is not.
    pub fn push(&mut self, petasos: f64, floors: &[f64]) -> Result<(), PairError> {
        if let Err(error) = self.check(petasos, floors) {
            self.refused += 1;
            return Err(error);
        }
        let floors = self.floor_names.iter().cloned().zip(floors.iter().copied()).collect();
        self.records.push(PairRecord { petasos, floors });
        Ok(())
    }

    /// What the turns measure.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// Pairs added.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Pairs refused by [`Pairs::push`].
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Every pair, in the order of measurement.
    pub fn records(&self) -> &[PairRecord] {
        &self.records
    }

    /// The median of Petasos's turns; `None` without pairs.
    pub fn petasos_median(&self) -> Option<f64> {
        median(self.records.iter().map(|record| record.petasos))
    }

    /// The median of a floor's turns; `None` without pairs or for an unknown name.
    pub fn floor_median(&self, name: &str) -> Option<f64> {
        median(self.records.iter().filter_map(|record| record.floors.get(name).copied()))
    }

    /// The ratios of Petasos to the floor `name`; `None` without pairs or for an unknown name.
    pub fn ratio(&self, name: &str) -> Option<Ratio> {
        let ratios: Vec<f64> = self
            .records
            .iter()
            .filter_map(|record| Some(record.petasos / record.floors.get(name)?))
            .collect();
        Some(Ratio {
            median: median(ratios.iter().copied())?,
            min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            count: ratios.len(),
        })
    }

    /// The one of the named floors with the best median: the hardest to compare with.
    pub fn best_floor<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let measured =
            names.iter().filter_map(|&name| self.floor_median(name).map(|value| (name, value)));
        measured
            .reduce(|best, next| if self.quantity.is_better(next.1, best.1) { next } else { best })
            .map(|(name, _)| name)
    }

    fn check(&self, petasos: f64, floors: &[f64]) -> Result<(), PairError> {
        if floors.len() != self.floor_names.len() {
            let declared = self.floor_names.len();
            return Err(PairError::FloorCount { declared, given: floors.len() });
        }
        if !petasos.is_finite() || petasos < 0.0 {
            return Err(PairError::Petasos);
        }
        match floors.iter().position(|value| !value.is_finite() || *value <= 0.0) {
            Some(index) => Err(PairError::Floor { index }),
            None => Ok(()),
        }
    }
}

/// The middle value, or the mean of the two middle ones; `None` of nothing.
///
/// Order is total, so that values which are not numbers sort to the ends and cannot panic.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(pairs: &[(f64, f64)]) -> Pairs {
        let mut rates = Pairs::new(Quantity::OpsPerS, ["floor"]);
        for &(petasos, floor) in pairs {
            rates.push(petasos, &[floor]).expect("the test's pairs are sound");
        }
        rates
    }

    #[test]
    fn the_median_of_odd_even_and_no_values() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([7.0]), Some(7.0));
        assert_eq!(median([]), None);
    }

    #[test]
    fn the_median_of_ratios_is_not_the_ratio_of_medians() {
        let ratio = rates(&[(1.0, 2.0), (10.0, 10.0), (30.0, 100.0)]).ratio("floor");
        assert_eq!(ratio, Some(Ratio { median: 0.5, min: 0.3, max: 1.0, count: 3 }));
    }

    #[test]
    fn an_even_number_of_pairs_takes_the_mean_of_the_middle_ratios() {
        let pairs = rates(&[(1.0, 4.0), (1.0, 2.0), (1.0, 1.0), (4.0, 1.0)]);
        assert_eq!(pairs.ratio("floor").map(|ratio| ratio.median), Some(0.75));
    }

    #[test]
    fn without_pairs_there_is_nothing_to_report() {
        let pairs = rates(&[]);
        assert_eq!(pairs.ratio("floor"), None);
        assert_eq!(pairs.petasos_median(), None);
        assert_eq!(pairs.best_floor(&["floor"]), None);
        assert_eq!(rates(&[(1.0, 1.0)]).ratio("unknown"), None);
    }

    #[test]
    fn a_pair_without_a_ratio_is_refused_and_counted() {
        let mut pairs = Pairs::new(Quantity::OpsPerS, ["gso", "single"]);
        let wrong_count = PairError::FloorCount { declared: 2, given: 1 };
        assert_eq!(pairs.push(1.0, &[1.0]), Err(wrong_count));
        assert_eq!(pairs.push(f64::NAN, &[1.0, 1.0]), Err(PairError::Petasos));
        assert_eq!(pairs.push(1.0, &[1.0, 0.0]), Err(PairError::Floor { index: 1 }));
        assert_eq!(pairs.push(1.0, &[f64::INFINITY, 1.0]), Err(PairError::Floor { index: 0 }));
        assert_eq!((pairs.count(), pairs.refused()), (0, 4));
    }

    #[test]
    fn a_petasos_turn_without_operations_counts_as_zero() {
        assert_eq!(rates(&[(0.0, 5.0)]).ratio("floor").map(|ratio| ratio.median), Some(0.0));
    }

    #[test]
    fn the_best_floor_is_the_fastest() {
        for (quantity, best) in [(Quantity::OpsPerS, "32"), (Quantity::LatencyUs, "16")] {
            let mut pairs = Pairs::new(quantity, ["16", "32", "single"]);
            pairs.push(1.0, &[5.0, 9.0, 0.5]).expect("sound");
            pairs.push(1.0, &[6.0, 8.0, 0.5]).expect("sound");
            assert_eq!(pairs.best_floor(&["16", "32"]), Some(best));
        }
    }
}
