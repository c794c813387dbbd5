//! Tables: on a terminal, in a log, and (through the report) in HTML.

use std::io::{self, IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

/// A heading and how the cells below it are aligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: String,
    unit: String,
    number: bool,
}

impl Column {
    /// A column of words, aligned left.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: String::new(), number: false }
    }

    /// A column of numbers, aligned right; `unit` (may be empty) stands in the heading.
    pub fn number(name: impl Into<String>, unit: impl Into<String>) -> Column {
        Column { name: name.into(), unit: unit.into(), number: true }
    }

    /// The heading with its unit.
    pub(crate) fn heading(&self) -> String {
        if self.unit.is_empty() {
            self.name.clone()
        } else {
            format!("{} [{}]", self.name, self.unit)
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        self.number
    }
}

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With box-drawing lines, for terminals.
    Boxed,
    /// With ASCII only, for files and pipes.
    Plain,
}

/// Rows of cells under headings.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row. Control characters in cells are shown as `·`: cells may come from user files.
    ///
    /// # Panics
    /// If the row has not one cell for each column.
    pub fn push<I>(&mut self, cells: I)
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let cells: Vec<String> = cells.into_iter().map(|cell| printable(&cell.into())).collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell for each column");
        self.rows.push(cells);
    }

    /// The table as text, each line ended.
    pub fn render(&self, style: Style) -> String {
        let headings: Vec<String> = self.columns.iter().map(Column::heading).collect();
        let widths = self.widths(&headings);
        let frame = Frame::of(style);
        let mut text = frame.top.line(&widths);
        text += &self.line(&headings, &widths, frame.bar);
        text += &frame.middle.line(&widths);
        for row in &self.rows {
            text += &self.line(row, &widths, frame.bar);
        }
        text + &frame.bottom.line(&widths)
    }

    /// Prints the table on standard output: boxed on a terminal, plain elsewhere.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let style = if out.is_terminal() { Style::Boxed } else { Style::Plain };
        out.write_all(self.render(style).as_bytes())
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn widths(&self, headings: &[String]) -> Vec<usize> {
        let width_of = |(index, heading): (usize, &String)| {
            let cells = self.rows.iter().map(|row| row[index].width());
            cells.max().unwrap_or(0).max(heading.width())
        };
        headings.iter().enumerate().map(width_of).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize], bar: &str) -> String {
        let mut line = String::from(bar);
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let padding = " ".repeat(width - cell.width());
            let (left, right) =
                if column.number { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line += &format!(" {left}{cell}{right} {bar}");
        }
        line + "\n"
    }
}

/// The characters of one horizontal line.
struct Rule {
    left: &'static str,
    fill: &'static str,
    cross: &'static str,
    right: &'static str,
}

impl Rule {
    fn line(&self, widths: &[usize]) -> String {
        let spans: Vec<String> = widths.iter().map(|width| self.fill.repeat(width + 2)).collect();
        format!("{}{}{}\n", self.left, spans.join(self.cross), self.right)
    }
}

struct Frame {
    top: Rule,
    middle: Rule,
    bottom: Rule,
    bar: &'static str,
}

impl Frame {
    const fn of(style: Style) -> Frame {
        match style {
            Style::Boxed => Frame {
                top: Rule { left: "╭", fill: "─", cross: "┬", right: "╮" },
                middle: Rule { left: "├", fill: "─", cross: "┼", right: "┤" },
                bottom: Rule { left: "╰", fill: "─", cross: "┴", right: "╯" },
                bar: "│",
            },
            Style::Plain => {
                const RULE: Rule = Rule { left: "+", fill: "-", cross: "+", right: "+" };
                Frame { top: RULE, middle: RULE, bottom: RULE, bar: "|" }
            }
        }
    }
}

/// `text` without characters that would move the cursor or break a line.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([Column::text("what"), Column::number("p50", "us")]);
        table.push(["petasos", "5.80"]);
        table.push(["raw", "123.00"]);
        table
    }

    #[test]
    fn numbers_align_right_and_words_left() {
        let expected = "\
            +---------+----------+\n\
            | what    | p50 [us] |\n\
            +---------+----------+\n\
            | petasos |     5.80 |\n\
            | raw     |   123.00 |\n\
            +---------+----------+\n";
        assert_eq!(sample().render(Style::Plain), expected);
    }

    #[test]
    fn boxed_lines_are_equally_wide() {
        let mut table = sample();
        table.push(["表の行", "1"]);
        let text = table.render(Style::Boxed);
        assert!(text.starts_with('╭') && text.ends_with("╯\n"), "{text}");
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }

    #[test]
    fn a_table_without_rows_has_its_headings() {
        let text = Table::new([Column::text("what")]).render(Style::Plain);
        assert_eq!(text.lines().count(), 4, "{text}");
    }

    #[test]
    fn control_characters_cannot_escape_a_cell() {
        let mut table = Table::new([Column::text("file")]);
        table.push(["a\n\x1b[31mb"]);
        let text = table.render(Style::Plain);
        assert!(!text.contains('\x1b') && text.lines().count() == 5, "{text}");
    }

    #[test]
    #[should_panic(expected = "one cell for each column")]
    fn a_row_of_another_length_is_a_programming_error() {
        sample().push(["alone"]);
    }
}
