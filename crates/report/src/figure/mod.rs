//! Figures as inline SVG that follows the page's theme, each with the table of its data.
//!
//! Everything visible is drawn with the classes of `html/style.css`; no colour is written here, so
//! that one figure serves light and dark pages. Series differ by colour, by marker and by a label
//! at their end, so that colour is never the only difference.

mod bars;
mod lines;
mod percentiles;
mod plot;
mod scale;
mod sheet;
mod svg;
mod unit;

use std::fmt::Write;

use crate::format;
use crate::histogram::Histogram;
use crate::table::Table;

pub use sheet::sheet;

/// Which colour something is drawn in. One contender keeps its tone through a whole report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The subject of the report.
    Primary,
    /// What the subject is compared with.
    Secondary,
    /// A further comparison.
    Tertiary,
    /// Yet another.
    Quaternary,
    /// Background to the rest.
    Muted,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Tone::Primary => "c1",
            Tone::Secondary => "c2",
            Tone::Tertiary => "c3",
            Tone::Quaternary => "c4",
            Tone::Muted => "c5",
        }
    }
}

/// One axis: what it shows, in which unit, on which scale.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    unit: String,
    log: bool,
}

impl Axis {
    /// A linear axis. A linear axis of values starts at 0. `unit` may be empty.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), log: false }
    }

    /// A logarithmic axis; values that are not positive are left out.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), log: true }
    }
}

/// One bar: a name, its value, and optionally the range that repeated measurements covered.
#[derive(Clone, Debug)]
pub struct Bar {
    name: String,
    value: f64,
    tone: Tone,
    range: Option<(f64, f64)>,
}

impl Bar {
    /// A bar from 0 to `value`. A value that is negative or not a number is drawn as 0 and labelled
    /// `–`.
    pub fn new(name: impl Into<String>, value: f64, tone: Tone) -> Bar {
        Bar { name: name.into(), value, tone, range: None }
    }

    /// Adds a whisker from `min` to `max`.
    pub fn range(mut self, min: f64, max: f64) -> Bar {
        self.range = Some((min, max)).filter(|(min, max)| (0.0..=*max).contains(min));
        self
    }
}

/// One line of a line figure.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    tone: Tone,
    points: Vec<(f64, f64)>,
}

impl Series {
    /// Points (x, y), drawn in the order of x. Points that are not numbers are left out.
    pub fn new(
        name: impl Into<String>,
        tone: Tone,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Series {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let mut points: Vec<(f64, f64)> = points.into_iter().filter(finite).collect();
        points.sort_by(|left, right| left.0.total_cmp(&right.0));
        Series { name: name.into(), tone, points }
    }
}

/// A figure with its caption and the table of its data.
#[derive(Clone, Debug)]
pub struct Figure {
    title: String,
    caption: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Percentiles(Vec<(String, Tone, Histogram)>),
    Bars(Axis, Vec<Bar>),
    Lines(Axis, Axis, Vec<Series>),
}

impl Figure {
    /// Latency by percentile, on an axis that gives each further "nine" the same width.
    pub fn percentiles<N: Into<String>>(
        title: impl Into<String>,
        series: impl IntoIterator<Item = (N, Tone, Histogram)>,
    ) -> Figure {
        let series =
            series.into_iter().map(|(name, tone, histogram)| (name.into(), tone, histogram));
        Figure::of(title, Kind::Percentiles(series.collect()))
    }

    /// Horizontal bars from 0; `axis` is drawn linearly whatever its scale.
    pub fn bars(title: impl Into<String>, axis: Axis, bars: Vec<Bar>) -> Figure {
        Figure::of(title, Kind::Bars(axis, bars))
    }

    /// Lines through points.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
        Figure::of(title, Kind::Lines(x, y, series))
    }

    /// Adds a sentence or two below the figure: what it shows and how to read it.
    pub fn caption(mut self, caption: impl Into<String>) -> Figure {
        self.caption = caption.into();
        self
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn caption_text(&self) -> &str {
        &self.caption
    }

    /// The figure as an `<svg>` element; `id` must be unique in the page.
    pub(crate) fn svg(&self, id: usize) -> String {
        self.canvas().finish(id, &self.summary())
    }

    fn canvas(&self) -> svg::Canvas {
        match &self.kind {
            Kind::Percentiles(series) => percentiles::draw(series),
            Kind::Bars(axis, bars) => bars::draw(axis, bars),
            Kind::Lines(x, y, series) => lines::draw(x, y, series),
        }
    }

    /// The figure's data.
    pub(crate) fn table(&self) -> Table {
        match &self.kind {
            Kind::Percentiles(series) => percentiles::table(series),
            Kind::Bars(axis, bars) => bars::table(axis, bars),
            Kind::Lines(x, y, series) => lines::table(x, y, series),
        }
    }

    fn of(title: impl Into<String>, kind: Kind) -> Figure {
        Figure { title: title.into(), caption: String::new(), kind }
    }

    /// A description for readers who cannot see the figure.
    fn summary(&self) -> String {
        let mut text = format!("{}.", self.title);
        match &self.kind {
            Kind::Percentiles(series) => {
                for (name, _, histogram) in series {
                    let median = histogram.quantile_us(0.5).map_or("–".into(), format::duration_us);
                    let _ = write!(text, " {name}: median {median}.");
                }
            }
            Kind::Bars(axis, bars) => {
                for bar in bars {
                    let _ = write!(text, " {}: {}.", bar.name, bars::value_text(axis, bar));
                }
            }
            Kind::Lines(x, y, series) => {
                let _ = write!(text, " {} over {}.", y.label, x.label);
                for series in series {
                    let _ = write!(text, " {}: {} points.", series.name, series.points.len());
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
