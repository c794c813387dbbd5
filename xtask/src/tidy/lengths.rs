//! Lengths of files and functions, widths of lines.

use super::allow::AllowList;
use super::scan::Source;
use super::{Finding, TextFile};

/// Above this many lines a file needs a reason.
const FILE_LINES_ASK: usize = 500;
/// Above this many lines a file is split, whatever the reason.
const FILE_LINES_MAX: usize = 800;
/// Above this many lines a function needs a reason.
const FUNCTION_LINES_MAX: usize = 70;
/// Columns of a line.
const LINE_COLUMNS_MAX: usize = 100;

/// The lengths of a Rust file and of its functions.
pub fn check_source(source: &Source, allow: &mut AllowList) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = source.path.display().to_string();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let advice = format!("{lines} lines, over {FILE_LINES_MAX}: split the file");
        findings.push(Finding::new(&source.path, 1, "long-file", advice));
    } else if lines > FILE_LINES_ASK && !allow.allows("long-file", &path) {
        let advice = format!(
            "{lines} lines, over {FILE_LINES_ASK}: split the file, or add \
             `long-file {path} -- reason` to {}",
            super::ALLOW_FILE
        );
        findings.push(Finding::new(&source.path, 1, "long-file", advice));
    }
    for function in source.functions() {
        let subject = format!("{path} {}", function.name);
        if function.lines > FUNCTION_LINES_MAX && !allow.allows("long-function", &subject) {
            let advice = format!(
                "`{}` has {} lines, over {FUNCTION_LINES_MAX}: split it, or add \
                 `long-function {subject} -- reason` to {}",
                function.name,
                function.lines,
                super::ALLOW_FILE
            );
            findings.push(Finding::new(&source.path, function.line, "long-function", advice));
        }
    }
    findings
}

/// The widths of a file's lines. Lines with an address and, in Markdown, tables and fenced
/// blocks (which quote other programs) are as wide as they must be.
pub fn check_width(file: &TextFile) -> Vec<Finding> {
    let extension = file.path.extension().and_then(|extension| extension.to_str());
    let markdown = extension == Some("md");
    if extension == Some("txt") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in file.text.lines().enumerate() {
        let fence = markdown && line.trim_start().starts_with("```");
        fenced ^= fence;
        let table = markdown && line.trim_start().starts_with('|');
        let columns = line.chars().count();
        if columns > LINE_COLUMNS_MAX && !fenced && !table && !line.contains("://") {
            let advice = format!("{columns} columns, over {LINE_COLUMNS_MAX}: wrap the line");
            findings.push(Finding::new(&file.path, at + 1, "line-width", advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lengths(text: &str, allowed: &str) -> Vec<(usize, &'static str)> {
        let source = Source::new(Path::new("a.rs"), text);
        let (mut allow, _) = AllowList::parse(Path::new("allow.txt"), allowed);
        let findings = check_source(&source, &mut allow);
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn files_of_up_to_500_lines_pass() {
        assert!(lengths(&"//\n".repeat(500), "").is_empty());
        assert_eq!(lengths(&"//\n".repeat(501), ""), [(1, "long-file")]);
    }

    #[test]
    fn a_reason_excuses_501_lines_but_not_801() {
        let allowed = "long-file a.rs -- one table\n";
        assert!(lengths(&"//\n".repeat(501), allowed).is_empty());
        assert!(lengths(&"//\n".repeat(800), allowed).is_empty());
        assert_eq!(lengths(&"//\n".repeat(801), allowed), [(1, "long-file")]);
    }

    #[test]
    fn functions_of_up_to_70_lines_pass() {
        let function = |lines: usize| format!("\nfn f() {{\n{}}}\n", "//\n".repeat(lines - 2));
        assert!(lengths(&function(70), "").is_empty());
        assert_eq!(lengths(&function(71), ""), [(2, "long-function")]);
        assert!(lengths(&function(71), "long-function a.rs f -- one match\n").is_empty());
        assert_eq!(
            lengths(&function(71), "long-function a.rs g -- another\n"),
            [(2, "long-function")]
        );
    }

    fn widths(name: &str, text: &str) -> Vec<usize> {
        let file = TextFile { path: name.into(), text: text.into() };
        check_width(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn lines_are_counted_in_characters() {
        let text = format!("{}\n{}\n", "é".repeat(100), "é".repeat(101));
        assert_eq!(widths("a.rs", &text), [2]);
        assert_eq!(widths("a.md", &text), [2]);
    }

    #[test]
    fn addresses_tables_and_fences_may_be_wide() {
        let wide = "x".repeat(101);
        let text = format!("| {wide} |\n```\n{wide}\n```\nhttps://{wide}\n{wide}\n");
        assert_eq!(widths("a.md", &text), [6]);
        assert_eq!(widths("a.rs", &text), [1, 3, 6]);
    }
}
