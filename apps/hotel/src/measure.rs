//! The comparison of the mRPC paper's figures 8 and 12 to 14: where the time goes in each service,
//! for each way to carry calls.
//!
//! All ways run beside each other and share the stores. They take turns, so that what else the
//! machine does meanwhile hits all of them; ratios are medians over the rounds.

use std::path::PathBuf;

use clap::Args;
use petasos_report::{Column, Machine, Table, median, significant};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::load::{Guests, PaceArgs, Tally};
use crate::stage::{Stack, StackName, Stage, StageArgs};

/// Compare ways to carry calls
///
/// The application runs on this machine once for each way, on four hosts, and gets the same
/// requests in turns.
#[derive(Args, Clone, Debug)]
pub struct MeasureArgs {
    /// The ways to compare [default: all; those that are not to be had are left out]
    #[arg(long, value_delimiter = ',')]
    stacks: Vec<StackName>,
    #[command(flatten)]
    pace: PaceArgs,
    /// Seconds of a turn
    #[arg(long, default_value_t = 10.0, value_parser = turn)]
    turn: f64,
    #[command(flatten)]
    stage: StageArgs,
    /// Also write the result as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

fn turn(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|error| error.to_string())?;
    match seconds {
        0.1..=600.0 => Ok(seconds),
        _ => Err("not from 0.1 to 600".to_owned()),
    }
}

/// The most rounds.
const ROUNDS_MAX: usize = 1000;
/// Seconds of requests that are not counted: they fill caches and open connections.
const WARM_S: f64 = 5.0;

/// A way to carry calls, and what was measured of it.
struct Row {
    name: StackName,
    whole: Tally,
    rounds: Vec<Round>,
}

/// What a round tells of the frontend.
#[derive(Clone, Copy, Debug)]
struct Round {
    mean_us: f64,
    network_us: f64,
    p99_us: f64,
}

impl Round {
    fn of(tally: &Tally) -> Round {
        let frontend = &tally.frontend;
        Round {
            mean_us: frontend.total.mean_us(),
            network_us: frontend.network.mean_us(),
            p99_us: frontend.total.quantile_us(0.99),
        }
    }
}

/// How much longer one takes than another: medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    mean: f64,
    network: f64,
    /// Of all requests together: a round has too few of the slowest.
    p99: f64,
}

impl Ratio {
    fn of(row: &Row, other: &Row) -> Ratio {
        let over = |value: fn(&Round) -> f64| {
            let pairs = row.rounds.iter().zip(&other.rounds);
            median(pairs.map(|(a, b)| value(a) / value(b))).unwrap_or(f64::NAN)
        };
        let p99 = |row: &Row| row.whole.frontend.total.quantile_us(0.99);
        Ratio {
            mean: over(|round| round.mean_us),
            network: over(|round| round.network_us),
            p99: p99(row) / p99(other),
        }
    }

    fn json(self) -> Value {
        json!({ "mean": self.mean, "network": self.network, "p99": self.p99 })
    }
}

/// Measures, and reports. It has to run in a local set on the main thread.
///
/// # Errors
/// Nothing can be started, no request was answered, or the report cannot be written.
pub async fn measure(args: &MeasureArgs) -> Result<(), Error> {
    let stage = Stage::start(&args.stage).await?;
    let (mut running, mut skipped) = (Vec::new(), Vec::new());
    let chosen = if args.stacks.is_empty() { &StackName::ALL[..] } else { &args.stacks };
    for name in chosen {
        match Stack::start(&stage, *name).await {
            Ok(stack) => running.push(stack),
            Err(error) => skipped.push((*name, error)),
        }
    }
    if running.is_empty() {
        let (_, error) = skipped.swap_remove(0);
        return Err(error);
    }
    let rows = rounds(args, &running).await?;
    // Those who use the stores first.
    drop(running);
    drop(stage);
    print(&rows, &skipped).map_err(|error| Error::internal(error.to_string()))?;
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", report(args, &rows, &skipped));
        let written = petasos_report::write_atomically(path, text.as_bytes());
        written.map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(())
}

async fn rounds(args: &MeasureArgs, stacks: &[Stack]) -> Result<Vec<Row>, Error> {
    let guests: Vec<Guests> = stacks.iter().map(|stack| Guests::of(stack.frontend)).collect();
    let pace = |seconds, seed| PaceArgs { seconds, seed, ..args.pace.clone() };
    for guests in &guests {
        guests.run(&pace(WARM_S, args.pace.seed), None).await;
    }
    let empty =
        |stack: &Stack| Row { name: stack.name, whole: Tally::default(), rounds: Vec::new() };
    let mut rows: Vec<Row> = stacks.iter().map(empty).collect();
    let count = ((args.pace.seconds / args.turn).ceil() as usize).clamp(1, ROUNDS_MAX);
    for round in 0..count {
        // Each of a round gets the same requests, and each is the first in its turn.
        let pace = pace(args.turn, args.pace.seed.wrapping_add(round as u64));
        for turn in 0..rows.len() {
            let at = (round + turn) % rows.len();
            let tally = guests[at].run(&pace, None).await;
            rows[at].rounds.push(Round::of(&tally));
            rows[at].whole.merge(&tally);
        }
    }
    match rows.iter().find(|row| row.whole.frontend.total.count() == 0) {
        None => Ok(rows),
        Some(row) => {
            let failure = row.whole.failure.as_deref().unwrap_or("nothing was asked");
            Err(Error::away(format!("{}: {failure}", row.name.name())))
        }
    }
}

