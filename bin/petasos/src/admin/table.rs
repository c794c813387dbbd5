//! Tables for people, which programs can read line by line as well.

use petasos_report::{Column, Style, Table, terminal_width};

/// Rows under a head, no wider than the terminal where that can be. Elsewhere a row is a line.
/// Control characters are shown as dots: applications choose their names themselves.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    table_within(head, rows, terminal_width())
}

/// The same, in lines of at most this many character cells where that can be.
pub fn table_within(head: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let mut table = Table::new(head.iter().copied().map(Column::text));
    rows.iter().for_each(|row| table.push(row.iter().map(String::as_str)));
    table.render_within(Style::Open, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [vec!["1".to_owned(), "a\tb".to_owned()], vec!["20".to_owned(), String::new()]];
        assert_eq!(table_within(&["NO", "NAME"], &rows, usize::MAX), "NO  NAME\n1   a·b\n20\n");
        assert_eq!(table_within(&["NO"], &[], usize::MAX), "NO\n");
    }
}
