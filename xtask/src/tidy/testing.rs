//! What tests must not do: skip silently, lose the cases that failed, or stay short in a soak.

use super::{Finding, TextFile};

/// Where skips are recorded and counted, so these words are allowed there.
const SKIPPERS: [&str; 2] = ["crates/skips/src", "xtask/src"];

/// Checks one file.
pub fn check(file: &TextFile) -> Vec<Finding> {
    if file.path.extension().is_none_or(|extension| extension != "rs") {
        return Vec::new();
    }
    let mut findings = silent_skips(file);
    findings.extend(lost_cases(file));
    findings.extend(fixed_cases(file));
    findings
}

/// libtest hides the output of passing tests.
fn silent_skips(file: &TextFile) -> Vec<Finding> {
    if SKIPPERS.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let skips = lines.filter(|(_, line)| {
        let line = line.to_ascii_lowercase();
        line.split_once("println!(\"").is_some_and(|(_, text)| text.starts_with("skip"))
    });
    let advice = "call `petasos_skips::skip`: what a passing test prints is hidden";
    skips.map(|(index, _)| Finding::new(&file.path, index + 1, "skip", advice)).collect()
}

/// By default, proptest looks for a `lib.rs` above a test's file, and there is none above a `tests`
/// folder. Where it is told to keep nothing, a failing case is lost as well.
fn lost_cases(file: &TextFile) -> Option<Finding> {
    if SKIPPERS.iter().any(|folder| file.path.starts_with(folder)) {
        return None;
    }
    let advice = "use `petasos_cases::kept()`: failing cases are kept";
    let line_of = |found: &dyn Fn(&str) -> bool| file.text.lines().position(found);
    let forgets = line_of(&|line| line.contains("failure_persistence: None"));
    let begin = line_of(&|line| line.trim_start().starts_with("proptest! {"));
    let in_tests = file.path.components().any(|part| part.as_os_str() == "tests");
    let is_unit = file.path.components().any(|part| part.as_os_str() == "src");
    let is_kept = file.text.contains("petasos_cases::");
    let lost = forgets.or_else(|| begin.filter(|_| in_tests && !is_unit && !is_kept))?;
    Some(Finding::new(&file.path, lost + 1, "cases", advice))
}

/// proptest's own way to have fewer cases hides the environment, which a soak has more by.
fn fixed_cases(file: &TextFile) -> Option<Finding> {
    if SKIPPERS.iter().any(|folder| file.path.starts_with(folder)) {
        return None;
    }
    let line = file.text.lines().position(|line| line.contains("::with_cases("))?;
    let advice = "use `petasos_cases::kept_with`: a soak multiplies its cases";
    Some(Finding::new(&file.path, line + 1, "cases", advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let findings = check(&TextFile { path: path.into(), text: text.into() });
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn skips_are_recorded() {
        let text = "fn f() {\n    eprintln!(\"skipped: no root\");\n}";
        assert_eq!(rules("crates/x/tests/a.rs", text), [(2, "skip")]);
        assert_eq!(rules("crates/x/src/a.rs", "println!(\"Skipping {x}\");"), [(1, "skip")]);
        assert!(rules("xtask/src/skips.rs", text).is_empty());
        assert!(rules("crates/x/tests/a.rs", "println!(\"{skipped} skipped\");").is_empty());
    }

    #[test]
    fn property_tests_beside_no_library_keep_their_cases() {
        let text = "use a;\nproptest! {\n}\n";
        assert_eq!(rules("crates/x/tests/a.rs", text), [(2, "cases")]);
        assert_eq!(rules("crates/x/tests/deeper/a.rs", text), [(2, "cases")]);
        assert!(rules("crates/x/src/tests/a.rs", text).is_empty());
        let forgets = "Config { failure_persistence: None, ..Config::default() }";
        assert_eq!(rules("crates/x/tests/a.rs", forgets), [(1, "cases")]);
        assert_eq!(rules("crates/x/src/tests/a.rs", forgets), [(1, "cases")]);
        let kept = "proptest! {\n    #![proptest_config(petasos_cases::kept())]\n}\n";
        assert!(rules("crates/x/tests/a.rs", kept).is_empty());
    }

    #[test]
    fn a_soak_multiplies_the_cases_of_all_properties() {
        let fixed = "proptest! {\n    #![proptest_config(ProptestConfig::with_cases(9))]\n}\n";
        assert_eq!(rules("crates/x/src/a.rs", fixed), [(2, "cases")]);
        let share = "proptest! {\n    #![proptest_config(petasos_cases::kept_with(9))]\n}\n";
        assert!(rules("crates/x/src/a.rs", share).is_empty());
    }
}
