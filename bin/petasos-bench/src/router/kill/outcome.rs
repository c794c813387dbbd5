//! What kills have cost.

use std::time::Duration;

use petasos_base::Time;
use petasos_report::{Axis, Bar, Column, Figure as Chart, Table, Tone, median, significant};
use serde_json::{Value, json};

use super::Kills;
use super::callers::Call;
use super::victims::Ran;
use crate::report::Report;

/// Calls that began so long after a kill do not belong to it.
const REACH: Duration = Duration::from_millis(250);
/// A call was delayed by a kill if it took so many times the median of all.
const DELAYED: f64 = 10.0;

/// How calls have ended.
pub struct Ends {
    pub calls: usize,
    /// Failed calls that may run more than once, and others.
    pub failed: [usize; 2],
    first_failure: Option<String>,
    pub twice: usize,
    /// Answered, but not run.
    untrue: usize,
}

impl Ends {
    /// Of all calls, and what was run.
    pub fn of(calls: &[Call], ran: &Ran) -> Ends {
        let failed = |is_numbered: bool| {
            let of_kind = calls.iter().filter(|call| call.number.is_some() == is_numbered);
            of_kind.filter(|call| call.failed.is_some()).count()
        };
        let untrue = |call: &&Call| {
            let number = call.number.as_ref().filter(|_| call.failed.is_none());
            number.is_some_and(|number| ran.times(number) == 0)
        };
        Ends {
            calls: calls.len(),
            failed: [failed(false), failed(true)],
            first_failure: calls.iter().find_map(|call| call.failed.clone()),
            twice: ran.twice(),
            untrue: calls.iter().filter(untrue).count(),
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "calls": self.calls,
            "failed_idempotent": self.failed[0],
            "failed_others": self.failed[1],
            "first_failure": self.first_failure,
            "run_twice": self.twice,
            "answered_unrun": self.untrue,
        })
    }
}

/// What the kills of one kind have cost.
struct Cost {
    who: &'static str,
    ends: Ends,
    /// Of each kill, in milliseconds: how long the last call took that it met.
    recoveries_ms: Vec<f64>,
    /// Of each kill: how many calls it delayed.
    delayed: Vec<f64>,
    median_us: f64,
}

impl Cost {
    fn of(kills: &Kills) -> Cost {
        let calls = &kills.calls;
        let median_us = median(calls.iter().map(Call::took_us)).unwrap_or_default();
        let met = |at: &Time| calls.iter().filter(|call| meets(call, *at)).collect::<Vec<_>>();
        let recovery = |at: &Time| {
            let left = |call: &&Call| (call.ended - call.begun.max(*at)).as_secs_f64() * 1e3;
            met(at).iter().map(left).fold(0.0, f64::max)
        };
        let delayed = |at: &Time| {
            let is_late = |call: &&&Call| call.took_us() > DELAYED * median_us;
            met(at).iter().filter(is_late).count() as f64
        };
        Cost {
            who: kills.who,
            ends: Ends::of(calls, &kills.ran),
            recoveries_ms: kills.at.iter().map(recovery).collect(),
            delayed: kills.at.iter().map(delayed).collect(),
            median_us,
        }
    }

    fn recovery_ms(&self, quantile: f64) -> Option<f64> {
        let mut sorted = self.recoveries_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(sorted[(last as f64 * quantile).round() as usize])
    }

    fn json(&self) -> Value {
        let [median, p90, max] = [0.5, 0.9, 1.0].map(|quantile| self.recovery_ms(quantile));
        let mut json = self.ends.json();
        json["kills"] = self.recoveries_ms.len().into();
        json["recovery_ms"] = json!({ "median": median, "p90": p90, "max": max });
        json["delayed"] = json!({
            "median": petasos_report::median(self.delayed.iter().copied()),
            "max": self.delayed.iter().copied().fold(0.0, f64::max),
        });
        json["call_us"] = self.median_us.into();
        json
    }
}

/// Whether a call was under way at a kill, or began soon afterwards.
pub fn meets(call: &Call, at: Time) -> bool {
    call.ended > at && call.begun < at + REACH
}

/// Makes the report.
pub fn report(count: usize, kills: &[Kills]) -> Report {
    let parameters = json!({ "kills": count, "workers": super::WORKERS, "policy": super::POLICY });
    let mut report = Report::of("router", "kill", parameters);
    let costs: Vec<_> = kills.iter().map(Cost::of).collect();
    for cost in &costs {
        report.with(cost.who, cost.json());
    }
    report.tables.push(table(&costs));
    report.notes.push(
        "Recovery is the longest time, from a kill, of a call that it met. Callers make one call \
         after another, every other of which may run once at most."
            .to_owned(),
    );
    report.charts.extend(costs.iter().map(chart));
    report
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new([
        Column::text("killed"),
        Column::number("kills", ""),
        Column::number("calls", ""),
        Column::number("failed", ""),
        Column::number("failed, once at most", ""),
        Column::number("run twice", ""),
        Column::number("recovery", "ms"),
        Column::number("p90", "ms"),
        Column::number("longest", "ms"),
    ]);
    for cost in costs {
        let recovery = |quantile| cost.recovery_ms(quantile).map_or("–".into(), significant);
        table.push([
            cost.who.to_owned(),
            cost.recoveries_ms.len().to_string(),
            cost.ends.calls.to_string(),
            cost.ends.failed[0].to_string(),
            cost.ends.failed[1].to_string(),
            cost.ends.twice.to_string(),
            recovery(0.5),
            recovery(0.9),
            recovery(1.0),
        ]);
    }
    table
}

fn chart(cost: &Cost) -> Chart {
    let bar = |(name, quantile)| Some(Bar::new(name, cost.recovery_ms(quantile)?, Tone::Primary));
    let bars = [("median", 0.5), ("90th percentile", 0.9), ("longest", 1.0)];
    let bars = bars.into_iter().filter_map(bar).collect();
    let title = format!("Recovery from kills of {}", cost.who);
    Chart::bars(title, Axis::linear("Recovery", "ms"), bars)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(begun: u64, ended: u64, failed: bool, number: Option<&str>) -> Call {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        Call {
            begun: at(begun),
            ended: at(ended),
            failed: failed.then(|| "no".to_owned()),
            number: number.map(str::to_owned),
        }
    }

    #[test]
    fn costs_are_those_of_calls_that_a_kill_met() {
        let mut ran = Ran::default();
        ran.add(["ran a", "ran b", "ran b", "other"].map(str::to_owned).to_vec());
        let calls = vec![
            call(0, 1, false, None),
            call(1, 2, false, Some("a")),
            call(99, 140, true, None),
            call(100, 101, false, Some("b")),
            call(110, 111, false, Some("c")),
            call(900, 999, true, Some("d")),
        ];
        let at = vec![Time::from_nanos(100_000_000)];
        let cost = Cost::of(&Kills { who: "workers", at, calls, ran });
        let Ends { failed, twice, untrue, .. } = cost.ends;
        assert_eq!((failed, twice, untrue), ([1, 1], 1, 1));
        assert_eq!((&cost.recoveries_ms[..], &cost.delayed[..]), (&[40.0][..], &[1.0][..]));
        let json = cost.json();
        assert_eq!((&json["recovery_ms"]["p90"], &json["kills"]), (&40.0.into(), &1.into()));
    }
}
