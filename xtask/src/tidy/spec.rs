//! Rules of the specification: each must be cited by code and by a test, or excepted with a reason.
//!
//! A rule is a list item or a heading of `docs/spec/*.md` that begins with its bold number:
//! `- **W12** …`. Code cites it in a comment, as `W12` or in a range, `W1 to W9`. A test cites it
//! in the same way, or by its name: `w12_…`, `w6_w8_…`, `w1_to_w9_…`.
//!
//! A list item with a plain number and a title, `- W13. *Title.* …`, is a draft: it may be cited,
//! and need not be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::allow::numbered;
use super::scan::{Source, words};
use super::{Finding, TextFile};

const SPEC_FOLDER: &str = "docs/spec";
const EXCEPTIONS_FILE: &str = "docs/spec/exceptions.txt";

/// A rule's number: `W12` is `("W", 12)`.
type Rule = (String, u32);

/// Where each rule is defined.
type Rules = BTreeMap<Rule, Definition>;

/// A rule in a specification.
struct Definition {
    path: PathBuf,
    /// Counted from 1.
    line: usize,
    /// Whether it is no draft.
    is_binding: bool,
}

/// Checks all files together.
pub fn check(files: &[TextFile], sources: &[Source]) -> Vec<Finding> {
    let (rules, mut findings) = definitions(files);
    let mut by_code = BTreeSet::new();
    let mut by_tests = BTreeSet::new();
    for source in sources {
        for (rule, line, test) in citations(source, &rules) {
            if !rules.contains_key(&rule) {
                let advice = format!("no rule {} in {SPEC_FOLDER}: cite one that is", name(&rule));
                findings.push(Finding::new(&source.path, line, "spec-unknown", advice));
            }
            if test {
                by_tests.insert(rule)
            } else {
                by_code.insert(rule)
            };
        }
    }
    let cited_by_both: BTreeSet<Rule> = by_code.intersection(&by_tests).cloned().collect();
    let (excepted, from_list) = exceptions(files, &rules, &cited_by_both);
    findings.extend(from_list);
    let binding = rules
        .iter()
        .filter(|(rule, definition)| definition.is_binding && !excepted.contains(*rule));
    for (rule, Definition { path, line, .. }) in binding {
        let (upper, lower) = (name(rule), name(rule).to_lowercase());
        if !by_code.contains(rule) {
            let advice = format!(
                "no code cites {upper}: name it in the comment of what implements it, or add \
                 `{upper} -- reason` to {EXCEPTIONS_FILE}"
            );
            findings.push(Finding::new(path, *line, "spec-code", advice));
        }
        if !by_tests.contains(rule) {
            let advice = format!(
                "no test cites {upper}: write one named `{lower}_…`, or add \
                 `{upper} -- reason` to {EXCEPTIONS_FILE}"
            );
            findings.push(Finding::new(path, *line, "spec-test", advice));
        }
    }
    findings
}

fn name((letters, number): &Rule) -> String {
    format!("{letters}{number}")
}

fn definitions(files: &[TextFile]) -> (Rules, Vec<Finding>) {
    let mut rules = Rules::new();
    let mut findings = Vec::new();
    let markdown = files.iter().filter(|file| {
        file.path.starts_with(SPEC_FOLDER) && file.path.extension().is_some_and(|e| e == "md")
    });
    for file in markdown {
        for (at, line) in file.text.lines().enumerate() {
            let Some((rule, is_binding)) = defined_by(line) else { continue };
            if let Some(Definition { path, line, .. }) = rules.get(&rule) {
                let advice = format!(
                    "{} is already defined at {}:{line}: take the next free number",
                    name(&rule),
                    path.display()
                );
                findings.push(Finding::new(&file.path, at + 1, "spec-duplicate", advice));
            } else {
                let (path, line) = (file.path.clone(), at + 1);
                rules.insert(rule, Definition { path, line, is_binding });
            }
        }
    }
    (rules, findings)
}

/// The rule that a line of Markdown defines, and whether it is binding.
fn defined_by(line: &str) -> Option<(Rule, bool)> {
    let line = line.trim_start();
    let marked = ["- ", "* ", "#"].iter().any(|mark| line.starts_with(mark));
    let rest = line.trim_start_matches(['-', '#', ' ']);
    let rest = rest.strip_prefix("* ").unwrap_or(rest);
    let bold = rest.strip_prefix("**");
    let start = bold.unwrap_or(rest);
    let word = start.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    let is_draft = line.starts_with("- ") && start[word.len()..].starts_with(". *");
    let defines = marked && (bold.is_some() || is_draft);
    let rule = parse_rule(word, char::is_ascii_uppercase).filter(|_| defines)?;
    Some((rule, bold.is_some()))
}

