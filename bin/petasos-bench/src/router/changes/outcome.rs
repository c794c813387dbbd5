//! What changes have cost.

use petasos_report::{Axis, Bar, Column, Figure as Chart, Table, Tone, significant};
use serde_json::{Value, json};

use super::Changes;
use crate::report::Report;
use crate::router::kill::{Ends, meets};

/// The 99th percentile beside changes may be so many times that beside none.
const GOAL: f64 = 2.0;

/// What the changes of one kind have cost.
struct Cost {
    who: &'static str,
    changes: usize,
    ends: Ends,
    /// The 99th percentile of calls that met a change, and of those that met none, in microseconds.
    p99_us: Option<f64>,
    sham_p99_us: Option<f64>,
}

impl Cost {
    fn of(changes: &Changes) -> Cost {
        let Changes { who, at, shams, calls, ran } = changes;
        let p99_us = |times: &[petasos_base::Time]| {
            let met = calls.iter().filter(|call| times.iter().any(|at| meets(call, *at)));
            let mut took: Vec<_> = met.map(|call| call.took_us()).collect();
            took.sort_by(f64::total_cmp);
            let last = took.len().checked_sub(1)?;
            Some(took[(last as f64 * 0.99).round() as usize])
        };
        let (p99_us, sham_p99_us) = (p99_us(at), p99_us(shams));
        Cost { who, changes: at.len(), ends: Ends::of(calls, ran), p99_us, sham_p99_us }
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.p99_us? / self.sham_p99_us?)
    }

    fn json(&self) -> Value {
        let mut json = self.ends.json();
        json["changes"] = self.changes.into();
        json["p99_us"] = json!({ "beside": self.p99_us, "without": self.sham_p99_us });
        json["ratio"] = json!(self.ratio());
        json["goal"] = GOAL.into();
        json
    }
}

/// Makes the report.
pub(super) fn report(count: usize, kinds: &[Changes]) -> Report {
    let parameters = json!({ "changes": count, "policies": super::POLICIES });
    let mut report = Report::of("router", "changes", parameters);
    let costs: Vec<_> = kinds.iter().map(Cost::of).collect();
    for cost in &costs {
        report.with(cost.who, cost.json());
    }
    report.tables.push(table(&costs));
    report.notes.push(
        "Reloads give the group another policy. Workers and routers end in order, and others are \
         started; routers with a standby beside them. The second p99 is of calls that met moments \
         without a change, in between."
            .to_owned(),
    );
    report.charts.extend(costs.iter().filter_map(chart));
    report
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new([
        Column::text("changed"),
        Column::number("changes", ""),
        Column::number("calls", ""),
        Column::number("failed", ""),
        Column::number("failed, once at most", ""),
        Column::number("run twice", ""),
        Column::number("p99", "ms"),
        Column::number("p99 without", "ms"),
        Column::number("of it", ""),
    ]);
    for cost in costs {
        let shown = |value: Option<f64>| value.map_or("–".into(), significant);
        let ms = |us: Option<f64>| shown(us.map(|us| us / 1e3));
        table.push([
            cost.who.to_owned(),
            cost.changes.to_string(),
            cost.ends.calls.to_string(),
            cost.ends.failed[0].to_string(),
            cost.ends.failed[1].to_string(),
            cost.ends.twice.to_string(),
            ms(cost.p99_us),
            ms(cost.sham_p99_us),
            shown(cost.ratio()),
        ]);
    }
    table
}

fn chart(cost: &Cost) -> Option<Chart> {
    let bars = [("beside changes", cost.p99_us?), ("without", cost.sham_p99_us?)];
    let tones = [Tone::Primary, Tone::Muted];
    let bars = bars.into_iter().zip(tones).map(|((name, us), tone)| Bar::new(name, us, tone));
    let title = format!("99th percentile of calls beside changes: {}", cost.who);
    Some(Chart::bars(title, Axis::linear("Latency", "µs"), bars.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::kill::{Call, Ran};

    #[test]
    fn calls_beside_changes_are_compared_with_those_beside_none() {
        let at = |ms: u64| petasos_base::Time::from_nanos(ms * 1_000_000);
        let call = |begun, ended| Call { begun: at(begun), ended: at(ended), ..Call::default() };
        let calls = vec![call(100, 101), call(1100, 1104), call(5000, 5999)];
        let (times, shams) = (vec![at(1101)], vec![at(100)]);
        let changes = Changes { who: "x", at: times, shams, calls, ran: Ran::default() };
        let json = Cost::of(&changes).json();
        assert_eq!((&json["ratio"], &json["changes"]), (&4.0.into(), &1.into()));
        assert_eq!((&json["calls"], &json["failed_idempotent"]), (&3.into(), &0.into()));
    }
}
