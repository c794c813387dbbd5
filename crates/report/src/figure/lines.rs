//! Lines through points, on linear or logarithmic axes.

use super::plot::{Lean, Plot};
use super::scale::Scale;
use super::svg::Canvas;
use super::unit::{Labels, short};
use super::{Axis, Series, Tone};
use crate::format;
use crate::table::{Column, Table};

pub(super) fn draw(x: &Axis, y: &Axis, series: &[Series]) -> Canvas {
    let series: Vec<Series> = series.iter().map(|series| drawable(x, y, series)).collect();
    let points = || series.iter().flat_map(|series| series.points.iter().copied());
    let x_scale = scale(x, points().map(|p| p.0), None).trimmed(points().map(|p| p.0));
    let y_scale = scale(y, points().map(|p| p.1), Some(0.0));
    let names = series.iter().map(|series| series.name.as_str());
    let labels = Labels::of(x, &x_scale);
    let tick = |value| labels.tick(value);
    let mut plot = Plot::new(x_scale, y_scale, (&labels.title, y), tick, names);
    for series in &series {
        plot.curve(&series.name, series.tone, &series.points);
    }
    let all_x = sorted_x(&series);
    let lean = if rises(&series) { Lean::Rising } else { Lean::Falling };
    for x in &all_x {
        // The values of many points would cover the lines; then markers and the table have to
        // suffice.
        let text = |value| {
            if all_x.len() <= LABELLED_MAX { short(y, value) } else { String::new() }
        };
        plot.mark(&points_at(&series, *x), lean, text);
    }
    if all_x.is_empty() {
        plot.say_empty();
    }
    plot.finish()
}

pub(super) fn table(x: &Axis, y: &Axis, series: &[Series]) -> Table {
    let columns = series.iter().map(|series| Column::number(&series.name, &y.unit));
    let mut table = Table::new([Column::number(&x.label, &x.unit)].into_iter().chain(columns));
    for x in sorted_x(series) {
        let cells = series
            .iter()
            .map(|series| value_at(series, x).map_or_else(|| "–".to_owned(), format::significant));
        table.push([format::exact(x)].into_iter().chain(cells));
    }
    table
}

/// The points that the axes can show.
fn drawable(x: &Axis, y: &Axis, series: &Series) -> Series {
    let shown = |(at, value): &(f64, f64)| (!x.log || *at > 0.0) && (!y.log || *value > 0.0);
    let points = series.points.iter().copied().filter(shown);
    Series::new(series.name.as_str(), series.tone, points)
}

fn scale(axis: &Axis, values: impl Iterator<Item = f64>, from: Option<f64>) -> Scale {
    if axis.log { Scale::log(values) } else { Scale::linear(values, from) }
}

/// Every x of any series, ascending, once.
fn sorted_x(series: &[Series]) -> Vec<f64> {
    let mut all: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Whether most series end higher than they begin.
fn rises(series: &[Series]) -> bool {
    let ends = series.iter().filter_map(|series| series.points.first().zip(series.points.last()));
    let balance: i64 = ends.map(|(first, last)| if last.1 >= first.1 { 1 } else { -1 }).sum();
    balance >= 0
}

fn value_at(series: &Series, x: f64) -> Option<f64> {
    series.points.iter().find(|point| point.0 == x).map(|point| point.1)
}

fn points_at(series: &[Series], x: f64) -> Vec<(Tone, (f64, f64))> {
    let points = series.iter().filter_map(|series| Some((series.tone, (x, value_at(series, x)?))));
    points.collect()
}

const LABELLED_MAX: usize = 9;
