//! What figures 4, 5 and 8 report.

use petasos_report::{Axis, Bar, Column, Figure as Chart, Series, Table, Tone, significant};
use serde_json::{Map, Value, json};

use super::rounds::{PointRounds, Rounds, Row, Turn};
use super::{HOPS, Setting, Shows};
use crate::error::BenchError;
use crate::report::Report;
use crate::router::args::RouterArgs;
use crate::router::side::{Contender, Side, Skipped};

/// Makes the report.
pub fn report(args: &RouterArgs, setting: &Setting, rounds: &Rounds, skipped: Skipped) -> Report {
    let first = &rounds.points[0];
    let parameters = json!({
        "workers": setting.setup.workers,
        "rounds": first.rows[0].turns.len(),
        "quick": args.quick,
    });
    let mut report = Report::of("router", setting.figure, parameters);
    report.with("contenders", contenders(first));
    report.with("ratios", ratios(first));
    report.with("points", rounds.points.iter().map(point).collect());
    if matches!(setting.figure, "5" | "planes") {
        report.with("curves", curves(rounds));
    }
    if let Some(second) = second_packet(rounds).filter(|_| setting.figure == "8") {
        report.with("second_packet", second);
    }
    report.tables = rounds.points.iter().map(table).collect();
    report.charts = match setting.shows {
        Shows::Echo => echo_charts(setting, rounds),
        Shows::Goodput => vec![goodput_chart(setting, rounds)],
    };
    report.notes.push(setting.note.to_owned());
    report.skipped = skipped;
    report
}

/// What routers have given, and of this what a program in the kernel has.
pub fn given(sides: &[(Contender, Side<'_>)]) -> Result<Value, BenchError> {
    let with_router = sides.iter().filter(|(_, side)| side.has_router());
    let given = with_router.map(|(contender, side)| {
        let counts = side.operator()?.counts()?;
        let value = json!({ "requests": counts.given, "by_program": counts.by_program });
        Ok::<_, BenchError>((contender.name.to_owned(), value))
    });
    Ok(given.collect::<Result<Map<_, _>, _>>()?.into())
}

fn point(at: &PointRounds) -> Value {
    let added: Map<String, Value> =
        HOPS.into_iter().filter_map(|hop| Some((hop.1.to_owned(), added(at, hop)?))).collect();
    json!({
        "label": at.point.label,
        "request_bytes": at.point.asked.bytes.len(),
        "response_bytes": at.point.asked.wanted_bytes,
        "outstanding": at.point.outstanding,
        "contenders": contenders(at),
        "ratios": ratios(at),
        "added": added,
    })
}

/// Of each contender, the rates that so many requests at a time reach (a closed loop), and the 99th
/// percentiles there with their standard errors.
fn curves(rounds: &Rounds) -> Value {
    let at = |at: &PointRounds, name| {
        let row = at.row(name)?;
        Some(json!({
            "outstanding": at.point.outstanding,
            "load": row.median(|turn| Some(turn.ops_per_s)),
            "p99_us": row.median(|turn| Some(turn.p99_us)),
            "stderr": row.p99_stderr_us(),
        }))
    };
    let curve = |row: &Row| {
        let points = rounds.points.iter().filter_map(|point| at(point, row.name));
        (row.name.to_owned(), points.collect())
    };
    rounds.points[0].rows.iter().map(curve).collect::<Map<_, _>>().into()
}

/// What one contender takes more than the other.
fn added(at: &PointRounds, hop: (&str, &str)) -> Option<Value> {
    let more = |value: fn(&Turn) -> f64| {
        at.median_of(hop, |without, with| Some(value(with) - value(without)))
    };
    Some(json!({
        "to": hop.0,
        "p50_us": more(|turn| turn.p50_us)?,
        "p99_us": more(|turn| turn.p99_us)?,
    }))
}

/// Medians of each contender at a point.
pub fn contenders(at: &PointRounds) -> Value {
    let row = |row: &Row| {
        let value = json!({
            "p50_us": row.median(|turn| Some(turn.p50_us)),
            "p99_us": row.median(|turn| Some(turn.p99_us)),
            "ops_per_s": row.median(|turn| Some(turn.ops_per_s)),
            "gbit_per_s": row.median(|turn| Some(gbit(at, turn))),
            "cpu_s_per_million": row.median(|turn| turn.between_cpu_s),
            "workers_cpu_s_per_million": row.median(|turn| Some(turn.workers_cpu_s)),
            "asked_first": row.median(|turn| turn.asked_first),
        });
        (row.name.to_owned(), value)
    };
    at.rows.iter().map(row).collect::<Map<_, _>>().into()
}

fn gbit(at: &PointRounds, turn: &Turn) -> f64 {
    turn.ops_per_s * f64::from(at.point.asked.wanted_bytes) * 8.0 / 1e9
}

/// Of each contender to each other, at the same point.
fn ratios(at: &PointRounds) -> Value {
    let of = |row: &Row| {
        let others = at.rows.iter().filter(|other| other.name != row.name);
        let to = |other: &Row| {
            let pair = (row.name, other.name);
            let value = json!({
                "p50": at.median_of(pair, |own, other| Some(own.p50_us / other.p50_us)),
                "p99": at.median_of(pair, |own, other| Some(own.p99_us / other.p99_us)),
                "ops_per_s": at.median_of(pair, |own, other| Some(own.ops_per_s / other.ops_per_s)),
                "cpu_s": at.median_of(pair, |own, other| {
                    Some(own.between_cpu_s? / other.between_cpu_s.filter(|cpu_s| *cpu_s > 0.0)?)
                }),
            });
            (other.name.to_owned(), value)
        };
        (row.name.to_owned(), others.map(to).collect::<Map<_, _>>().into())
    };
    at.rows.iter().map(of).collect::<Map<String, Value>>().into()
}

/// How much longer a request takes that does not fit one packet, and how many round trips without a
/// router that is: of client and worker in one thread, if they were measured.
fn second_packet(rounds: &Rounds) -> Option<Value> {
    let [one, two] = &rounds.points[..] else { return None };
    let median = |at: &PointRounds, name| at.row(name)?.median(|turn| Some(turn.p50_us));
    let more = |(direct, router)| {
        let (direct, more) = (median(one, direct)?, median(two, router)? - median(one, router)?);
        Some(json!({ "more_us": more, "direct_us": direct, "round_trips": more / direct }))
    };
    more(("direct-turns", "router-turns")).or_else(|| more(("direct", "router")))
}

/// Medians of each contender at a point.
pub fn table(at: &PointRounds) -> Table {
    let mut table = Table::new([
        Column::text(at.point.label.clone()),
        Column::number("p50", "µs"),
        Column::number("p99", "µs"),
        Column::number("rate", "1/s"),
        Column::number("goodput", "Gbit/s"),
        Column::number("processor between", "µs"),
    ]);
    for row in &at.rows {
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), significant);
        table.push([
            row.name.to_owned(),
            shown(row.median(|turn| Some(turn.p50_us))),
            shown(row.median(|turn| Some(turn.p99_us))),
            shown(row.median(|turn| Some(turn.ops_per_s))),
            shown(row.median(|turn| Some(gbit(at, turn)))),
            shown(row.median(|turn| turn.between_cpu_s)),
        ]);
    }
    table
}

