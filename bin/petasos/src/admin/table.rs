//! Tables for people.

use std::fmt::Write as _;

/// Rows under a head, in columns as wide as their contents. Control characters are shown as dots:
/// applications choose their names themselves.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| visible(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:<width$}  ").expect("strings take everything");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [vec!["1".to_owned(), "a\tb".to_owned()], vec!["20".to_owned(), String::new()]];
        assert_eq!(table(&["NO", "NAME"], &rows), "NO  NAME\n1   a·b\n20\n");
        assert_eq!(table(&["NO"], &[]), "NO\n");
    }
}