/// One or two letters, which `is_letter` accepts, and digits; nothing else.
fn parse_rule(word: &str, is_letter: fn(&char) -> bool) -> Option<Rule> {
    let digits = word.find(|c: char| c.is_ascii_digit())?;
    let (letters, number) = word.split_at(digits);
    let named = (1..=2).contains(&letters.len()) && letters.chars().all(|c| is_letter(&c));
    let plain = !number.starts_with('0') && number.chars().all(|c| c.is_ascii_digit());
    if named && plain { Some((letters.to_uppercase(), number.parse().ok()?)) } else { None }
}

/// Every rule that `source` cites, with the line and whether a test cites it. Words that only look
/// like rules are recognised by their letters, which no rule has.
fn citations(source: &Source, rules: &Rules) -> Vec<(Rule, usize, bool)> {
    let known = |rule: &Rule| rules.keys().any(|(letters, _)| *letters == rule.0);
    let mut found = Vec::new();
    for (line, comment) in source.comment_lines() {
        let cited = cited_by_text(&comment).into_iter().filter(known);
        found.extend(cited.map(|rule| (rule, line, source.is_test(line))));
    }
    for function in source.functions() {
        if source.is_test(function.line) {
            let cited = cited_by_name(&function.name).into_iter().filter(known);
            found.extend(cited.map(|rule| (rule, function.line, true)));
        }
    }
    found
}

/// `W12`, and every rule between the ends of `W1 to W9`, `W1-W9`, `W1–W9` or `W1..W9`.
fn cited_by_text(text: &str) -> Vec<Rule> {
    let chars: Vec<char> = text.chars().collect();
    let mut cited: Vec<Rule> = Vec::new();
    let mut last: Option<(Rule, usize)> = None;
    for (at, word) in words(&chars) {
        let Some(rule) = parse_rule(&word, char::is_ascii_uppercase) else { continue };
        if let Some((first, end)) = &last {
            let gap: String = chars[*end..at].iter().collect();
            if ["to", "-", "–", ".."].contains(&gap.trim()) && first.0 == rule.0 {
                cited.extend((first.1..rule.1).map(|number| (rule.0.clone(), number)));
            }
        }
        last = Some((rule.clone(), at + word.chars().count()));
        cited.push(rule);
    }
    cited.sort();
    cited.dedup();
    cited
}

/// The rules at the beginning of a test's name.
fn cited_by_name(name: &str) -> Vec<Rule> {
    let mut cited: Vec<Rule> = Vec::new();
    let mut range = false;
    for part in name.split('_') {
        match parse_rule(part, char::is_ascii_lowercase) {
            Some(rule) => {
                let from = cited.last().filter(|first| range && first.0 == rule.0);
                let first = from.map_or(rule.1, |first| first.1 + 1);
                cited.extend((first..=rule.1).map(|number| (rule.0.clone(), number)));
                range = false;
            }
            None if part == "to" && !range && !cited.is_empty() => range = true,
            None => break,
        }
    }
    cited
}

/// The excepted rules. An exception for a rule that does not exist, or is cited after all, is a
/// finding.
fn exceptions(
    files: &[TextFile],
    rules: &Rules,
    cited_by_both: &BTreeSet<Rule>,
) -> (BTreeSet<Rule>, Vec<Finding>) {
    let mut excepted = BTreeSet::new();
    let mut findings = Vec::new();
    let path = Path::new(EXCEPTIONS_FILE);
    let text = super::files_named(files, EXCEPTIONS_FILE).map_or("", |file| &file.text);
    for (line, content) in numbered(text) {
        let (what, reason) = content.split_once(" -- ").unwrap_or((content, ""));
        let rule = parse_rule(what.trim(), char::is_ascii_uppercase);
        let advice = match rule {
            Some(rule) if !rules.contains_key(&rule) => "no such rule: delete the line",
            Some(rule) if cited_by_both.contains(&rule) => {
                "code and a test cite the rule: delete the line"
            }
            Some(rule) if !reason.trim().is_empty() => {
                excepted.insert(rule);
                continue;
            }
            _ => "write `RULE -- reason`; an exception without a reason is none",
        };
        findings.push(Finding::new(path, line, "spec-exception", advice));
    }
    (excepted, findings)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
