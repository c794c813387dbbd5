//! Tables: on a terminal, in a log, and (through the report) in HTML.

use std::io::{self, IsTerminal, Write};

use unicode_width::UnicodeWidthStr;

use crate::wrap::{Need, broken, unbroken, wrap};

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

/// Finds the widths of columns that may have so many character cells together.
type Fit = fn(&[Need], usize) -> Vec<usize>;

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With box-drawing lines, for terminals.
    Boxed,
    /// With ASCII only, for files and pipes.
    Plain,
    /// Without lines, two spaces between columns: for what other programs read line by line.
    Open,
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

    /// The table as text, as wide as its longest cells need. Each line ends with a newline.
    pub fn render(&self, style: Style) -> String {
        self.render_within(style, usize::MAX)
    }

    /// The table as text of at most `width` character cells a line, each line ended.
    ///
    /// Headings of numbers that do not fit are wrapped; then a table loses its outer lines and the
    /// spaces beside the others; then words are wrapped inside of their cells. Numbers are never
    /// broken. A table whose numbers and shortest columns need more than `width` is wider.
    pub fn render_within(&self, style: Style, width: usize) -> String {
        let (frame, widths) = self.layout(style, width);
        let headings: Vec<String> = self.columns.iter().map(Column::heading).collect();
        let [top, middle, bottom] = frame.lines(&widths);
        // Rows of several lines are separated by rules.
        let is_broken =
            |row: &Vec<String>| row.iter().zip(&widths).any(|(cell, width)| cell.width() > *width);
        let between = if self.rows.iter().any(is_broken) { middle.as_str() } else { "" };
        let rows: Vec<String> =
            self.rows.iter().map(|row| self.row(row, &widths, &frame)).collect();
        let headings = self.row(&headings, &widths, &frame);
        top + &headings + &middle + &rows.join(between) + &bottom
    }

    /// Prints the table on standard output: boxed and as wide as the terminal, or plain and as wide
    /// as it needs elsewhere.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let text = if out.is_terminal() {
            self.render_within(Style::Boxed, terminal_width())
        } else {
            self.render(Style::Plain)
        };
        out.write_all(text.as_bytes())
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The frame and the columns' widths for lines of `width` cells. A tight frame is better than
    /// broken cells, and broken cells are better than lines that are too long.
    fn layout(&self, style: Style, width: usize) -> (Frame, Vec<usize>) {
        let needs = self.needs();
        let (roomy, tight) = (Frame::of(style), Frame::of(style).tight());
        let place = |(fit, frame): (Fit, Frame)| {
            let widths = fit(&needs, width.saturating_sub(frame.width(needs.len())));
            (frame, widths)
        };
        let fits = |(frame, widths): &(Frame, Vec<usize>)| {
            frame.width(needs.len()) + widths.iter().sum::<usize>() <= width
        };
        let ways: [(Fit, Frame); 3] = [(unbroken, roomy), (unbroken, tight), (broken, roomy)];
        ways.into_iter().map(place).find(fits).unwrap_or_else(|| place((broken, tight)))
    }

    fn needs(&self) -> Vec<Need> {
        let need = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[index].width()).max().unwrap_or(0);
            Need { heading: column.heading(), cells, is_number: column.number }
        };
        self.columns.iter().enumerate().map(need).collect()
    }

    /// A row, whose cells are wrapped to `widths`.
    fn row(&self, cells: &[String], widths: &[usize], frame: &Frame) -> String {
        let cells: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        (0..height).map(|index| self.line(&cells, index, widths, frame)).collect()
    }

    fn line(&self, cells: &[Vec<String>], index: usize, widths: &[usize], frame: &Frame) -> String {
        let aligned = cells.iter().zip(widths).zip(&self.columns).map(|((cell, width), column)| {
            let text = cell.get(index).map_or("", String::as_str);
            let padding = " ".repeat(width - text.width());
            if column.number { padding + text } else { text.to_owned() + &padding }
        });
        let aligned = aligned.collect::<Vec<_>>().join(frame.between);
        format!("{}\n", format!("{}{aligned}{}", frame.left, frame.right).trim_end())
    }
}

/// How many character cells a line of standard output has; without limit if that is no terminal,
/// or does not tell.
pub fn terminal_width() -> usize {
    let out = io::stdout();
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if out.is_terminal() && size.ws_col > 0 => usize::from(size.ws_col),
        _ => usize::MAX,
    }
}

/// The characters of one horizontal line.
#[derive(Clone, Copy)]
struct Rule {
    left: &'static str,
    fill: &'static str,
    cross: &'static str,
    right: &'static str,
}

impl Rule {
    fn line(&self, widths: &[usize], padding: usize) -> String {
        let span = |width: &usize| self.fill.repeat(width + 2 * padding);
        let spans: Vec<String> = widths.iter().map(span).collect();
        format!("{}{}{}\n", self.left, spans.join(self.cross), self.right)
    }
}

#[derive(Clone, Copy)]
struct Frame {
    /// Above the headings, below them, and below all rows.
    rules: Option<[Rule; 3]>,
    left: &'static str,
    between: &'static str,
    right: &'static str,
    /// The spaces on each side of a line between columns.
    padding: usize,
}

