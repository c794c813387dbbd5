use super::*;

fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.into(), text: text.into() }
}

/// The findings for a specification, a source, a test file, and a list of exceptions.
fn findings(spec: &str, code: &str, test: &str, excepted: &str) -> Vec<(usize, &'static str)> {
    let files = [file("docs/spec/wire.md", spec), file(EXCEPTIONS_FILE, excepted)];
    let sources = [
        Source::new(Path::new("crates/x/src/lib.rs"), code),
        Source::new(Path::new("crates/x/tests/all.rs"), test),
    ];
    let findings = check(&files, &sources);
    findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
}

fn rules(numbers: impl IntoIterator<Item = u32>) -> Vec<Rule> {
    numbers.into_iter().map(|number| ("W".to_owned(), number)).collect()
}

#[test]
fn a_rule_needs_code_and_a_test() {
    let spec = "# Wire\n\n- **W1** Short packets are dropped.\n";
    assert_eq!(findings(spec, "", "", ""), [(3, "spec-code"), (3, "spec-test")]);
    assert_eq!(findings(spec, "/// Short (W1).", "", ""), [(3, "spec-test")]);
    assert_eq!(findings(spec, "", "fn w1_short() {}", ""), [(3, "spec-code")]);
    assert!(findings(spec, "/// Short (W1).", "fn w1_short() {}", "").is_empty());
    assert!(findings(spec, "/// Short (W1).", "// Shows W1.", "").is_empty());
}

#[test]
fn inline_tests_are_tests_and_no_code() {
    let spec = "- **W1** Short packets are dropped.\n";
    let inline = "#[cfg(test)]\nmod tests {\n// W1\nfn f() {}\n}\n";
    assert_eq!(findings(spec, inline, "", ""), [(1, "spec-code")]);
}

#[test]
fn names_of_functions_that_are_no_tests_cite_nothing() {
    let spec = "- **W1** Short packets are dropped.\n";
    assert_eq!(findings(spec, "fn w1_short() {}", "// W1", ""), [(1, "spec-code")]);
}

#[test]
fn exceptions_need_a_reason_and_a_need() {
    let spec = "- **W1** Short packets are dropped.\n";
    assert!(findings(spec, "", "", "# Remark.\nW1 -- milestone 2\n").is_empty());
    assert_eq!(
        findings(spec, "", "", "W1\n"),
        [(1, "spec-exception"), (1, "spec-code"), (1, "spec-test")]
    );
    assert_eq!(findings(spec, "// W1", "// W1", "W1 -- late\n"), [(1, "spec-exception")]);
    assert_eq!(findings("", "", "", "W9 -- gone\n"), [(1, "spec-exception")]);
}

#[test]
fn rules_are_defined_once() {
    let spec = "- **W1** One.\n- **W1** Another.\n";
    assert_eq!(findings(spec, "// W1", "// W1", ""), [(2, "spec-duplicate")]);
}

#[test]
fn cited_rules_exist() {
    let spec = "- **W1** One.\n";
    assert_eq!(findings(spec, "// W1, W2", "// W1 of an X9", ""), [(1, "spec-unknown")]);
}

#[test]
fn drafts_may_be_cited_and_need_not_be() {
    let spec = "- **W1** One.\n- W2. *Two.* A draft.\n- W3. *Three.* Another.\n";
    assert!(findings(spec, "// W1, W2", "// W1", "").is_empty());
    assert_eq!(findings(spec, "// W1, W4", "// W1", ""), [(1, "spec-unknown")]);
    let twice = "- W1. *One.* A draft.\n- **W1** One.\n";
    assert_eq!(findings(twice, "// W1", "// W1", ""), [(2, "spec-duplicate")]);
}

#[test]
fn definitions_are_items_and_headings() {
    for line in ["- **W12** T", "* **W12.** T", "### **W12** T", "  - **W12 Title.** T"] {
        assert_eq!(defined_by(line), Some((("W".into(), 12), true)), "{line}");
    }
    let draft = "- W12. *Title.* T";
    assert_eq!(defined_by(draft), Some((("W".into(), 12), false)));
    let mentioned = ["**W12** mentioned", "- W12 mentioned", "- W12. Mentioned", "W12. *T.*"];
    for line in mentioned.into_iter().chain(["- **W0** T", "- **ABC1** T", "- **W1x**"]) {
        assert_eq!(defined_by(line), None, "{line}");
    }
}

#[test]
fn texts_cite_single_rules_and_ranges() {
    assert_eq!(cited_by_text("see (W12), W3."), rules([3, 12]));
    assert_eq!(cited_by_text("rules W1 to W4"), rules(1..=4));
    assert_eq!(cited_by_text("W1–W3, W7-W8"), rules([1, 2, 3, 7, 8]));
    assert_eq!(cited_by_text("W1 and W4; xW5, W6x"), rules([1, 4]));
}

#[test]
fn names_cite_lists_and_ranges() {
    assert_eq!(cited_by_name("w12_reserved_flags"), rules([12]));
    assert_eq!(cited_by_name("w6_w8_w10_fields"), rules([6, 8, 10]));
    assert_eq!(cited_by_name("w1_to_w9_fields"), rules(1..=9));
    assert_eq!(cited_by_name("w1_to_w3_w7_fields"), rules([1, 2, 3, 7]));
    assert_eq!(cited_by_name("w1_to_the_end_w9"), rules([1]));
    assert!(cited_by_name("fields_of_w1").is_empty());
}
