//! Leftovers, tests that are ignored without a reason, and atomics not taken from the seam.

use super::Finding;
use super::allow::AllowList;
use super::scan::{Source, line_at, words};

/// The one file that may name the atomics of the standard library and of loom.
const SEAM: &str = "crates/base/src/sync.rs";

/// Checks one file.
pub fn check(source: &Source, allow: &mut AllowList) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in source.code_lines() {
        let squeezed: String = code.split_whitespace().collect();
        for name in ["todo", "unimplemented", "dbg"] {
            if calls_macro(&code, name) {
                let advice = format!("`{name}!` must not be committed: finish it or take it out");
                findings.push(Finding::new(&source.path, line, "todo", advice));
            }
        }
        if squeezed.contains("#[ignore]") {
            let advice = "say why: `#[ignore = \"reason\"]`";
            findings.push(Finding::new(&source.path, line, "ignore", advice));
        }
    }
    findings.extend(atomics(source, allow));
    findings
}

fn calls_macro(code: &str, name: &str) -> bool {
    let chars: Vec<char> = code.chars().collect();
    words(&chars).any(|(at, word)| word == name && chars.get(at + name.len()) == Some(&'!'))
}

/// Finds `atomic` as a module named after `sync`, alone or in a braced import.
fn atomics(source: &Source, allow: &mut AllowList) -> Vec<Finding> {
    if source.path.as_os_str() == SEAM {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut before = [String::new(), String::new()];
    let mut import_from_sync = false;
    for (at, word) in words(&source.code) {
        let [grandparent, parent] = &before;
        let from_sync = parent == "sync" && ["std", "core", "loom"].contains(&&**grandparent);
        import_from_sync = (import_from_sync || from_sync) && same_statement(&source.code, at);
        if word == "atomic" && import_from_sync && !allow.allows_path("atomics", &source.path) {
            let line = line_at(&source.code, at);
            let advice = "take atomics from `petasos_base::sync`, so that loom can check them";
            findings.push(Finding::new(&source.path, line, "atomics", advice));
        }
        before = [std::mem::take(&mut before[1]), word];
    }
    findings
}

/// Whether only a path or a braced list is between the word at `at` and the one before.
fn same_statement(code: &[char], at: usize) -> bool {
    let gap = code[..at].iter().rev().take_while(|c| **c != '_' && !c.is_alphanumeric());
    gap.into_iter().all(|c| c.is_whitespace() || ":{},".contains(*c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn check_at(path: &str, text: &str, allowed: &str) -> Vec<(usize, &'static str)> {
        let (mut allow, _) = AllowList::parse(Path::new("allow.txt"), allowed);
        let findings = check(&Source::new(Path::new(path), text), &mut allow);
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    fn rules(text: &str) -> Vec<(usize, &'static str)> {
        check_at("crates/x/src/lib.rs", text, "")
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        assert_eq!(rules("fn f() {\n    todo!()\n}"), [(2, "todo")]);
        assert_eq!(rules("dbg!(x);"), [(1, "todo")]);
        assert_eq!(rules("unimplemented!(\"later\")"), [(1, "todo")]);
        assert!(rules("// todo!\nlet todo = \"dbg!\"; let a = todo != b;").is_empty());
    }

    #[test]
    fn ignored_tests_need_a_reason() {
        assert_eq!(rules("#[test]\n#[ignore]\nfn f() {}"), [(2, "ignore")]);
        assert!(rules("#[test]\n#[ignore = \"takes an hour\"]\nfn f() {}").is_empty());
    }

    #[test]
    fn atomics_come_through_the_seam() {
        for text in [
            "use std::sync::atomic::AtomicU64;",
            "use core::sync::atomic;",
            "use loom::sync::atomic::Ordering;",
            "use std::sync::{Arc, atomic::AtomicBool};",
            "let x = std::sync::atomic::AtomicU8::new(0);",
        ] {
            assert_eq!(rules(text), [(1, "atomics")], "{text}");
            assert!(check_at(SEAM, text, "").is_empty());
            assert!(check_at("a/b.rs", text, "atomics a -- a reason\n").is_empty());
        }
        assert!(rules("use petasos_base::sync::AtomicU64;\nuse std::sync::Arc;").is_empty());
        assert!(rules("use std::sync::Arc; let atomic = 1;").is_empty());
    }
}
