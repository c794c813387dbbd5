//! Results compared with goals, as a table and as JSON.

use petasos_report::{
    Column, ExperimentResult, Machine, Pairs, Table, median, significant, with_si_prefix,
};
use serde_json::{Value, json};

use super::recovery::{AFTER, Recovery, SHARE};
use super::{Contended, ContentionArgs};
use crate::args::{BenchArgs, PollingArg};
use crate::error::BenchError;
use crate::publish;

/// Goal: at least this share of the raw echo's rate under the same contention.
const RATIO_MIN: f64 = 0.5;
/// Goal: fewer received duplicates than this share of the sent packets.
const SPURIOUS_MAX: f64 = 0.01;
/// Goal: at most this many milliseconds until the rate has recovered.
const RECOVERY_MS_MAX: f64 = 50.0;

/// Everything measured.
pub struct Outcome {
    /// The raw echo's batch.
    pub batch: usize,
    pub quiet: Pairs,
    pub contended: Contended,
    pub recoveries: Vec<Recovery>,
}

/// A goal and the result.
struct Goal {
    name: &'static str,
    measured: String,
    goal: String,
    reached: bool,
}

impl Outcome {
    /// The median rates of Petasos and the raw echo without contention.
    fn quiet_rates(&self) -> [f64; 2] {
        let floor = self.quiet.floor_median(&self.batch.to_string());
        [self.quiet.petasos_median(), floor].map(Option::unwrap_or_default)
    }

    /// The ratio of Petasos to the raw echo without contention.
    fn quiet_ratio(&self) -> Option<f64> {
        self.quiet.ratio(&self.batch.to_string()).map(|ratio| ratio.median)
    }

    /// The median rates under contention.
    fn contended_rates(&self) -> [f64; 2] {
        let pairs = &self.contended.pairs;
        [pairs.petasos_median(), pairs.floor_median("raw echo")].map(Option::unwrap_or_default)
    }

    /// The ratio of Petasos to the raw echo under contention: the median of the pairs' ratios.
    fn ratio(&self) -> f64 {
        self.contended.pairs.ratio("raw echo").map_or(0.0, |ratio| ratio.median)
    }

    /// Received duplicates as a share of sent packets, on both sides.
    fn spurious(&self) -> f64 {
        let traffic = self.contended.totals.traffic;
        traffic.duplicates as f64 / traffic.packets.max(1) as f64
    }

    /// The median recovery time; infinite if the rate mostly did not recover.
    fn recovery_ms(&self) -> f64 {
        let times = self.recoveries.iter().map(|one| one.after_ms);
        median(times.map(|ms| ms.map_or(f64::INFINITY, |ms| ms as f64))).unwrap_or(f64::INFINITY)
    }

    fn goals(&self) -> [Goal; 3] {
        let recovery_ms = self.recovery_ms();
        [
            Goal {
                name: "rate, of the raw echo's",
                measured: significant(self.ratio()),
                goal: format!("≥ {RATIO_MIN}"),
                reached: self.ratio() >= RATIO_MIN,
            },
            Goal {
                name: "duplicates received, of packets sent",
                measured: format!("{} %", significant(self.spurious() * 100.0)),
                goal: format!("< {} %", SPURIOUS_MAX * 100.0),
                reached: self.spurious() < SPURIOUS_MAX,
            },
            Goal {
                name: "time until the rate is back",
                measured: milliseconds(recovery_ms.is_finite().then_some(recovery_ms)),
                goal: format!("≤ {RECOVERY_MS_MAX} ms"),
                reached: recovery_ms <= RECOVERY_MS_MAX,
            },
        ]
    }
}

fn milliseconds(ms: Option<f64>) -> String {
    match ms {
        None => format!("> {} ms", AFTER.as_millis()),
        Some(ms) if ms < 1.0 => "< 1 ms".to_owned(),
        Some(ms) => format!("{ms} ms"),
    }
}

/// Prints the result, and writes the requested files.
pub fn publish(
    args: &BenchArgs,
    how: &ContentionArgs,
    outcome: &Outcome,
) -> Result<(), BenchError> {
    let json = as_json(args, how, outcome);
    publish::publish((args.json.as_deref(), args.print_json), &json, || {
        rates(how, outcome).print()?;
        goals(outcome).print()?;
        say_more(args, how, outcome);
        Ok(())
    })
}

