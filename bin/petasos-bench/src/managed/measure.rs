//! Runs a figure: any contenders at any points, in rounds.
//!
//! Each round has one turn of every contender. The processes of all of them are started before the
//! first round of a point, sleep while others have their turns, and end after the last.

use std::time::Duration;

use petasos_report::{Histogram, Progress, Tone, median};

use super::args::ManagedArgs;
use super::contender::{Contender, Role};
use super::figures::{Figure, Point};
use super::idle::Idle;
use super::quantity::Quantity;
use super::shape::Shape;
use super::team::{PeakMemory, Team, TeamTurn};
use crate::contention::Competitors;
use crate::error::BenchError;
use crate::rpc::phase::Phase;

/// The results of a figure.
pub struct Measured {
    pub points: Vec<PointResult>,
    pub skipped: Vec<Skipped>,
    /// The index of the point that stands for the figure.
    pub headline: usize,
    /// What idle applications cost the service, or why that is not known; none if nobody asks.
    pub idle: Option<Result<Idle, String>>,
}

/// The results of one point.
pub struct PointResult {
    pub point: Point,
    pub quantity: Quantity,
    pub rows: Vec<Row>,
}

/// The results of a contender at one point.
pub struct Row {
    pub name: &'static str,
    pub role: Role,
    pub tone: Tone,
    /// The contender that has everything but its policy.
    pub without: Option<&'static str>,
    /// Whether a policy of it refuses what is forbidden.
    refuses: bool,
    /// The figure's quantity in each round.
    pub values: Vec<f64>,
    /// Calls per second in each round.
    pub ops: Vec<f64>,
    pub completed: u64,
    /// Calls that were refused, and calls that are forbidden.
    pub refused: u64,
    pub forbidden: u64,
    /// Seconds of all turns.
    pub elapsed_s: f64,
    /// Processor time of all its processes, in seconds.
    pub cpu_s: f64,
    pub latency: Histogram,
    pub memory: PeakMemory,
}

/// A contender without results at a point, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub name: &'static str,
    /// The labels of the points.
    pub points: Vec<String>,
    pub reason: String,
}

/// Measures a figure.
///
/// # Errors
/// If no contender could be measured, or a point is wanted that the figure has not.
pub fn run(
    args: &ManagedArgs,
    figure: &Figure,
    contenders: &[Contender],
) -> Result<Measured, BenchError> {
    let labels: Vec<&str> = figure.points.iter().map(|point| &*point.label).collect();
    if let Some(unknown) = args.points.iter().find(|label| !labels.contains(&&***label)) {
        let (name, all) = (figure.name, labels.join(", "));
        return Err(format!("figure {name} has no point `{unknown}`; it has {all}").into());
    }
    let is_wanted = |point: &&Point| args.wants(&point.label);
    let points: Vec<&Point> = figure.points.iter().filter(is_wanted).collect();
    let headline = &figure.points[figure.headline].label;
    let headline = points.iter().position(|point| point.label == *headline).unwrap_or(0);
    let rounds = args.rounds(figure, points.len(), contenders.len());
    let is_memory = figure.quantity == Quantity::MemoryBytes;
    let idle = (is_memory && contenders.iter().any(|one| one.is_managed()))
        .then(|| Idle::measure().map_err(|error| error.to_string()));
    let mut measured = Measured { points: Vec::new(), skipped: Vec::new(), headline, idle };
    for point in points {
        let label = format!("managed {}, {} {}", figure.name, figure.varied, point.label);
        let mut progress = Progress::new(&label, rounds as u64);
        let mut bench = Bench::start(figure.quantity, point, contenders, &mut measured.skipped);
        // The first round does not count: it opens connections and touches memory.
        let beside = usize::from(args.beside);
        for round in 0..=rounds {
            bench.round((args.turn(figure), beside), round > 0, &mut measured.skipped);
            progress.set(round as u64);
        }
        progress.finish("done");
        measured.points.push(bench.end());
    }
    match measured.points.iter().any(|point| !point.rows.is_empty()) {
        true => Ok(measured),
        false => Err("no contender could be measured".into()),
    }
}

/// The contenders of a point, while it is measured.
struct Bench<'a> {
    quantity: Quantity,
    point: &'a Point,
    teams: Vec<(Row, Team)>,
}

