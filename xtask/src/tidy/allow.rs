//! The list of exceptions: `RULE SUBJECT… -- reason`, one per line, `#` for comments.

use std::path::{Path, PathBuf};

use super::Finding;

/// One exception.
#[derive(Debug)]
struct Entry {
    line: usize,
    rule: String,
    subject: String,
    used: bool,
}

/// The exceptions, and which of them were needed.
#[derive(Debug)]
pub struct AllowList {
    path: PathBuf,
    entries: Vec<Entry>,
}

impl AllowList {
    /// Reads the list. Lines without a reason are findings and allow nothing.
    pub fn parse(path: &Path, text: &str) -> (AllowList, Vec<Finding>) {
        let mut findings = Vec::new();
        let mut entries = Vec::new();
        for (line, content) in numbered(text) {
            let (what, reason) = content.split_once(" -- ").unwrap_or((content, ""));
            match what.trim().split_once(' ') {
                Some((rule, subject)) if !reason.trim().is_empty() => entries.push(Entry {
                    line,
                    rule: rule.to_owned(),
                    subject: subject.trim().to_owned(),
                    used: false,
                }),
                _ => findings.push(Finding::new(
                    path,
                    line,
                    "allow-list",
                    "write `RULE SUBJECT -- reason`; an exception without a reason is none",
                )),
            }
        }
        (AllowList { path: path.to_owned(), entries }, findings)
    }

    /// Whether the list has exactly this subject under `rule`. The entry then counts as needed.
    pub fn allows(&mut self, rule: &str, subject: &str) -> bool {
        self.find(|entry| entry.rule == rule && entry.subject == subject)
    }

    /// Whether the list has `path` or a folder above it under `rule`. The entry then counts as
    /// needed.
    pub fn allows_path(&mut self, rule: &str, path: &Path) -> bool {
        self.find(|entry| entry.rule == rule && path.starts_with(&entry.subject))
    }

    fn find(&mut self, matches: impl Fn(&Entry) -> bool) -> bool {
        let entry = self.entries.iter_mut().find(|entry| matches(entry));
        entry.map(|entry| entry.used = true).is_some()
    }

    /// A finding for every exception that nothing needed.
    pub fn unused(&self) -> Vec<Finding> {
        let unused = self.entries.iter().filter(|entry| !entry.used);
        unused
            .map(|entry| {
                let advice = format!(
                    "nothing needs `{} {}` any more: delete the line",
                    entry.rule, entry.subject
                );
                Finding::new(&self.path, entry.line, "allow-list", advice)
            })
            .collect()
    }
}

/// The lines of a list that are neither empty nor comments, with their numbers.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> (AllowList, Vec<Finding>) {
        AllowList::parse(Path::new("allow.txt"), text)
    }

    #[test]
    fn an_entry_allows_its_subject_under_its_rule_only() {
        let (mut list, findings) = list("# remark\n\nlong-function a.rs f -- one decision tree\n");
        assert!(findings.is_empty());
        assert!(list.allows("long-function", "a.rs f"));
        assert!(!list.allows("long-function", "a.rs g"));
        assert!(!list.allows("long-file", "a.rs f"));
    }

    #[test]
    fn a_folder_allows_what_lies_in_it() {
        let (mut list, _) = list("unsafe crates/shm -- shared regions\n");
        assert!(list.allows_path("unsafe", Path::new("crates/shm/src/lib.rs")));
        assert!(!list.allows_path("unsafe", Path::new("crates/shmem/src/lib.rs")));
    }

    #[test]
    fn reasons_are_demanded() {
        for text in ["long-file a.rs\n", "long-file a.rs -- \n", "long-file -- because\n"] {
            let (list, findings) = list(text);
            assert_eq!(findings.len(), 1, "{text}");
            assert!(list.entries.is_empty(), "{text}");
        }
    }

    #[test]
    fn unneeded_entries_are_reported() {
        let (mut list, _) = list("long-file a.rs -- x\nlong-file b.rs -- y\n");
        assert!(list.allows("long-file", "b.rs"));
        let unused = list.unused();
        assert_eq!(unused.len(), 1);
        assert_eq!(unused[0].line, 1);
    }
}
