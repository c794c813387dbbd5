//! Text in columns of a bounded width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No column of words is made narrower than this, in character cells.
const WIDTH_MIN: usize = 8;

/// What a column has to show.
pub(crate) struct Need {
    pub(crate) heading: String,
    /// The width of the longest cell below the heading.
    pub(crate) cells: usize,
    /// Numbers are never broken, but their headings may be.
    pub(crate) is_number: bool,
}

impl Need {
    /// The width of the column if a heading of numbers takes at most `lines` lines.
    fn width(&self, lines: usize) -> usize {
        let lines = if self.is_number { lines } else { 1 };
        heading_width(&self.heading, lines).max(self.cells)
    }
}

/// The least width at which `heading` takes at most `lines` lines and no word of it is broken.
fn heading_width(heading: &str, lines: usize) -> usize {
    let longest = heading.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0);
    let mut widths = longest..heading.width();
    widths.find(|width| wrap(heading, *width).len() <= lines).unwrap_or(heading.width())
}

/// The widths of columns in which no cell is broken. If they need more than `available` together,
/// the headings of numbers are wrapped, over no more lines than necessary.
pub(crate) fn unbroken(needs: &[Need], available: usize) -> Vec<usize> {
    let widths = |lines| needs.iter().map(|need| need.width(lines)).collect::<Vec<usize>>();
    let most = needs.iter().map(|need| need.heading.split(' ').count()).max().unwrap_or(1);
    let fits = |widths: &Vec<usize>| widths.iter().sum::<usize>() <= available;
    (1..most).map(widths).find(fits).unwrap_or_else(|| widths(most))
}

/// The widths of columns that together may have `available` cells, as narrow as they must be.
///
/// Headings of numbers are wrapped first. Then columns of words shrink, the widest first, but none
/// below [`WIDTH_MIN`]. If that is not enough, the result is wider than `available`.
pub(crate) fn broken(needs: &[Need], available: usize) -> Vec<usize> {
    let mut widths = unbroken(needs, available);
    let mut excess = widths.iter().sum::<usize>().saturating_sub(available);
    while excess > 0 {
        let words = widths.iter_mut().zip(needs).filter(|(_, need)| !need.is_number);
        let Some(widest) = words.map(|(width, _)| width).max() else { break };
        if *widest <= WIDTH_MIN {
            break;
        }
        *widest -= 1;
        excess -= 1;
    }
    widths
}

/// `text` in lines of at most `width` cells, broken at spaces where there are any. Never empty.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let gap = usize::from(!line.is_empty());
        if line.width() + gap + word.width() <= width {
            line.extend((gap == 1).then_some(' '));
            line += word;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line = break_word(word, width, &mut lines);
    }
    lines.push(line);
    lines
}

/// Puts the full lines of a word that is longer than a line into `lines`, and returns what is left.
fn break_word(word: &str, width: usize, lines: &mut Vec<String>) -> String {
    let mut line = String::new();
    for c in word.chars() {
        if line.width() + c.width().unwrap_or(0) > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cells: usize) -> Need {
        Need { heading: String::new(), cells, is_number: false }
    }

    fn number(heading: &str, cells: usize) -> Need {
        Need { heading: heading.into(), cells, is_number: true }
    }

    #[test]
    fn the_widest_columns_of_words_give() {
        let needs = [words(40), number("", 10), words(30)];
        assert_eq!(broken(&needs, 60), [25, 10, 25]);
        assert_eq!(broken(&needs, 100), [40, 10, 30]);
        assert_eq!(broken(&[words(40), number("", 10)], 10), [8, 10], "numbers are never broken");
    }

    #[test]
    fn headings_of_numbers_are_wrapped_over_as_few_lines_as_possible() {
        let needs = [words(8), number("p99.9 [µs]", 4), number("of Petasos: p50", 5)];
        assert_eq!(unbroken(&needs, 33), [8, 10, 15]);
        assert_eq!(unbroken(&needs, 32), [8, 5, 11], "two lines");
        assert_eq!(unbroken(&needs, 23), [8, 5, 8], "three lines");
        assert_eq!(unbroken(&needs, 20), [8, 5, 8], "no word is broken");
    }

    #[test]
    fn text_is_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("", 8), [""]);
        assert_eq!(wrap("  as it is ", 11), ["  as it is "]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a 0123456789 b", 4), ["a", "0123", "4567", "89 b"]);
        assert_eq!(wrap("表の行", 4), ["表の", "行"]);
    }
}
