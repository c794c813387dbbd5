//! Checks the tests that the threat model names for its claims: in each row of a table, the tests
//! and then their file; or who tries what, the answer, and then tests whose files are elsewhere on
//! the page, or fuzz targets.

use super::{Finding, TextFile};

const PAGE: &str = "docs/security.md";

/// Checks that each named test is in a file that its row names.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path.as_os_str() == PAGE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for name in tried(line) {
            let target = format!("fuzz/targets/{name}.rs");
            let shows = |file: &TextFile| {
                file.path.as_os_str() == target.as_str() || has_test(&file.text, name)
            };
            if !files.iter().any(shows) {
                let advice = format!("no test `{name}` anywhere: name the one that shows it");
                findings.push(Finding::new(&page.path, index + 1, "claim", advice));
            }
        }
        let Some((tests, place)) = row(line) else { continue };
        let paths = paths(place);
        let texts: Vec<_> = files.iter().filter(|file| is_at(file, &paths)).collect();
        for test in tests {
            if !texts.iter().any(|file| has_test(&file.text, test)) {
                let advice = format!("no test `{test}` in {place}: name the one that shows it");
                findings.push(Finding::new(&page.path, index + 1, "claim", advice));
            }
        }
    }
    findings
}

/// Whether a file has this test, or this property of a suite.
fn has_test(text: &str, name: &str) -> bool {
    ["(", "<"].iter().any(|after| text.contains(&format!("fn {name}{after}")))
}

/// The tests of a row and their file, if it is a file of tests in Rust.
fn row(line: &str) -> Option<(Vec<&str>, &str)> {
    let (tests, place) = line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `")?;
    place.ends_with(".rs").then(|| (tests.split("`, `").collect(), place))
}

/// The tests in the last of three cells: what is in backquotes and can be the name of one.
fn tried(line: &str) -> Vec<&str> {
    let cells: Vec<_> = line.trim_matches('|').split(" | ").collect();
    let [_, _, tests] = cells[..] else { return Vec::new() };
    let is_name = |name: &&str| {
        let is_in_one = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        name.contains('_') && name.bytes().all(is_in_one)
    };
    tests.split('`').skip(1).step_by(2).filter(is_name).collect()
}

/// Expands a path: `a/{b,c}.rs` means two.
fn paths(place: &str) -> Vec<String> {
    let braced = place.split_once('{').and_then(|(before, rest)| {
        let (names, after) = rest.split_once('}')?;
        Some(names.split(',').map(|name| format!("{before}{name}{after}")).collect())
    });
    braced.unwrap_or_else(|| vec![place.to_owned()])
}

fn is_at(file: &TextFile, paths: &[String]) -> bool {
    paths.iter().any(|path| file.path.as_os_str() == path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_are_gone_are_found() {
        let rows = "| shown by | in |\n| `one`, `two` | `x/{a,b}.rs` |\n| `gone` | `x/a.rs` |\n\
            | fuzz target `x` | `fuzz/` |\n";
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files =
            [file(PAGE, rows), file("x/a.rs", "fn one() {}"), file("x/b.rs", "fn two() {}")];
        let findings = check(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].advice.contains("`gone`") && findings[0].line == 3);
    }

    #[test]
    fn tests_beside_what_is_tried_are_found_anywhere() {
        let rows = "| who | answer | test |\n| **a** | by `rules_of_x` | none |\n\
            | b | c (RT1) | `is_there`, and for `x.rs` the fuzz target `any_bytes` |\n\
            | d | e | `is_there`, `is_gone` |\n";
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.into() };
        let files = [
            file(PAGE, rows),
            file("x/a.rs", "fn is_there() {}"),
            file("fuzz/targets/any_bytes.rs", ""),
        ];
        let findings = check(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].advice.contains("`is_gone`") && findings[0].line == 4);
    }
}
