//! The frame that percentile and line figures share: axes, grid, curves and labels beside them.

use super::scale::Scale;
use super::svg::{Anchor, Canvas, shorten, text_width};
use super::unit::Labels;
use super::{Axis, Tone};

/// The direction of the curves. Labels go where the curves are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lean {
    Rising,
    Falling,
}

/// A drawing area with scales and its axes drawn.
pub(super) struct Plot {
    canvas: Canvas,
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    end_labels: Vec<EndLabel>,
    /// Where values stand.
    values: Vec<Place>,
}

/// The middle of a text's baseline, and half of its width.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    half: f64,
}

impl Place {
    fn meets(self, other: Place) -> bool {
        let (x, y) = ((self.x - other.x).abs(), (self.y - other.y).abs());
        x < self.half + other.half && y < LINE_HEIGHT / 2.0
    }
}

struct EndLabel {
    y: f64,
    tone: Tone,
    text: String,
}

impl Plot {
    /// Draws axes and grid; `x_tick` names the ticks of the horizontal axis. Room is left at the
    /// right for `names`, the labels of the curves.
    pub(super) fn new<'n>(
        x: Scale,
        y: Scale,
        (x_title, y_axis): (&str, &Axis),
        x_tick: impl Fn(f64) -> String,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Plot {
        let widest = names.into_iter().map(|name| text_width(&shorten(name, NAME_CHARACTERS_MAX)));
        let right = WIDTH - 24.0 - widest.fold(0.0, f64::max);
        let labels = Labels::of(y_axis, &y);
        let ticks = y.ticks().iter().map(|tick| text_width(&labels.tick(*tick)));
        let left = EDGE + TICK_GAP + ticks.fold(0.0, f64::max);
        let canvas = Canvas::new(WIDTH, HEIGHT);
        let mut plot =
            Plot { canvas, x, y, left, right, end_labels: Vec::new(), values: Vec::new() };
        plot.draw_y_axis(&labels);
        plot.draw_x_axis(x_title, x_tick);
        plot
    }

    /// Draws a curve and, at its end, its name.
    pub(super) fn curve(&mut self, name: &str, tone: Tone, points: &[(f64, f64)]) {
        let Some(last) = points.last() else { return };
        let placed: Vec<(f64, f64)> = points.iter().map(|point| self.place(*point)).collect();
        self.canvas.polyline(tone.class(), &placed);
        let text = shorten(name, NAME_CHARACTERS_MAX);
        self.end_labels.push(EndLabel { y: self.place(*last).1, tone, text });
    }

    /// Marks the points at one x. The highest gets its value above, the lowest below, so that
    /// labels at one x never meet. Values in between are only in the table, and so are those that
    /// would cover another or the axis.
    pub(super) fn mark(
        &mut self,
        points: &[(Tone, (f64, f64))],
        lean: Lean,
        label: impl Fn(f64) -> String,
    ) {
        let mut points = points.to_vec();
        points.sort_by(|left, right| right.1.1.total_cmp(&left.1.1));
        let last = points.len().saturating_sub(1);
        for (index, (tone, point)) in points.into_iter().enumerate() {
            let (x, y) = self.place(point);
            let text = label(point.1);
            self.canvas.marker(tone.class(), (x, y), &text);
            let aside = if lean == Lean::Rising { 1.0 } else { -1.0 };
            if index == 0 {
                self.value(&text, (x, y - 11.0), -aside);
            } else if index == last {
                self.value(&text, (x, y + 21.0), aside);
            }
        }
    }

    /// The finished drawing, with the names of the curves beside their ends.
    pub(super) fn finish(mut self) -> Canvas {
        self.end_labels.sort_by(|left, right| left.y.total_cmp(&right.y));
        let wanted: Vec<f64> = self.end_labels.iter().map(|label| label.y).collect();
        let placed = spread(&wanted, TOP, HEIGHT - BOTTOM);
        for (label, y) in self.end_labels.iter().zip(placed) {
            let class = format!("name {}", label.tone.class());
            self.canvas.text(&class, (self.right + 10.0, y + 4.5), Anchor::Start, &label.text);
        }
        self.canvas
    }

    /// The drawing when there is nothing to draw.
    pub(super) fn say_empty(&mut self) {
        let middle = (f64::midpoint(self.left, self.right), f64::midpoint(TOP, HEIGHT - BOTTOM));
        self.canvas.text("tick", middle, Anchor::Middle, "no data");
    }

