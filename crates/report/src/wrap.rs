//! Text in columns of a bounded width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No column of words is made narrower than this, in character cells.
const WIDTH_MIN: usize = 8;

/// The widths of columns that need `natural` cells and together may have `available`.
///
/// Columns of words shrink, the widest first. Columns whose `fixed` is set, and narrow ones, keep
/// their widths. If that is not enough, the result is wider than `available`.
pub(crate) fn fit(natural: &[usize], fixed: &[bool], available: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    let mut excess = natural.iter().sum::<usize>().saturating_sub(available);
    while excess > 0 {
        let words = widths.iter_mut().zip(fixed).filter(|(_, fixed)| !**fixed);
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

    #[test]
    fn the_widest_columns_of_words_give() {
        assert_eq!(fit(&[40, 10, 30], &[false, true, false], 60), [25, 10, 25]);
        assert_eq!(fit(&[40, 10, 30], &[false, true, false], 100), [40, 10, 30]);
        assert_eq!(fit(&[40, 10], &[true, false], 10), [40, 8], "numbers are never broken");
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
