//! Figures below each other in one SVG file, for pages without this report's style sheet.
//!
//! Colours and fonts are those of `html/style.css` on a light page, written out, because programs
//! that render SVG files do not support custom properties.

use std::fmt::Write;

use super::Figure;
use crate::escape::escape;

/// The figures as one SVG file, each below its title.
pub fn sheet(figures: &[Figure]) -> String {
    let (mut body, mut width, mut bottom) = (String::new(), 0.0_f64, MARGIN);
    for (id, figure) in figures.iter().enumerate() {
        let (figure_width, height) = figure.canvas().size();
        let title = escape(figure.title());
        let baseline = bottom + TITLE / 2.0;
        let _ = writeln!(body, r#"<text class="title" x="{MARGIN}" y="{baseline}">{title}</text>"#);
        let place = format!(
            r#"<svg x="{MARGIN}" y="{}" width="{figure_width}" height="{height}" "#,
            bottom + TITLE
        );
        body.push_str(&figure.svg(id).replacen("<svg ", &place, 1));
        width = width.max(figure_width);
        bottom += TITLE + height + MARGIN;
    }
    let width = width + 2.0 * MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {bottom}\" \
         width=\"{width}\" height=\"{bottom}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{bottom}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

const MARGIN: f64 = 20.0;
const TITLE: f64 = 36.0;

const STYLE: &str = "
text { font: 13px 'DejaVu Sans', 'Noto Sans', Roboto, sans-serif; fill: #18212c; }
.title { font-size: 17px; font-weight: 700; }
.tick, .axis { fill: #566273; }
.axis, .name, .value { font-weight: 600; }
.grid { stroke: #e8ebf0; }
.notch, .base { stroke: #566273; }
.fill.c1, .marker.c1 { fill: #1d5fd1; } .stroke.c1 { stroke: #1d5fd1; }
.fill.c2, .marker.c2 { fill: #c2530c; } .stroke.c2 { stroke: #c2530c; }
.fill.c3, .marker.c3 { fill: #0f7a5c; } .stroke.c3 { stroke: #0f7a5c; }
.fill.c4, .marker.c4 { fill: #8a3ab9; } .stroke.c4 { stroke: #8a3ab9; }
.fill.c5, .marker.c5 { fill: #667284; } .stroke.c5 { stroke: #667284; }
.stroke { fill: none; stroke-width: 2.25px; }
.whisker { stroke: #18212c; stroke-width: 1.5px; }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, Bar, Tone};

    fn bars(title: &str) -> Figure {
        let bar = Bar::new("a <name>", 2.0, Tone::Secondary);
        Figure::bars(title, Axis::linear("Rate", "1/s"), vec![bar])
    }

    #[test]
    fn figures_stand_below_each_other_with_their_titles() {
        let svg = sheet(&[bars("One & two"), bars("Three")]);
        assert_eq!(svg.matches("<svg ").count(), 3);
        assert_eq!(svg.matches("</svg>").count(), 3);
        let tops: Vec<f64> = svg
            .split("<svg x=")
            .skip(1)
            .filter_map(|part| part.split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!((tops.len(), tops.is_sorted()), (2, true), "{svg}");
        assert!(svg.contains("One &amp; two") && svg.contains("a &lt;name&gt;"), "{svg}");
        assert!(!svg.contains("var("), "renderers of files know no custom properties");
    }
}
