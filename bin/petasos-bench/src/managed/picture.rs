//! The picture of a figure.

use petasos_report::{Axis, Bar, Figure as Chart, Series, Tone, sheet};

use super::contender::Role;
use super::figures::Figure;
use super::measure::{Measured, PointResult, Row};
use super::quantity::Quantity;

/// Draws the figure as SVG.
pub fn draw(figure: &Figure, measured: &Measured) -> String {
    let headline = measured.points.get(measured.headline);
    let charts = match figure.quantity {
        Quantity::LatencyUs => headline.map_or(Vec::new(), |at| latencies(figure, at)),
        Quantity::OpsPerS => measured.points.iter().map(|at| rates(figure, at)).collect(),
        Quantity::GbitPerS => goodputs(figure, measured),
        Quantity::MemoryBytes => headline.map_or(Vec::new(), |at| memories(figure, at)),
    };
    sheet(&charts)
}

fn bars(
    title: String,
    axis: Axis,
    result: &PointResult,
    value: impl Fn(&Row) -> Option<f64>,
) -> Chart {
    let bars = result.rows.iter().filter_map(|row| Some(Bar::new(row.name, value(row)?, row.tone)));
    Chart::bars(title, axis, bars.collect())
}

fn latencies(figure: &Figure, result: &PointResult) -> Vec<Chart> {
    let chart = |(name, quantile)| {
        let axis = Axis::linear("Round trip", "µs");
        let value = move |row: &Row| row.latency.quantile_us(quantile);
        bars(format!("{}: {name}", figure.title), axis, result, value)
    };
    [("median", 0.5), ("99th percentile", 0.99)].map(chart).to_vec()
}

fn rates(figure: &Figure, result: &PointResult) -> Chart {
    let title = format!("{}: {}", figure.title, result.point.label);
    bars(title, Axis::linear("Rate", "calls/s"), result, Row::ops_per_s)
}

fn goodputs(figure: &Figure, measured: &Measured) -> Vec<Chart> {
    let gbit = |result: &PointResult, row: &Row| row.gbit_per_s(result.point.shape);
    let per_core = |result: &PointResult, row: &Row| row.gbit_per_s_per_core(result.point.shape);
    let (title, per) = (figure.title, "per core used");
    let mut charts = vec![
        lines(title.to_owned(), "Goodput", overview(measured, gbit)),
        lines(format!("{title}, {per}"), "Goodput per core", overview(measured, per_core)),
    ];
    let proxied = proxied(measured, gbit);
    if !proxied.is_empty() {
        charts.push(lines(format!("{title}, behind proxies"), "Goodput", proxied));
    }
    if let Some(at) = measured.points.get(measured.headline) {
        let axis = |name| Axis::linear(name, "Gbit/s");
        let title = |what| format!("Requests of {}{what}", at.point.label);
        charts.push(bars(title(""), axis("Goodput"), at, |row| gbit(at, row)));
        let title = title(", per core used");
        charts.push(bars(title, axis("Goodput per core"), at, |row| per_core(at, row)));
    }
    charts
}

fn lines(title: String, label: &str, series: Vec<Series>) -> Chart {
    Chart::lines(title, Axis::log("Request", "B"), Axis::log(label, "Gbit/s"), series)
}

/// A line of each contender without proxies, and one of the best with proxies at each point.
fn overview(measured: &Measured, value: impl Fn(&PointResult, &Row) -> Option<f64>) -> Vec<Series> {
    let others = names(measured, |row| row.role != Role::Proxied);
    let others = others.into_iter().map(|(name, tone)| line(measured, name, tone, &value));
    let best = measured.points.iter().filter_map(|result| {
        let proxied = result.rows.iter().filter(|row| row.role == Role::Proxied);
        let values = proxied.filter_map(|row| value(result, row));
        Some((result.point.x, values.max_by(f64::total_cmp)?))
    });
    let best = Series::new("best proxy", Tone::Secondary, best);
    let is_there = !names(measured, |row| row.role == Role::Proxied).is_empty();
    others.chain(is_there.then_some(best)).collect()
}

/// A line of each contender with proxies, each in its own colour.
fn proxied(measured: &Measured, value: impl Fn(&PointResult, &Row) -> Option<f64>) -> Vec<Series> {
    let tones = [Tone::Secondary, Tone::Tertiary, Tone::Quaternary, Tone::Muted];
    let names = names(measured, |row| row.role == Role::Proxied);
    let names = names.into_iter().zip(tones.into_iter().cycle());
    names.map(|((name, _), tone)| line(measured, name, tone, &value)).collect()
}

fn line(
    measured: &Measured,
    name: &str,
    tone: Tone,
    value: impl Fn(&PointResult, &Row) -> Option<f64>,
) -> Series {
    let points = measured.points.iter().filter_map(|result| {
        let row = result.rows.iter().find(|row| row.name == name)?;
        Some((result.point.x, value(result, row)?))
    });
    Series::new(name, tone, points)
}

/// The contenders of any point that `is_wanted`, with their colours.
fn names(measured: &Measured, is_wanted: impl Fn(&Row) -> bool) -> Vec<(&'static str, Tone)> {
    let mut names: Vec<(&str, Tone)> = Vec::new();
    let rows = measured.points.iter().flat_map(|result| &result.rows);
    for row in rows.filter(|row| is_wanted(row)) {
        if !names.iter().any(|(name, _)| *name == row.name) {
            names.push((row.name, row.tone));
        }
    }
    names
}

fn memories(figure: &Figure, result: &PointResult) -> Vec<Chart> {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let axis = || Axis::linear("Resident", "MiB");
    let ends = move |row: &Row| Some(mebibytes(row.memory.client + row.memory.server));
    let between = move |row: &Row| Some(mebibytes(row.memory.between));
    vec![
        bars(format!("{}: client and server", figure.title), axis(), result, ends),
        bars(format!("{}: what is between them", figure.title), axis(), result, between),
    ]
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::managed::figures::FigureId;
    use crate::managed::measure::tests::measured;

    #[test]
    fn every_figure_shows_every_contender() {
        for id in FigureId::value_variants() {
            let svg = draw(&id.description(), &measured(*id, &[10, 20]));
            for name in id.description().contenders {
                assert!(svg.contains(&format!(">{name}<")), "{name} in {id:?}");
            }
            assert!(!svg.contains("NaN"), "{id:?}");
        }
    }
}
