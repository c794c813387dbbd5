//! Horizontal bars from 0, with their values at their ends.

use super::scale::Scale;
use super::svg::{Anchor, Canvas, shorten, text_width};
use super::unit::{Labels, with_unit};
use super::{Axis, Bar};
use crate::format;
use crate::table::{Column, Table};

pub(super) fn draw(axis: &Axis, bars: &[Bar]) -> Canvas {
    let layout = Layout::of(axis, bars);
    let mut canvas = Canvas::new(WIDTH, layout.bottom + BOTTOM);
    draw_axis(&mut canvas, axis, &layout);
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(&mut canvas, axis, &layout, bar, TOP + index as f64 * ROW);
    }
    canvas.line("base", (layout.left, TOP - 6.0), (layout.left, layout.bottom));
    canvas
}

pub(super) fn table(axis: &Axis, bars: &[Bar]) -> Table {
    let numbers = [&axis.label, "Least", "Most"].map(|name| Column::number(name, &axis.unit));
    let mut table = Table::new([Column::text("")].into_iter().chain(numbers));
    for bar in bars {
        let limit = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format::significant);
        let (least, most) = bar.range.unzip();
        table.push([bar.name.clone(), format::significant(bar.value), limit(least), limit(most)]);
    }
    table
}

struct Layout {
    scale: Scale,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Layout {
    fn of(axis: &Axis, bars: &[Bar]) -> Layout {
        let names = bars.iter().map(|bar| text_width(&shorten(&bar.name, NAME_CHARACTERS_MAX)));
        let values = bars.iter().map(|bar| text_width(&value_text(axis, bar)));
        let ends = bars.iter().map(|bar| bar.range.map_or(bar.value, |(_, max)| max));
        Layout {
            scale: Scale::linear(ends, Some(0.0)),
            left: 28.0 + names.fold(0.0, f64::max),
            right: WIDTH - 30.0 - values.fold(0.0, f64::max),
            bottom: TOP + bars.len().max(1) as f64 * ROW,
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.scale.position(value) * (self.right - self.left)
    }
}

fn draw_axis(canvas: &mut Canvas, axis: &Axis, layout: &Layout) {
    let labels = Labels::of(axis, &layout.scale);
    for value in layout.scale.ticks() {
        let x = layout.x(*value);
        canvas.line("grid", (x, TOP - 6.0), (x, layout.bottom));
        canvas.text("tick", (x, layout.bottom + 20.0), Anchor::Middle, &labels.tick(*value));
    }
    let middle = f64::midpoint(layout.left, layout.right);
    canvas.text("axis", (middle, layout.bottom + BOTTOM - 8.0), Anchor::Middle, &labels.title);
}

fn draw_bar(canvas: &mut Canvas, axis: &Axis, layout: &Layout, bar: &Bar, y: f64) {
    let middle = y + BAR / 2.0;
    let name = shorten(&bar.name, NAME_CHARACTERS_MAX);
    canvas.text("name", (layout.left - 12.0, middle + 4.5), Anchor::End, &name);
    let text = value_text(axis, bar);
    let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
    let hint = format!("{}: {text}", bar.name);
    let width = layout.x(value) - layout.left;
    canvas.bar(bar.tone.class(), layout.left, y, width, BAR, &hint);
    let mut end = layout.x(value);
    if let Some((min, max)) = bar.range {
        let (from, to) = (layout.x(min), layout.x(max));
        canvas.line("whisker", (from, middle), (to, middle));
        for x in [from, to] {
            canvas.line("whisker", (x, middle - 5.0), (x, middle + 5.0));
        }
        end = end.max(to);
    }
    canvas.text("value", (end + 9.0, middle + 4.5), Anchor::Start, &text);
}

/// The bar's value with its unit.
pub(super) fn value_text(axis: &Axis, bar: &Bar) -> String {
    if !bar.value.is_finite() || bar.value < 0.0 {
        return "–".to_owned();
    }
    with_unit(axis, bar.value)
}

const WIDTH: f64 = 760.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 52.0;
const ROW: f64 = 42.0;
const BAR: f64 = 26.0;
const NAME_CHARACTERS_MAX: usize = 30;
