//! A canvas that writes SVG elements; all text is escaped here.

use std::fmt::{Display, Write};

use crate::escape::escape;

/// Where a text stands relative to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG drawing of fixed size in user units, which the page scales.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64) -> Canvas {
        Canvas { width, height, body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    /// A bar growing right from its left end, rounded at its right one.
    pub(super) fn bar(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, hint: &str) {
        let radius = BAR_RADIUS.min(width);
        let (straight, side) = (width - radius, height - 2.0 * radius);
        let upper = format!("q{radius:.1} 0 {radius:.1} {radius:.1}");
        let lower = format!("q0 {radius:.1} -{radius:.1} {radius:.1}");
        self.add(format_args!(
            "<path class=\"fill {class}\" d=\"M{x:.1} {y:.1}h{straight:.1}{upper}v{side:.1}{lower}\
             h-{straight:.1}z\"><title>{}</title></path>",
            escape(hint)
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        self.add(format_args!(
            r#"<polyline class="stroke {class}" points="{}"/>"#,
            list.trim_end()
        ));
    }

    /// A marker whose shape follows from the class: circle, square, diamond or triangle.
    pub(super) fn marker(&mut self, class: &str, (x, y): (f64, f64), hint: &str) {
        let shape = match class {
            "c2" => format!("M{:.1} {:.1}h7v7h-7z", x - 3.5, y - 3.5),
            "c3" => format!("M{x:.1} {:.1}l4.8 4.8l-4.8 4.8l-4.8 -4.8z", y - 4.8),
            "c4" => format!("M{x:.1} {:.1}l4.6 8h-9.2z", y - 5.0),
            _ => format!("M{:.1} {y:.1}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", x - 4.0),
        };
        self.add(format_args!(
            r#"<path class="marker {class}" d="{shape}"><title>{}</title></path>"#,
            escape(hint)
        ));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        ));
    }

    /// Width and height in user units.
    pub(super) fn size(&self) -> (f64, f64) {
        (self.width, self.height)
    }

    /// The finished element, described by `summary` to readers who cannot see it.
    pub(super) fn finish(self, id: usize, summary: &str) -> String {
        let (width, height, body) = (self.width, self.height, self.body);
        let summary = escape(summary);
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"f{id}\">\n\
             <desc id=\"f{id}\">{summary}</desc>\n{body}</svg>\n"
        )
    }

    fn add(&mut self, element: impl Display) {
        let _ = writeln!(self.body, "{element}");
    }
}

/// About how wide a text is drawn at most, in user units. Fonts differ: this is what the widest of
/// those in the style sheets takes, DejaVu Sans in bold.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().map(character_width).sum::<f64>() * FONT_SIZE
}

/// The width of a character, as a part of the size of the font.
fn character_width(character: char) -> f64 {
    match character {
        ' ' | 'i' | 'j' | 'l' | 'I' | 'J' | '.' | ',' | ':' | ';' | '\'' | '|' | '/' => 0.4,
        '-' | 'f' | 'r' | 't' | '(' | ')' | '[' | ']' => 0.5,
        'c' | 's' | 'z' | '"' | '*' => 0.6,
        'm' | 'M' | 'W' | '%' | '@' | '…' | '—' => 1.11,
        'w' | 'A'..='Z' | '#' | '&' | '<' | '>' | '=' | '+' | '^' | '~' | '×' => 0.93,
        ' '..='~' => 0.73,
        other => unicode_width::UnicodeWidthChar::width(other).unwrap_or(0) as f64 * 0.8,
    }
}

/// `text`, shortened with an ellipsis to at most `limit` characters.
pub(super) fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit - 1).collect();
    format!("{}…", kept.trim_end())
}

const FONT_SIZE: f64 = 13.0;
const BAR_RADIUS: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_widest_font_and_little_more() {
        // What DejaVu Sans Bold takes for these, in parts of its size (its table `hmtx`).
        for (text, drawn) in
            [("Hamburgefonstiv", 9.77), ("managed, p99.9", 9.12), ("1.76 ms", 4.45)]
        {
            let width = text_width(text) / FONT_SIZE;
            assert!(width >= drawn && width < 1.25 * drawn, "{text}: {width}");
        }
    }
}