/// What follows the name of a contender whose client and worker take turns.
const TURNS: &str = "-turns";

fn tone(name: &str) -> Tone {
    match name.strip_suffix(TURNS).unwrap_or(name) {
        "router" | "udp" => Tone::Primary,
        "direct" => Tone::Secondary,
        "nginx" | "xdp-socket" => Tone::Tertiary,
        "haproxy" | "xdp" => Tone::Quaternary,
        _ => Tone::Muted,
    }
}

fn echo_charts(setting: &Setting, rounds: &Rounds) -> Vec<Chart> {
    let bars = |at: &PointRounds, what: &str, axis, value: &dyn Fn(&Row) -> Option<f64>| {
        let bar = |row: &Row| Some(Bar::new(row.name, value(row)?, tone(row.name)));
        let title = format!("{}, {}: {what}", setting.title, at.point.label);
        Chart::bars(title, axis, at.rows.iter().filter_map(bar).collect())
    };
    let latency = |at: &PointRounds| {
        let axis = || Axis::linear("Round trip", "µs");
        [
            bars(at, "median", axis(), &|row| row.median(|turn| Some(turn.p50_us))),
            bars(at, "99th percentile", axis(), &|row| row.median(|turn| Some(turn.p99_us))),
        ]
    };
    let [first, .., last] = &rounds.points[..] else { return vec![] };
    if last.point.outstanding == 1 {
        return rounds.points.iter().flat_map(latency).collect();
    }
    let axis = Axis::linear("Processor time", "µs");
    let mut charts = vec![latency_by_rate(setting, rounds)];
    charts.extend(latency(first));
    charts.push(bars(last, "rate", Axis::linear("Rate", "1/s"), &|row| {
        row.median(|turn| Some(turn.ops_per_s))
    }));
    charts.push(bars(last, "processor time of who is between", axis, &|row| {
        row.median(|turn| turn.between_cpu_s)
    }));
    charts
}

/// The 99th percentile by the rate that so many requests at a time reach, of processes.
fn latency_by_rate(setting: &Setting, rounds: &Rounds) -> Chart {
    let line = |row: &Row| {
        let points = rounds.points.iter().filter_map(|at| {
            let row = at.row(row.name)?;
            let rate = row.median(|turn| Some(turn.ops_per_s))?;
            Some((rate, row.median(|turn| Some(turn.p99_us))?))
        });
        Series::new(row.name, tone(row.name), points)
    };
    let title = format!("{}: 99th percentile by rate", setting.title);
    let (x, y) = (Axis::log("Rate", "1/s"), Axis::log("Round trip", "µs"));
    let rows = rounds.points[0].rows.iter().filter(|row| !row.name.ends_with(TURNS));
    Chart::lines(title, x, y, rows.map(line).collect())
}

fn goodput_chart(setting: &Setting, rounds: &Rounds) -> Chart {
    let names = rounds.points[0].rows.iter().map(|row| row.name);
    let line = |name: &'static str| {
        let points = rounds.points.iter().filter_map(|at| {
            let value = at.row(name)?.median(|turn| Some(gbit(at, turn)))?;
            Some((f64::from(at.point.asked.wanted_bytes), value))
        });
        Series::new(name, tone(name), points)
    };
    let (x, y) = (Axis::log("Answer", "B"), Axis::log("Goodput", "Gbit/s"));
    Chart::lines(setting.title, x, y, names.map(line).collect())
}