impl<'a> Bench<'a> {
    fn start(
        quantity: Quantity,
        point: &'a Point,
        contenders: &[Contender],
        skipped: &mut Vec<Skipped>,
    ) -> Bench<'a> {
        let mut teams = Vec::new();
        for contender in contenders {
            match contender.start(point.shape) {
                Ok(team) => teams.push((Row::new(contender), team)),
                Err(error) => skip(skipped, contender.name, point, &error),
            }
        }
        Bench { quantity, point, teams }
    }

    /// Gives everybody a turn, beside so many busy processes, and leaves those out who fail.
    fn round(
        &mut self,
        (turn, beside): (Duration, usize),
        counts: bool,
        skipped: &mut Vec<Skipped>,
    ) {
        let (shape, quantity) = (self.point.shape, self.quantity);
        let phase = if shape.window == 1 { Phase::Spinning } else { Phase::Window };
        let turn_of = |team: &mut Team| within(beside, turn, || team.turn(phase, turn));
        self.teams.retain_mut(|(row, team)| match row.checked(turn_of(team)) {
            Ok(turn) => {
                if counts {
                    row.add(quantity, shape, &turn, team.peak_memory());
                }
                true
            }
            Err(error) => {
                skip(skipped, row.name, self.point, &error);
                false
            }
        });
    }

    fn end(self) -> PointResult {
        let rows = self.teams.into_iter().map(|(row, _)| row).collect();
        PointResult { point: self.point.clone(), quantity: self.quantity, rows }
    }
}

/// A turn beside so many busy processes.
fn within<T>(
    beside: usize,
    length: Duration,
    turn: impl FnOnce() -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    if beside == 0 {
        return turn();
    }
    let mut competitors = Competitors::start(beside, length)?;
    let outcome = turn()?;
    competitors.end();
    competitors.wait()?;
    Ok(outcome)
}

/// Says that a contender is left out, once for each reason.
fn skip(skipped: &mut Vec<Skipped>, name: &'static str, point: &Point, error: &BenchError) {
    let (reason, label) = (error.to_string(), point.label.clone());
    eprintln!("petasos bench: {name} is skipped at {label}: {reason}");
    match skipped.iter_mut().find(|known| known.name == name && known.reason == reason) {
        Some(known) => known.points.push(label),
        None => skipped.push(Skipped { name, points: vec![label], reason }),
    }
}

impl Row {
    fn new(contender: &Contender) -> Row {
        Row {
            name: contender.name,
            role: contender.role,
            tone: contender.tone,
            without: contender.without,
            refuses: contender.refuses,
            values: Vec::new(),
            ops: Vec::new(),
            completed: 0,
            refused: 0,
            forbidden: 0,
            elapsed_s: 0.0,
            cpu_s: 0.0,
            latency: Histogram::new(),
            memory: PeakMemory::default(),
        }
    }

    /// A turn in which exactly those calls were refused that had to be.
    fn checked(&self, turn: Result<TeamTurn, BenchError>) -> Result<TeamTurn, BenchError> {
        let turn = turn?;
        let (refused, forbidden) = (turn.client.refused, turn.client.forbidden);
        match if self.refuses { forbidden } else { 0 } {
            expected if expected == refused => Ok(turn),
            expected => Err(format!("{refused} calls are refused, not {expected}").into()),
        }
    }

    fn add(&mut self, quantity: Quantity, shape: Shape, turn: &TeamTurn, memory: PeakMemory) {
        let client = &turn.client;
        let ops_per_s = client.completed as f64 / client.elapsed_s;
        self.ops.push(ops_per_s);
        self.values.push(match quantity {
            Quantity::LatencyUs => client.latency.quantile_us(0.5).unwrap_or(f64::NAN),
            Quantity::OpsPerS => ops_per_s,
            Quantity::GbitPerS => gbit_per_s(shape, ops_per_s),
            Quantity::MemoryBytes => memory.total() as f64,
        });
        self.completed += client.completed;
        self.refused += client.refused;
        self.forbidden += client.forbidden;
        self.elapsed_s += client.elapsed_s;
        self.cpu_s += turn.cpu_s;
        self.latency.merge(&client.latency);
        self.memory = memory;
    }

    /// The median of the rounds in the figure's quantity.
    pub fn value(&self) -> Option<f64> {
        finite_median(self.values.iter().copied())
    }

    /// Calls per second: the median of the rounds.
    pub fn ops_per_s(&self) -> Option<f64> {
        finite_median(self.ops.iter().copied())
    }

    /// Gigabits of requests per second.
    pub fn gbit_per_s(&self, shape: Shape) -> Option<f64> {
        self.ops_per_s().map(|ops| gbit_per_s(shape, ops))
    }

    /// Gigabits of requests per second of processor time of all its processes: what a core carries.
    /// Both are sums over all rounds, so that rounds in which others had the cores distort nothing.
    pub fn gbit_per_s_per_core(&self, shape: Shape) -> Option<f64> {
        let per_cpu_s = self.completed as f64 / self.cpu_s;
        (self.completed > 0 && self.cpu_s > 0.0).then(|| gbit_per_s(shape, per_cpu_s))
    }

    /// How many cores its processes have used on average.
    pub fn cores(&self) -> Option<f64> {
        (self.elapsed_s > 0.0 && self.cpu_s > 0.0).then(|| self.cpu_s / self.elapsed_s)
    }

    /// Processor time of all its processes, in seconds per million calls.
    pub fn cpu_s_per_million(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.cpu_s / self.completed as f64 * 1e6)
    }
}