impl Frame {
    const fn of(style: Style) -> Frame {
        match style {
            Style::Boxed => {
                let top = Rule { left: "╭", fill: "─", cross: "┬", right: "╮" };
                let middle = Rule { left: "├", fill: "─", cross: "┼", right: "┤" };
                let bottom = Rule { left: "╰", fill: "─", cross: "┴", right: "╯" };
                let rules = Some([top, middle, bottom]);
                Frame { rules, left: "│ ", between: " │ ", right: " │", padding: 1 }
            }
            Style::Plain => {
                const RULE: Rule = Rule { left: "+", fill: "-", cross: "+", right: "+" };
                let rules = Some([RULE, RULE, RULE]);
                Frame { rules, left: "| ", between: " | ", right: " |", padding: 1 }
            }
            Style::Open => Frame { rules: None, left: "", between: "  ", right: "", padding: 0 },
        }
    }

    /// The same frame without outer lines, and without spaces beside the others. A frame without
    /// lines stays as it is.
    fn tight(self) -> Frame {
        let Some(rules) = self.rules else { return self };
        let rules = Some(rules.map(|rule| Rule { left: "", right: "", ..rule }));
        Frame { rules, left: "", between: self.between.trim(), right: "", padding: 0 }
    }

    /// The character cells that are not columns'.
    fn width(&self, columns: usize) -> usize {
        let between = self.between.width() * columns.saturating_sub(1);
        self.left.width() + between + self.right.width()
    }

    /// Its horizontal lines, empty if it has none.
    fn lines(&self, widths: &[usize]) -> [String; 3] {
        self.rules.as_ref().map_or_else(Default::default, |rules| {
            [&rules[0], &rules[1], &rules[2]].map(|rule| rule.line(widths, self.padding))
        })
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
    fn long_words_are_wrapped_and_numbers_are_not() {
        let mut table = Table::new([Column::text("what"), Column::number("n", "")]);
        table.push(["a sentence that is longer than the table may be", "1234567890"]);
        table.push(["short", "1"]);
        let expected = "\
            +-----------------+------------+\n\
            | what            |          n |\n\
            +-----------------+------------+\n\
            | a sentence that | 1234567890 |\n\
            | is longer than  |            |\n\
            | the table may   |            |\n\
            | be              |            |\n\
            +-----------------+------------+\n\
            | short           |          1 |\n\
            +-----------------+------------+\n";
        assert_eq!(table.render_within(Style::Plain, 32), expected);
    }

    #[test]
    fn headings_of_numbers_are_wrapped_before_words() {
        let mut table = Table::new([
            Column::text("what"),
            Column::number("p99.9", "us"),
            Column::number("of all", ""),
        ]);
        table.push(["two words", "1.23", "7"]);
        table.push(["three words", "45.60", "89"]);
        let expected = "\
            +-------------+-------+-----+\n\
            | what        | p99.9 |  of |\n\
            |             |  [us] | all |\n\
            +-------------+-------+-----+\n\
            | two words   |  1.23 |   7 |\n\
            | three words | 45.60 |  89 |\n\
            +-------------+-------+-----+\n";
        assert_eq!(table.render_within(Style::Plain, 36), expected);
        assert_eq!(table.render_within(Style::Plain, 37), table.render(Style::Plain));
        let narrow = table.render_within(Style::Plain, 21);
        let tight = "-----------+-----+---\nwhat       |p99.9| of\n           | [us]|all\n";
        assert!(narrow.starts_with(tight), "{narrow}");
        assert!(narrow.contains("\ntwo words  | 1.23|  7\n"), "{narrow}");
        let broken = table.render_within(Style::Plain, 18);
        assert!(broken.contains("\nthree   |45.60| 89\nwords   |     |\n"), "{broken}");
    }

    #[test]
    fn a_table_is_no_wider_than_it_may_be_and_loses_nothing() {
        let words = "the quick brown fox jumps over a lazy dog /a/path/without/any/space";
        let mut table = Table::new(["one", "two", "three"].map(Column::text));
        table.push([words, "short", words]);
        for width in 40..200 {
            let text = table.render_within(Style::Boxed, width);
            assert!(text.lines().all(|line| line.width() <= width), "{width}\n{text}");
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).count();
            let headings = "onetwothree".len();
            assert_eq!(letters(&text), headings + 2 * letters(words) + 5, "{width}\n{text}");
        }
    }

    #[test]
    fn an_open_table_has_neither_lines_nor_spaces_at_the_end() {
        let mut table = sample();
        table.push(["a longer word", "1.00"]);
        let expected = "\
            what           p50 [us]\n\
            petasos            5.80\n\
            raw              123.00\n\
            a longer word      1.00\n";
        assert_eq!(table.render(Style::Open), expected);
        let narrow = table.render_within(Style::Open, 18);
        assert!(narrow.lines().all(|line| line.len() <= 18), "{narrow}");
        assert!(narrow.contains("a longer      1.00\nword\n"), "{narrow}");
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