    /// Writes a value, moved to the left (-1) or to the right (1), but not out of the area.
    fn value(&mut self, text: &str, (x, y): (f64, f64), side: f64) {
        let half = text_width(text) / 2.0;
        let (left, right) = (self.left + half + 4.0, self.right - half);
        let x = (x + side * half * SIDESTEP).clamp(left, right.max(left));
        let place = Place { x, y, half };
        if y > HEIGHT - BOTTOM || self.values.iter().any(|other| place.meets(*other)) {
            return;
        }
        self.values.push(place);
        self.canvas.text("value", (x, y), Anchor::Middle, text);
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let bottom = HEIGHT - BOTTOM;
        let x = self.left + self.x.position(x) * (self.right - self.left);
        (x, bottom - self.y.position(y) * (bottom - TOP))
    }

    fn draw_y_axis(&mut self, labels: &Labels) {
        for value in self.y.ticks().to_vec() {
            let (_, y) = self.place((0.0, value));
            self.canvas.line("grid", (self.left, y), (self.right, y));
            let tick = labels.tick(value);
            self.canvas.text("tick", (self.left - TICK_GAP, y + 4.5), Anchor::End, &tick);
        }
        self.canvas.text("axis", (EDGE, 20.0), Anchor::Start, &labels.title);
    }

    fn draw_x_axis(&mut self, title: &str, tick: impl Fn(f64) -> String) {
        let bottom = HEIGHT - BOTTOM;
        let mut free_from = f64::NEG_INFINITY;
        for value in self.x.ticks().to_vec() {
            let (x, _) = self.place((value, 0.0));
            self.canvas.line("notch", (x, bottom), (x, bottom + 5.0));
            let text = tick(value);
            let half = text_width(&text) / 2.0;
            if x - half >= free_from {
                self.canvas.text("tick", (x, bottom + 22.0), Anchor::Middle, &text);
                free_from = x + half + 6.0;
            }
        }
        self.canvas.line("base", (self.left, bottom), (self.right, bottom));
        let middle = f64::midpoint(self.left, self.right);
        self.canvas.text("axis", (middle, HEIGHT - 8.0), Anchor::Middle, title);
    }
}

/// Moves ascending positions apart to at least a line's height, within `low` to `high` if they fit.
fn spread(wanted: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for y in wanted {
        let least = placed.last().map_or(low, |above| above + LINE_HEIGHT);
        placed.push(y.max(least));
    }
    let mut limit = high;
    for y in placed.iter_mut().rev() {
        *y = y.min(limit);
        limit = *y - LINE_HEIGHT;
    }
    placed
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
/// What is left free at the left edge, and between the ticks of the vertical axis and the area.
const EDGE: f64 = 12.0;
const TICK_GAP: f64 = 10.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 58.0;
const LINE_HEIGHT: f64 = 18.0;
/// How far values stand aside, as a part of half their width.
const SIDESTEP: f64 = 0.7;
const NAME_CHARACTERS_MAX: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_would_meet_are_spread() {
        assert_eq!(spread(&[100.0, 101.0, 200.0], 0.0, 300.0), [100.0, 118.0, 200.0]);
        assert_eq!(spread(&[299.0, 300.0], 0.0, 300.0), [282.0, 300.0]);
        assert_eq!(spread(&[], 0.0, 300.0), [] as [f64; 0]);
    }

    #[test]
    fn values_that_would_cover_others_or_the_axis_are_left_out() {
        let place = |x, y| Place { x, y, half: 20.0 };
        assert!(place(100.0, 50.0).meets(place(130.0, 55.0)));
        assert!(!place(100.0, 50.0).meets(place(141.0, 50.0)));
        assert!(!place(100.0, 50.0).meets(place(100.0, 60.0)));
        let axis = Axis::linear("Value", "");
        let scale = || Scale::linear([0.0, 10.0], Some(0.0));
        let tick = |value: f64| value.to_string();
        let mut plot = Plot::new(scale(), scale(), ("x", &axis), tick, []);
        for (x, y) in [(5.0, 8.0), (5.1, 8.0), (9.0, 0.0)] {
            let points = [(Tone::Primary, (x, 9.9)), (Tone::Primary, (x, y))];
            plot.mark(&points, Lean::Rising, |value| format!("is {value}"));
        }
        let svg = plot.finish().finish(0, "");
        let shown = |value: &str| svg.matches(&format!(r#"middle">is {value}<"#)).count();
        assert_eq!((shown("8"), shown("0"), shown("9.9")), (1, 0, 2), "{svg}");
    }
}