impl PointResult {
    /// The median of the rounds' ratios of one contender to another.
    pub fn ratio(&self, name: &str, over: &str) -> Option<f64> {
        let values = |name| self.rows.iter().find(|row| row.name == name).map(|row| &row.values);
        let (ours, theirs) = (values(name)?, values(over)?);
        finite_median(ours.iter().zip(theirs).map(|(one, other)| one / other))
    }

    /// The ratio of goodputs per core of one contender to another.
    pub fn ratio_per_core(&self, name: &str, over: &str) -> Option<f64> {
        let row = |name| self.rows.iter().find(|row| row.name == name);
        let per_core = |name| row(name)?.gbit_per_s_per_core(self.point.shape);
        Some(per_core(name)? / per_core(over)?)
    }

    /// The floor's name, if it was measured.
    pub fn floor(&self) -> Option<&'static str> {
        self.rows.iter().find(|row| row.role == Role::Floor).map(|row| row.name)
    }

    /// The best contender with proxies.
    pub fn best_proxied(&self) -> Option<&'static str> {
        let proxied = self.rows.iter().filter(|row| row.role == Role::Proxied);
        let values = proxied.filter_map(|row| Some((row.value()?, row.name)));
        let best = |left: &(f64, _), right: &(f64, _)| left.0.total_cmp(&right.0);
        let best = match self.quantity.less_is_better() {
            true => values.min_by(best),
            false => values.max_by(best),
        };
        best.map(|(_, name)| name)
    }
}

fn gbit_per_s(shape: Shape, ops_per_s: f64) -> f64 {
    ops_per_s * f64::from(shape.request_bytes) * 8e-9
}

fn finite_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    median(values.filter(|value| value.is_finite()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::managed::contenders::chosen;
    use crate::managed::figures::FigureId;
    use crate::rpc::phase::Turn;

    /// Rounds in which the n-th contender completes n times these calls.
    pub fn measured(id: FigureId, rounds: &[u64]) -> Measured {
        let figure = id.description();
        let point = |point: &Point| {
            let contenders = chosen(&[], figure.contenders).expect("all are known");
            let row = |(place, contender): (usize, &Contender)| {
                let mut row = Row::new(contender);
                for calls in rounds {
                    let completed = calls * (place as u64 + 1);
                    let mut client = Turn { completed, elapsed_s: 0.1, ..Turn::default() };
                    client.latency.record_ns(100_000_000 / completed);
                    let turn = TeamTurn { client, cpu_s: 0.2 };
                    let memory = PeakMemory { client: 1 << 20, server: 2 << 20, between: 0 };
                    row.add(figure.quantity, point.shape, &turn, memory);
                }
                row
            };
            let rows = contenders.iter().enumerate().map(row).collect();
            PointResult { point: point.clone(), quantity: figure.quantity, rows }
        };
        let skipped =
            vec![Skipped { name: "x", points: vec!["1".into()], reason: "not here".into() }];
        let points = figure.points.iter().map(point).collect();
        Measured { points, skipped, headline: figure.headline, idle: None }
    }

    #[test]
    fn ratios_are_medians_of_rounds() {
        let measured = measured(FigureId::Rate, &[10, 20, 30]);
        let point = &measured.points[0];
        assert_eq!((point.floor(), point.best_proxied()), (Some("relay"), Some("nghttpx")));
        assert_eq!(point.ratio("direct", "relay"), Some(2.0));
        assert_eq!(point.ratio("nobody", "relay"), None);
        let relay = &point.rows[0];
        let expected = (Some(200.0), Some(2.0), Some(10_000.0));
        let cpu = relay.cpu_s_per_million().map(f64::round);
        assert_eq!((relay.value(), relay.cores(), cpu), expected);
        let per_core = relay.gbit_per_s_per_core(point.point.shape).expect("it has used some");
        assert!((per_core - 100.0 * 32.0 * 8e-9).abs() < 1e-9, "60 calls in 0.6 s of processor");
    }

    #[test]
    fn the_best_proxy_is_the_fastest() {
        let measured = measured(FigureId::Table2, &[10]);
        let point = &measured.points[0];
        assert_eq!(point.best_proxied(), Some("nghttpx"), "more calls take less time each");
        let ratio = point.ratio("direct", "relay").expect("both were measured");
        assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn a_reason_is_told_once() {
        let figure = FigureId::Rate.description();
        let mut skipped = Vec::new();
        for (point, reason) in figure.points.iter().zip(["a", "a"]) {
            skip(&mut skipped, "x", point, &reason.into());
        }
        skip(&mut skipped, "x", &figure.points[0], &"b".into());
        let points: Vec<_> = skipped.iter().map(|one| one.points.join(" ")).collect();
        assert_eq!(points, ["1 thread 2 threads", "1 thread"]);
    }
}
