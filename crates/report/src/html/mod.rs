//! The report: one HTML file without outside resources, for light and dark screens and for paper.
//!
//! All text is escaped on its way into the page, and the page forbids itself scripts and outside
//! resources, because names and values may come from a user's files.

use std::fmt::Write;
use std::path::Path;

use crate::escape::escape;
use crate::figure::Figure;
use crate::file::{WriteError, write_atomically};
use crate::machine::Machine;
use crate::table::{Column, Table};

/// One number worth seeing first.
#[derive(Clone, Debug)]
struct Highlight {
    label: String,
    value: String,
    note: String,
}

/// A report under construction. Blocks appear in the order in which they were added.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    subtitle: String,
    command: Option<String>,
    machine: Option<Machine>,
    highlights: Vec<Highlight>,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Figure(Figure),
    Table(String, Table),
    Paragraph(String),
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Report {
        Report {
            title: title.into(),
            subtitle: subtitle.into(),
            command: None,
            machine: None,
            highlights: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// States the command that produced the report.
    pub fn command(mut self, command: impl Into<String>) -> Report {
        self.command = Some(command.into());
        self
    }

    /// States where the measurements were made.
    pub fn machine(mut self, machine: Machine) -> Report {
        self.machine = Some(machine);
        self
    }

    /// Adds a number to the row at the top: its name, its value with the unit, and a value to
    /// compare it with, each in a few words.
    pub fn highlight(
        mut self,
        label: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Report {
        let (label, value, note) = (label.into(), value.into(), note.into());
        self.highlights.push(Highlight { label, value, note });
        self
    }

    /// Adds a figure, followed by the table of its data.
    pub fn figure(mut self, figure: Figure) -> Report {
        self.blocks.push(Block::Figure(figure));
        self
    }

    /// Adds a table under a heading.
    pub fn table(mut self, title: impl Into<String>, table: Table) -> Report {
        self.blocks.push(Block::Table(title.into(), table));
        self
    }

    /// Adds a paragraph of text.
    pub fn paragraph(mut self, text: impl Into<String>) -> Report {
        self.blocks.push(Block::Paragraph(text.into()));
        self
    }

    /// The page.
    pub fn to_html(&self) -> String {
        let mut page = String::new();
        let title = escape(&self.title);
        let _ = write!(
            page,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        );
        self.write_header(&mut page);
        for (index, block) in self.blocks.iter().enumerate() {
            write_block(&mut page, index, block);
        }
        self.write_footer(&mut page);
        page + "</main>\n</body>\n</html>\n"
    }

    /// Writes the page to `path`, all of it or nothing.
    ///
    /// # Errors
    /// When the folder is missing or not writable: the caller's choice of path, safe to retry.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        write_atomically(path, self.to_html().as_bytes())
    }

    fn write_header(&self, page: &mut String) {
        let (title, subtitle) = (escape(&self.title), escape(&self.subtitle));
        let _ = writeln!(
            page,
            "<header>\n<p class=\"brand\">Petasos</p>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{subtitle}</p>"
        );
        if !self.highlights.is_empty() {
            *page += "<dl class=\"tiles\">\n";
            for Highlight { label, value, note } in &self.highlights {
                let (label, value, note) = (escape(label), escape(value), escape(note));
                let _ = writeln!(
                    page,
                    "<div><dt>{label}</dt><dd><b>{value}</b><span>{note}</span></dd></div>"
                );
            }
            *page += "</dl>\n";
        }
        *page += "</header>\n";
    }

    fn write_footer(&self, page: &mut String) {
        if self.command.is_none() && self.machine.is_none() {
            return;
        }
        *page += "<footer>\n<dl>\n";
        if let Some(command) = &self.command {
            let command = escape(command);
            let _ = writeln!(page, "<dt>Command</dt><dd><code>{command}</code></dd>");
        }
        if let Some(machine) = &self.machine {
            let machine = escape(&machine.to_string());
            let _ = writeln!(page, "<dt>Machine</dt><dd>{machine}</dd>");
        }
        *page += "</dl>\n</footer>\n";
    }
}

fn write_block(page: &mut String, index: usize, block: &Block) {
    match block {
        Block::Figure(figure) => write_figure(page, index, figure),
        Block::Table(title, table) => {
            let title = escape(title);
            let _ = writeln!(page, "<section>\n<h2>{title}</h2>");
            write_table(page, &title, table);
            *page += "</section>\n";
        }
        Block::Paragraph(text) => {
            let _ = writeln!(page, "<p class=\"text\">{}</p>", escape(text));
        }
    }
}

fn write_figure(page: &mut String, index: usize, figure: &Figure) {
    let title = escape(figure.title());
    let _ = writeln!(
        page,
        "<section>\n<h2>{title}</h2>\n<figure>\n<div class=\"wide\" tabindex=\"0\">"
    );
    *page += &figure.svg(index);
    *page += "</div>\n";
    if !figure.caption_text().is_empty() {
        let _ = writeln!(page, "<figcaption>{}</figcaption>", escape(figure.caption_text()));
    }
    let table = figure.table();
    let open = if table.rows().len() <= OPEN_ROWS_MAX { " open" } else { "" };
    let _ = writeln!(page, "</figure>\n<details{open}>\n<summary>Data</summary>");
    write_table(page, &title, &table);
    *page += "</details>\n</section>\n";
}

/// `label` is escaped already.
fn write_table(page: &mut String, label: &str, table: &Table) {
    let class = |column: &Column| if column.is_number() { " class=\"n\"" } else { "" };
    let _ = write!(
        page,
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{label}, table\">\n\
         <table>\n<thead><tr>"
    );
    for column in table.columns() {
        let _ =
            write!(page, "<th scope=\"col\"{}>{}</th>", class(column), escape(&column.heading()));
    }
    *page += "</tr></thead>\n<tbody>\n";
    for row in table.rows() {
        *page += "<tr>";
        for (cell, column) in row.iter().zip(table.columns()) {
            let _ = write!(page, "<td{}>{}</td>", class(column), escape(cell));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table>\n</div>\n";
}

/// Tables up to this length are shown, longer ones unfold.
const OPEN_ROWS_MAX: usize = 12;
/// Nothing may be loaded or run, whatever a value may have smuggled in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Bar, Tone};

    fn sample(text: &str) -> Report {
        let mut table = Table::new([Column::text(text), Column::number("n", "")]);
        table.push([text, "1"]);
        let bars = vec![Bar::new(text, 1.0, Tone::Primary)];
        Report::new(text, text)
            .command(text)
            .machine(Machine { cpu_model: Some(text.into()), ..Machine::default() })
            .highlight(text, text, text)
            .paragraph(text)
            .figure(Figure::bars(text, Axis::linear(text, text), bars).caption(text))
            .table(text, table)
    }

    #[test]
    fn no_text_can_leave_its_place() {
        let page = sample("\"><img src=x onerror='a'>&").to_html();
        assert!(!page.contains("<img"), "{page}");
        assert!(!page.contains("onerror='"), "{page}");
        assert!(page.contains("&quot;&gt;&lt;img src=x onerror=&#39;a&#39;&gt;&amp;"), "{page}");
    }

    #[test]
    fn the_page_needs_nothing_from_outside() {
        let page = sample("plain").to_html();
        for outside in ["http://", "https://", "url(", "@import", "<script", "<link", "src="] {
            assert!(!page.contains(outside), "{outside} in {page}");
        }
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let page = sample("plain").to_html();
        for element in ["main", "header", "section", "figure", "table", "svg", "dl", "details"] {
            let opened = page.matches(&format!("<{element}>")).count()
                + page.matches(&format!("<{element} ")).count();
            let closed = page.matches(&format!("</{element}>")).count();
            assert!(opened > 0 && opened == closed, "{element}: {opened} opened, {closed} closed");
        }
    }

    #[test]
    fn a_report_is_written_whole() {
        let path = std::env::temp_dir().join(format!("petasos-report-{}.html", std::process::id()));
        sample("plain").write(&path).expect("the temporary folder is writable");
        let page = std::fs::read_to_string(&path).expect("it was just written");
        assert_eq!(page, sample("plain").to_html());
        std::fs::remove_file(path).expect("ours");
    }
}