fn as_json(args: &BenchArgs, how: &ContentionArgs, outcome: &Outcome) -> Value {
    let contended = &outcome.contended;
    let result = ExperimentResult::new("contention", Machine::read(), &contended.pairs);
    let mut result = contended.totals.apply(result.with_floor(&contended.pairs, "raw echo"));
    result.parameters = args.parameters();
    let result = result
        .parameter("competitors", how.competitors)
        .parameter("turn_ms", how.turn_ms)
        .parameter("floor", format!("batch {}", outcome.batch));
    let mut json = serde_json::to_value(&result).expect("a result is plain data");
    let traffic = contended.totals.traffic;
    let [petasos, floor] = outcome.quiet_rates();
    let recovery_ms = outcome.recovery_ms();
    json["without_contention"] = json!({
        "petasos_ops_per_s": petasos,
        "floor_ops_per_s": floor,
        "ratio": outcome.quiet_ratio(),
    });
    json["packets"] = traffic.packets.into();
    json["retransmissions"] = traffic.retransmissions.into();
    json["duplicates"] = traffic.duplicates.into();
    json["spurious"] = outcome.spurious().into();
    json["floor_lost"] = contended.floor_lost.into();
    // Null if the rate did not recover in time.
    json["recovery_ms"] = recovery_ms.is_finite().then_some(recovery_ms).into();
    json["recoveries"] = outcome.recoveries.iter().map(recovery_json).collect();
    json["goals"] = outcome.goals().iter().map(goal_json).collect();
    json
}

fn recovery_json(one: &Recovery) -> Value {
    json!({
        "before_per_ms": one.before_per_ms,
        "under_per_ms": one.under_per_ms,
        "after_ms": one.after_ms,
    })
}

fn goal_json(goal: &Goal) -> Value {
    json!({
        "name": goal.name,
        "measured": goal.measured,
        "goal": goal.goal,
        "reached": goal.reached,
    })
}

fn rates(how: &ContentionArgs, outcome: &Outcome) -> Table {
    let mut table = Table::new([
        Column::text("Contender"),
        Column::number("Alone", "1/s"),
        Column::number(format!("With {} competitors", how.competitors), "1/s"),
        Column::number("Left", "%"),
    ]);
    let names = ["Petasos".to_owned(), format!("raw echo, batches of {}", outcome.batch)];
    let rates = outcome.quiet_rates().into_iter().zip(outcome.contended_rates());
    for (name, (quiet, contended)) in names.into_iter().zip(rates) {
        let left = significant(contended / quiet * 100.0);
        table.push([name, with_si_prefix(quiet), with_si_prefix(contended), left]);
    }
    table
}

fn goals(outcome: &Outcome) -> Table {
    let mut table = Table::new([
        Column::text("Under contention"),
        Column::number("Measured", ""),
        Column::number("Goal", ""),
        Column::text(""),
    ]);
    for Goal { name, measured, goal, reached } in outcome.goals() {
        let verdict = if reached { "reached" } else { "missed" };
        table.push([name.to_owned(), measured, goal, verdict.to_owned()]);
    }
    table
}

/// Explanations below the tables.
fn say_more(args: &BenchArgs, how: &ContentionArgs, outcome: &Outcome) {
    let Contended { pairs, totals, floor_lost } = &outcome.contended;
    let polling = match args.polling {
        PollingArg::Spin => "both sides spin, as the raw echo does",
        PollingArg::Adaptive => "both sides spin for a while and then sleep; the raw echo spins",
    };
    println!("polling: {polling}");
    if let Some(ratio) = pairs.ratio("raw echo") {
        println!(
            "ratio to the raw echo: median of {} pairs of turns of {} ms, {} to {}; alone {}",
            ratio.count,
            how.turn_ms,
            significant(ratio.min),
            significant(ratio.max),
            significant(outcome.quiet_ratio().unwrap_or(f64::NAN)),
        );
    }
    let traffic = totals.traffic;
    println!(
        "Petasos under contention, both sides: {} packets sent, {} of them again, {} duplicates \
         received; the raw echo gave up {floor_lost} datagrams",
        traffic.packets, traffic.retransmissions, traffic.duplicates,
    );
    let times = outcome.recoveries.iter().map(|one| one.after_ms.map(|ms| ms as f64));
    let times: Vec<_> = times.map(milliseconds).collect();
    println!(
        "back at {} % of the rate before, for 10 ms on average, after: {}",
        SHARE * 100.0,
        times.join(", "),
    );
}