/// What others are compared with: the managed service, as the paper has it in its figures, or what
/// comes closest to that.
fn reference(rows: &[Row]) -> Option<&Row> {
    let wanted = [StackName::ManagedNull, StackName::Managed, StackName::Direct];
    wanted.iter().find_map(|name| rows.iter().find(|row| row.name == *name))
}

fn print(rows: &[Row], skipped: &[(StackName, Error)]) -> std::io::Result<()> {
    for row in rows {
        println!("{}", row.name.name());
        row.whole.print()?;
    }
    if let Some(other) = reference(rows) {
        let name = other.name.name();
        println!("the frontend's times, over those of {name}");
        let columns = ["Mean", "network", "p99"].map(|name| Column::number(name, ""));
        let mut table = Table::new([Column::text("Way")].into_iter().chain(columns));
        for row in rows {
            let Ratio { mean, network, p99 } = Ratio::of(row, other);
            let cells = [mean, network, p99].map(significant);
            table.push([row.name.name().to_owned()].into_iter().chain(cells));
        }
        table.print()?;
    }
    for (name, error) in skipped {
        println!("left out: {}: {error}", name.name());
    }
    Ok(())
}

fn report(args: &MeasureArgs, rows: &[Row], skipped: &[(StackName, Error)]) -> Value {
    let named = |of: &dyn Fn(&Row) -> Value| {
        let fields = rows.iter().map(|row| (row.name.name().to_owned(), of(row)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let stack = |row: &Row| {
        let round = |round: &Round| {
            json!({
                "mean_us": round.mean_us,
                "network_us": round.network_us,
                "p99_us": round.p99_us,
            })
        };
        let mut json = row.whole.json();
        json["rounds"] = row.rounds.iter().map(round).collect();
        json
    };
    // Over each of the managed ways: the paper has the null policy in figures 8 and 12 only.
    let over = |other: StackName| {
        let other = rows.iter().find(|row| row.name == other)?;
        Some(named(&|row| Ratio::of(row, other).json()))
    };
    let left_out = |(name, error): &(StackName, Error)| {
        let (name, reason) = (name.name(), error.to_string());
        json!({ "name": name, "reason": reason })
    };
    json!({
        "experiment": "hotel",
        "parameters": {
            "rate": args.pace.rate,
            "seconds": args.pace.seconds,
            "turn_s": args.turn,
            "namespaces": args.stage.namespaces,
        },
        "machine": Machine::read(),
        "stacks": named(&stack),
        "over_managed_null": over(StackName::ManagedNull),
        "over_managed": over(StackName::Managed),
        "skipped": skipped.iter().map(left_out).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::timing::Timing;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MeasureArgs,
    }

    fn row(name: StackName, means_us: &[u64]) -> Row {
        let mut row = Row { name, whole: Tally::default(), rounds: Vec::new() };
        for mean_us in means_us {
            let mut tally = Tally::default();
            let timing = Timing { app: Duration::from_micros(100), calls: Vec::new() };
            let total = Duration::from_micros(*mean_us);
            tally.answered(total, Duration::ZERO, Some(&timing));
            row.rounds.push(Round::of(&tally));
            row.whole.merge(&tally);
        }
        row
    }

    #[test]
    fn ratios_are_medians_of_rounds() {
        let managed = row(StackName::ManagedNull, &[200, 300, 1000]);
        let other = row(StackName::TonicEnvoy, &[600, 900, 1000]);
        let Ratio { mean, network, p99 } = Ratio::of(&other, &managed);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(mean, 3.0) && near(network, 4.0) && near(p99, 1.0), "{mean} {network} {p99}");
    }

    #[test]
    fn the_report_has_all_ways() {
        let args = Line::parse_from(["x", "--seconds", "30"]).args;
        let rows = [row(StackName::ManagedNull, &[200]), row(StackName::TonicEnvoy, &[600])];
        let skipped = [(StackName::Tonic, Error::away("not here"))];
        let json = report(&args, &rows, &skipped);
        assert_eq!(json["stacks"]["tonic-envoy"]["answered"], 1);
        let ratio = json["over_managed_null"]["tonic-envoy"]["mean"].as_f64();
        assert!(ratio.is_some_and(|ratio| (ratio - 3.0).abs() < 1e-6));
        assert_eq!(json["over_managed"], Value::Null);
        assert_eq!(json["skipped"][0]["reason"], "not here");
        assert_eq!(reference(&rows).map(|row| row.name), Some(StackName::ManagedNull));
    }
}
