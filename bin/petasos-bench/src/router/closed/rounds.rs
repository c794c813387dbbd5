//! What rounds of contenders measure.

use std::time::Duration;

use petasos_base::Clock;
use petasos_load::{Target, closed_loop};
use petasos_report::median;

use super::{Point, Setting};
use crate::error::BenchError;
use crate::router::args::RouterArgs;
use crate::router::side::{Contender, Side};

/// Points, contenders and rounds.
pub struct Rounds {
    pub points: Vec<PointRounds>,
}

/// A point, and the turns of each contender, one of each round.
pub struct PointRounds {
    pub point: Point,
    pub rows: Vec<Row>,
}

/// A contender at a point.
pub struct Row {
    pub name: &'static str,
    pub turns: Vec<Turn>,
}

/// A contender's turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub p50_us: f64,
    pub p99_us: f64,
    pub ops_per_s: f64,
    /// Of who is between the client and the workers, for a million requests.
    pub between_cpu_s: Option<f64>,
    /// Of the workers.
    pub workers_cpu_s: f64,
    /// The part of calls that asked for a worker first, of those to a group.
    pub asked_first: Option<f64>,
}

/// Rounds of a point, beside one that does not count.
const ROUNDS: usize = 15;
const QUICK_ROUNDS: usize = 3;

impl Rounds {
    /// Measures all points in turns.
    ///
    /// # Errors
    /// If a contender fails.
    pub fn measure(
        args: &RouterArgs,
        setting: &Setting,
        sides: &[(Contender, Side<'_>)],
    ) -> Result<Rounds, BenchError> {
        let rounds = if args.quick { QUICK_ROUNDS } else { ROUNDS };
        let turns = setting.points.len() * sides.len() * (rounds + 1);
        let turn = Duration::from_secs_f64(args.turn_seconds_of(turns));
        let mut points = Vec::new();
        for point in &setting.points {
            eprintln!("petasos bench: {}", point.label);
            points.push(measure(point, sides, rounds, turn)?);
        }
        Ok(Rounds { points })
    }
}

fn measure(
    point: &Point,
    sides: &[(Contender, Side<'_>)],
    rounds: usize,
    length: Duration,
) -> Result<PointRounds, BenchError> {
    let connect = |(contender, side): &(Contender, Side<'_>)| {
        let target = side.connect(&point.asked, point.outstanding as u32);
        target.map_err(|error| failed(contender, &*error))
    };
    let mut targets = sides.iter().map(connect).collect::<Result<Vec<_>, _>>()?;
    let row = |(contender, _): &(Contender, Side<'_>)| Row { name: contender.name, turns: vec![] };
    let mut rows: Vec<Row> = sides.iter().map(row).collect();
    for round in 0..=rounds {
        for (((contender, side), target), row) in sides.iter().zip(&mut targets).zip(&mut rows) {
            let turn = turn(point, side, &mut **target, length);
            let turn = turn.map_err(|error| failed(contender, &*error))?;
            if round > 0 {
                row.turns.push(turn);
            }
        }
    }
    Ok(PointRounds { point: point.clone(), rows })
}

fn failed(contender: &Contender, error: &dyn std::error::Error) -> BenchError {
    format!("{}: {error}", contender.name).into()
}

/// A contender's turn at a point.
///
/// # Errors
/// If a request fails.
pub fn turn(
    point: &Point,
    side: &Side<'_>,
    target: &mut dyn Target,
    length: Duration,
) -> Result<Turn, BenchError> {
    let before = (side.between_cpu_s(), side.workers_cpu_s());
    let asked_before = side.asked();
    // Where it sleeps while it waits, workers need the core.
    let spins = side.client_spins();
    let closed = closed_loop(target, &Clock::system(), point.outstanding, length, spins)?;
    let per_million = |cpu_s: f64| cpu_s * 1e6 / closed.answered.max(1) as f64;
    let between = side.between_cpu_s().zip(before.0).map(|(after, before)| after - before);
    let (asked, first) = side.asked();
    let (asked, first) = (asked - asked_before.0, first - asked_before.1);
    let quantile = |quantile| closed.latencies.quantile_us(quantile).unwrap_or_default();
    Ok(Turn {
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        ops_per_s: closed.ops_per_s(),
        between_cpu_s: between.map(per_million),
        workers_cpu_s: per_million(side.workers_cpu_s() - before.1),
        asked_first: (asked > 0).then(|| first as f64 / asked as f64),
    })
}

impl PointRounds {
    /// A contender's row.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The median of what two contenders' turns of the same round give together.
    pub fn median_of(
        &self,
        (one, other): (&str, &str),
        value: impl Fn(&Turn, &Turn) -> Option<f64>,
    ) -> Option<f64> {
        let (one, other) = (self.row(one)?, self.row(other)?);
        median(one.turns.iter().zip(&other.turns).filter_map(|(one, other)| value(one, other)))
    }
}

impl Row {
    /// The median of a value.
    pub fn median(&self, value: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
        median(self.turns.iter().filter_map(value))
    }

    /// The standard error of the mean 99th percentile, which the median's is not far from; `None`
    /// for fewer than two turns.
    pub fn p99_stderr_us(&self) -> Option<f64> {
        let count = self.turns.len() as f64;
        let mean = self.turns.iter().map(|turn| turn.p99_us).sum::<f64>() / count;
        let squares = self.turns.iter().map(|turn| (turn.p99_us - mean).powi(2)).sum::<f64>();
        (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_percentile_is_that_of_the_rounds_mean() {
        let turn = |p99_us| Turn {
            p50_us: 1.0,
            p99_us,
            ops_per_s: 1.0,
            between_cpu_s: None,
            workers_cpu_s: 1.0,
            asked_first: None,
        };
        let row = Row { name: "router", turns: [2.0, 4.0, 6.0].map(turn).into() };
        // The deviation is 2, of three turns.
        assert!((row.p99_stderr_us().expect("it has turns") - 2.0 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Row { name: "router", turns: vec![turn(2.0)] }.p99_stderr_us(), None);
    }
}
