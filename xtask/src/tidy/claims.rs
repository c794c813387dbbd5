//! Checks the tests that the threat model names for its claims: in each row of a table, the tests
//! and then their file.

use super::{Finding, TextFile};

const PAGE: &str = "docs/security.md";

/// Checks that each named test is in a file that its row names.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path.as_os_str() == PAGE) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some((tests, place)) = row(line) else { continue };
        let paths = paths(place);
        let texts: Vec<_> = files.iter().filter(|file| is_at(file, &paths)).collect();
        for test in tests {
            let head = format!("fn {test}(");
            if !texts.iter().any(|file| file.text.contains(&head)) {
                let advice = format!("no test `{test}` in {place}: name the one that shows it");
                findings.push(Finding::new(&page.path, index + 1, "claim", advice));
            }
        }
    }
    findings
}

/// The tests of a row and their file, if it is a file of tests in Rust.
fn row(line: &str) -> Option<(Vec<&str>, &str)> {
    let (tests, place) = line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `")?;
    place.ends_with(".rs").then(|| (tests.split("`, `").collect(), place))
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
}
