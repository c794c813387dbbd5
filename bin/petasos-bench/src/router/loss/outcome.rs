//! What losses have cost.

use petasos_report::{Axis, Bar, Figure as Chart, Tone};
use serde_json::{Map, Value, json};

use super::{LOSS, Measured, NAMES, POLICY, WORKERS};
use crate::report::Report;
use crate::router::args::RouterArgs;
use crate::router::closed::{PointRounds, contenders, table};

/// The part of the rate that is to be left.
const GOAL: f64 = 0.9;

/// Makes the report.
pub(super) fn report(args: &RouterArgs, rounds: usize, measured: &Measured) -> Report {
    let Measured { kinds, packets, workers, leaked } = measured;
    let parameters = json!({
        "loss": LOSS,
        "policy": POLICY,
        "workers": WORKERS,
        "mean_us": args.mean_us,
        "rounds": rounds,
        "quick": args.quick,
    });
    let mut report = Report::of("router", "loss", parameters);
    let of_kind = |(name, at): &(&str, PointRounds)| ((*name).to_owned(), kind(at));
    report.with("kinds", kinds.iter().map(of_kind).collect::<Map<_, _>>().into());
    report.with("contenders", kinds.iter().flat_map(named).collect::<Map<_, _>>().into());
    report.with("packets", json!({ "offered": packets.offered, "lost": packets.lost }));
    report.with("slots", json!({ "workers": workers, "leaked": leaked }));
    report.tables = kinds.iter().map(|(_, at)| table(at)).collect();
    let share = 100.0 * packets.lost as f64 / packets.offered.max(1) as f64;
    report.notes.push(format!(
        "{} of {} datagrams were lost ({share:.2} %). Afterwards {leaked} places of {workers} \
         workers were still taken.",
        packets.lost, packets.offered,
    ));
    report.charts = kinds.iter().map(|(name, at)| chart(name, at)).collect();
    report
}

/// The rate with losses over that without, in the same round.
fn left(at: &PointRounds) -> Option<f64> {
    at.median_of((NAMES[1], NAMES[0]), |lossy, whole| Some(lossy.ops_per_s / whole.ops_per_s))
}

fn kind(at: &PointRounds) -> Value {
    json!({ "rate_left": left(at), "goal": GOAL })
}

/// Both contenders of a kind of request.
fn named((kind, at): &(&str, PointRounds)) -> Vec<(String, Value)> {
    let all = contenders(at);
    NAMES.into_iter().map(|name| (format!("{kind}/{name}"), all[name].clone())).collect()
}

fn chart(name: &str, at: &PointRounds) -> Chart {
    let bar = |(name, tone): (&'static str, Tone)| {
        let rate = at.row(name)?.median(|turn| Some(turn.ops_per_s))?;
        Some(Bar::new(name, rate, tone))
    };
    let bars = NAMES.into_iter().zip([Tone::Muted, Tone::Primary]).filter_map(bar).collect();
    let title = format!("Rate of {name} while one datagram of a hundred is lost");
    Chart::bars(title, Axis::linear("Rate", "1/s"), bars)
}

#[cfg(test)]
mod tests {
    use petasos_netio_xdp::ImpairStats;

    use super::*;
    use crate::router::client::Asked;
    use crate::router::closed::{Point, Row, Turn};

    #[test]
    fn rounds_are_compared_one_by_one() {
        let turn = |ops_per_s| Turn {
            p50_us: 1.0,
            p99_us: 1.0,
            ops_per_s,
            between_cpu_s: None,
            workers_cpu_s: 1.0,
            asked_first: None,
        };
        let rows = [("whole", [100.0, 200.0, 300.0]), ("lossy", [90.0, 100.0, 285.0])];
        let rows = rows.map(|(name, rates)| Row { name, turns: rates.map(turn).into() });
        let point = Point { label: "get".to_owned(), asked: Asked::short(0), outstanding: 1 };
        let at = PointRounds { point, rows: rows.into() };
        assert_eq!(left(&at), Some(0.9));
        let packets = ImpairStats { offered: 1000, lost: 11, ..ImpairStats::default() };
        let measured = Measured { kinds: vec![("get", at)], packets, workers: 4, leaked: 2 };
        let line = ["bench", "--figure", "loss"];
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: RouterArgs,
        }
        let args = <Cli as clap::Parser>::parse_from(line).args;
        let report = report(&args, 3, &measured);
        assert!(report.notes[0].contains("11 of 1000 datagrams were lost (1.10 %)"));
        assert_eq!(report.results["slots"]["leaked"], 2);
        assert_eq!(report.results["kinds"]["get"]["rate_left"], 0.9);
        assert_eq!(report.results["contenders"]["get/lossy"]["ops_per_s"], 100.0);
    }
}
