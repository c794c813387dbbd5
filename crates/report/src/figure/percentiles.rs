//! Latency by percentile. The horizontal axis counts nines: 90 %, 99 %, 99.9 % are equally far
//! apart, because the tail is what the figure is for.

use super::plot::{Lean, Plot};
use super::scale::Scale;
use super::svg::Canvas;
use super::{Axis, Tone};
use crate::format;
use crate::histogram::Histogram;
use crate::table::{Column, Table};

pub(super) fn draw(series: &[(String, Tone, Histogram)]) -> Canvas {
    let nines = series.iter().map(|(_, _, histogram)| nines_known(histogram)).fold(1.0, f64::max);
    let x = Scale::with_ticks(0.0, nines, nine_ticks(nines));
    let curves: Vec<_> = series.iter().map(|(_, _, histogram)| curve(histogram)).collect();
    // Room below and above the curves, for the values marked on them.
    let room = |point: &(f64, f64)| [point.1 * 0.8, point.1 * 1.15];
    let y = Scale::log(curves.iter().flatten().flat_map(room));
    let names = series.iter().map(|(name, _, _)| name.as_str());
    let axes = ("Percentile", &Axis::log("Latency", "µs"));
    let mut plot = Plot::new(x, y, axes, percentile_name, names);
    for ((name, tone, _), curve) in series.iter().zip(&curves) {
        plot.curve(name, *tone, curve);
    }
    for quantile in MARKED {
        plot.mark(&points_at(series, quantile), Lean::Rising, format::duration_us);
    }
    if curves.iter().all(Vec::is_empty) {
        plot.say_empty();
    }
    plot.finish()
}

pub(super) fn table(series: &[(String, Tone, Histogram)]) -> Table {
    let numbers = ["p50", "p90", "p99", "p99.9", "max"].map(|name| Column::number(name, "µs"));
    let first = [Column::text("Series")];
    let last = [Column::number("Count", "")];
    let mut table = Table::new(first.into_iter().chain(numbers).chain(last));
    for (name, _, histogram) in series {
        let values = [0.5, 0.9, 0.99, 0.999, 1.0].map(|quantile| {
            histogram.quantile_us(quantile).map_or_else(|| "–".to_owned(), format::significant)
        });
        let count = format::significant(histogram.count() as f64);
        table.push([name.clone()].into_iter().chain(values).chain([count]));
    }
    table
}

/// The points of all series that know the given quantile.
fn points_at(series: &[(String, Tone, Histogram)], quantile: f64) -> Vec<(Tone, (f64, f64))> {
    let nines = nines_of(quantile);
    let known = series.iter().filter(|(_, _, histogram)| nines_known(histogram) >= nines);
    let point = |histogram: &Histogram| Some((nines, histogram.quantile_us(quantile)?));
    known.filter_map(|(_, tone, histogram)| Some((*tone, point(histogram)?))).collect()
}

/// The points (nines, µs), up to the highest percentile that the number of latencies supports.
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let known = nines_known(histogram);
    let samples = (0..=SAMPLES).map(|index| known * f64::from(index) / f64::from(SAMPLES));
    samples
        .filter_map(|nines| Some((nines, histogram.quantile_us(1.0 - 10f64.powf(-nines))?)))
        .collect()
}

/// How many nines a number of latencies supports: a thousand support 99.9 %.
fn nines_known(histogram: &Histogram) -> f64 {
    (histogram.count().max(1) as f64).log10().min(NINES_MAX)
}

fn nines_of(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn nine_ticks(nines: f64) -> Vec<f64> {
    let whole = (1..=nines.floor() as u32).map(f64::from);
    [nines_of(0.5)].into_iter().chain(whole).collect()
}

/// `50 %`, `90 %`, `99.9 %`.
fn percentile_name(nines: f64) -> String {
    let decimals = (nines.round() as usize).saturating_sub(2);
    format!("{:.decimals$} %", (1.0 - 10f64.powf(-nines)) * 100.0)
}

const MARKED: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];
const NINES_MAX: f64 = 6.0;
const SAMPLES: u32 = 240;
