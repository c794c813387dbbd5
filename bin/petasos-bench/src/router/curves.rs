//! Curves of latency by load.

use petasos_report::median;

use super::side::{Contender, Kind};

/// A contender's curve.
pub struct Curve {
    contender: Contender,
    /// What all ways take together, beside what workers sleep, in microseconds.
    pub ways_us: f64,
    points: Vec<Samples>,
    /// From this load's index on, nothing is measured.
    given_up: usize,
}

/// A load, and what each round has measured there.
struct Samples {
    load: f64,
    samples: Vec<Sample>,
}

/// What a point has measured.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub p50_us: f64,
    pub p99_us: f64,
    /// Of the 99th percentile, if requests were enough.
    pub stderr_us: Option<f64>,
    pub ops_per_s: f64,
    /// Of workers, and of who is between.
    pub cpu_s_per_million: f64,
}

/// A load and its 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    pub load: f64,
    pub p99_us: f64,
    pub stderr_us: Option<f64>,
}

impl Curve {
    pub fn new(contender: Contender, loads: &[f64]) -> Curve {
        let points = loads.iter().map(|load| Samples { load: *load, samples: Vec::new() });
        Curve { contender, ways_us: 0.0, points: points.collect(), given_up: loads.len() }
    }

    pub fn name(&self) -> &'static str {
        self.contender.name
    }

    /// The router's policy, if it is one.
    pub fn policy(&self) -> Option<&'static str> {
        match self.contender.kind {
            Kind::Router(policy) => Some(policy),
            // The same choice, by another.
            Kind::Direct => Some("random"),
            _ => None,
        }
    }

    pub fn add(&mut self, index: usize, sample: Sample) {
        self.points[index].samples.push(sample);
    }

    /// The load is too high. What other rounds have found there says little.
    pub fn give_up_from(&mut self, index: usize) {
        self.given_up = self.given_up.min(index);
        self.points[index].samples.clear();
    }

    pub fn give_up_above(&mut self, index: usize) {
        self.given_up = self.given_up.min(index + 1);
    }

    pub fn is_given_up(&self, index: usize) -> bool {
        index >= self.given_up
    }

    /// The samples at a load.
    pub fn at(&self, load: f64) -> &[Sample] {
        let point = self.points.iter().find(|point| (point.load - load).abs() < 1e-9);
        point.map_or(&[], |point| &point.samples)
    }

    /// The median of a value at a load; `None` if nothing was measured.
    pub fn median_at(&self, load: f64, value: impl Fn(&Sample) -> f64) -> Option<f64> {
        median(self.at(load).iter().map(value))
    }

    /// Medians of the rounds, with their errors.
    pub fn tails(&self) -> Vec<Tail> {
        let tail = |point: &Samples| {
            let p99_us = median(point.samples.iter().map(|sample| sample.p99_us))?;
            Some(Tail { load: point.load, p99_us, stderr_us: stderr(&point.samples) })
        };
        self.points.iter().filter_map(tail).collect()
    }
}

/// The standard error of the mean of the rounds, which the median's is not far from.
fn stderr(samples: &[Sample]) -> Option<f64> {
    let squares: Option<f64> = samples.iter().map(|it| it.stderr_us.map(|it| it * it)).sum();
    Some(squares?.sqrt() / samples.len() as f64)
}

/// The highest load with at most this 99th percentile: between two that were measured, as if its
/// logarithm were a straight line. The last load if no other is too high; `None` if all are.
pub fn load_at(tails: &[Tail], objective_us: f64) -> Option<f64> {
    let beyond = tails.iter().position(|tail| tail.p99_us > objective_us);
    match beyond {
        None => tails.last().map(|tail| tail.load),
        Some(0) => None,
        Some(at) => {
            let (low, high) = (tails[at - 1], tails[at]);
            let part = (objective_us / low.p99_us).ln() / (high.p99_us / low.p99_us).ln();
            Some(low.load + part * (high.load - low.load))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tails(of: &[(f64, f64)]) -> Vec<Tail> {
        of.iter()
            .map(|(load, p99_us)| Tail { load: *load, p99_us: *p99_us, stderr_us: None })
            .collect()
    }

    #[test]
    fn the_load_at_an_objective_is_between_the_loads_around_it() {
        let curve = tails(&[(0.2, 1.0), (0.4, 10.0), (0.6, 1000.0)]);
        assert_eq!(load_at(&curve, 0.5), None);
        assert!((load_at(&curve, 100.0).expect("it is within") - 0.5).abs() < 1e-9);
        assert_eq!(load_at(&curve, 1e4), Some(0.6));
        assert_eq!(load_at(&[], 1.0), None);
    }

    #[test]
    fn medians_and_errors_are_of_all_rounds() {
        let contender = Contender { name: "direct", kind: Kind::Direct };
        let mut curve = Curve::new(contender, &[0.5, 0.9]);
        let sample = |p99_us, stderr_us| Sample {
            p50_us: 1.0,
            p99_us,
            stderr_us,
            ops_per_s: 1.0,
            cpu_s_per_million: 1.0,
        };
        for p99_us in [5.0, 3.0, 4.0] {
            curve.add(0, sample(p99_us, Some(3.0)));
        }
        let tail = Tail { load: 0.5, p99_us: 4.0, stderr_us: Some(27f64.sqrt() / 3.0) };
        assert_eq!(curve.tails(), [tail], "nothing was measured at the other load");
        curve.add(1, sample(1.0, None));
        curve.give_up_from(1);
        assert_eq!((curve.tails().len(), curve.is_given_up(0)), (1, false));
        assert!(curve.is_given_up(1));
    }
}
