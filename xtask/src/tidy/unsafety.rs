//! `unsafe` is only allowed in the crates that need it, and each use must say why it is sound.

use std::path::Path;

use super::Finding;
use super::allow::AllowList;
use super::scan::{Source, line_at, words};

/// Crates whose purpose is to wrap `unsafe` code; others need a line in the allow-list.
const EXEMPT: [&str; 3] = ["crates/netio-udp", "crates/shm", "crates/message"];

/// Checks one file.
pub fn check(source: &Source, allow: &mut AllowList) -> Vec<Finding> {
    let code: Vec<String> = source.code_lines().map(|(_, line)| line).collect();
    let comments: Vec<String> = source.comment_lines().map(|(_, line)| line).collect();
    let mut findings = Vec::new();
    for (at, _) in words(&source.code).filter(|(_, word)| word == "unsafe") {
        let line = line_at(&source.code, at);
        if is_type(&source.code[at + "unsafe".len()..]) {
            continue;
        }
        if !is_exempt(&source.path) && !allow.allows_path("unsafe", &source.path) {
            let advice = format!(
                "`unsafe` belongs into {}: move it there, or add \
                 `unsafe {} -- reason` to {}",
                EXEMPT.join(", "),
                source.path.display(),
                super::ALLOW_FILE
            );
            findings.push(Finding::new(&source.path, line, "unsafe", advice));
        } else if !is_justified(&code, &comments, line - 1) && !is_of_trait(&code, line - 1) {
            let advice = "say in a `// SAFETY:` comment right above (for a function, in a \
                          `# Safety` section) why this is sound";
            findings.push(Finding::new(&source.path, line, "safety-comment", advice));
        }
    }
    findings
}

fn is_exempt(path: &Path) -> bool {
    EXEMPT.iter().any(|folder| path.starts_with(folder))
}

/// Whether the text after `unsafe` makes it part of a function pointer's type.
fn is_type(rest: &[char]) -> bool {
    let end = rest.iter().position(|c| ";{".contains(*c)).unwrap_or(rest.len());
    let code: String = rest[..end].iter().filter(|c| !c.is_whitespace()).collect();
    let code = code.strip_prefix("extern").unwrap_or(&code).trim_start_matches('"');
    code.starts_with("fn(")
}

/// Whether the line at index `at` declares a function of a trait's implementation, whose contract
/// is that of the trait.
fn is_of_trait(code: &[String], at: usize) -> bool {
    let indented = code[at].starts_with(' ') && code[at].contains("unsafe fn ");
    let item = code[..at].iter().rev().find(|line| line.starts_with(|c: char| c.is_alphabetic()));
    indented && item.is_some_and(|line| line.contains("impl") && line.contains(" for "))
}

/// Whether the line at index `at`, or the comment above its statement, carries a justification.
fn is_justified(code: &[String], comments: &[String], at: usize) -> bool {
    let says = |line: &str| line.contains("SAFETY:") || line.contains("# Safety");
    if says(&comments[at]) {
        return true;
    }
    let mut in_comment = false;
    for above in (0..at).rev() {
        let code = code[above].trim();
        let bare = code.is_empty() || code.starts_with("#[");
        if says(&comments[above]) && bare {
            return true;
        }
        let comment = !comments[above].trim().is_empty();
        let statement_goes_on = !code.ends_with([';', '{', '}', ',']);
        if (bare && !comment) && code.is_empty() || !bare && (in_comment || !statement_goes_on) {
            return false;
        }
        in_comment |= comment;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str, allowed: &str) -> Vec<(usize, &'static str)> {
        let (mut allow, _) = AllowList::parse(Path::new("allow.txt"), allowed);
        let findings = check(&Source::new(Path::new(path), text), &mut allow);
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    fn exempt(text: &str) -> Vec<(usize, &'static str)> {
        rules("crates/netio-udp/src/lib.rs", text, "")
    }

    const JUSTIFIED: &str = "// SAFETY: `p` is valid.\nunsafe { *p }";

    #[test]
    fn unsafe_is_refused_outside_its_crates() {
        assert_eq!(rules("crates/proto/src/lib.rs", JUSTIFIED, ""), [(2, "unsafe")]);
        assert_eq!(rules("crates/netio-udpx/src/lib.rs", JUSTIFIED, ""), [(2, "unsafe")]);
        assert!(exempt(JUSTIFIED).is_empty());
        let allowed = "unsafe crates/proto/tests -- a counting allocator\n";
        assert!(rules("crates/proto/tests/a.rs", JUSTIFIED, allowed).is_empty());
    }

    #[test]
    fn words_and_texts_about_unsafe_are_not_unsafe() {
        assert!(
            rules("a.rs", "#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";", "").is_empty()
        );
        assert!(rules("a.rs", "type F = unsafe extern \"C\" fn(u8);", "").is_empty());
    }

    #[test]
    fn each_use_is_justified_where_it_stands() {
        assert_eq!(exempt("unsafe { *p }"), [(1, "safety-comment")]);
        assert!(exempt("unsafe { *p } // SAFETY: valid.").is_empty());
        assert!(exempt("// SAFETY: two\n// lines.\nlet a =\n    unsafe { *p };").is_empty());
        assert_eq!(exempt("// SAFETY: far.\nlet b = 1;\nunsafe { *p }"), [(3, "safety-comment")]);
        assert_eq!(exempt("// SAFETY: far.\n\nunsafe { *p }"), [(3, "safety-comment")]);
        assert_eq!(exempt("// Some remark.\nunsafe impl Send for A {}"), [(2, "safety-comment")]);
    }

    #[test]
    fn functions_state_their_contract() {
        let text =
            "/// Reads.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\npub unsafe fn f() {}";
        assert!(exempt(text).is_empty());
        assert_eq!(exempt("/// Reads.\npub unsafe fn f() {}"), [(2, "safety-comment")]);
        assert_eq!(exempt("impl A {\n    unsafe fn f() {}\n}"), [(2, "safety-comment")]);
        let of_trait = "// SAFETY: by delegation.\nunsafe impl T for A {\n    unsafe fn f() {}\n}";
        assert!(exempt(of_trait).is_empty());
    }
}
