//! Checks that were skipped on this machine: recorded by tests and steps, counted by `cargo xtask
//! ci`.
//!
//! `crates/skips` is the counterpart for tests, and its `allowed.txt` lists what may be skipped in
//! CI. That list is read here as a file, because no crate of the workspace is linked.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::task::{TaskResult, target_folder};

const ALLOWED: &str = "crates/skips/allowed.txt";

/// The variable that tells processes where to record skips; `crates/skips` uses the same.
pub const RECORD: &str = "PETASOS_SKIPS";

/// The path of this run's record.
static PATH: OnceLock<PathBuf> = OnceLock::new();

/// The path of this run's record, once it has begun.
pub fn record() -> Option<&'static Path> {
    PATH.get().map(PathBuf::as_path)
}

/// Makes an empty record for this run, and returns its path.
pub fn begin(root: &Path) -> Result<&'static Path, String> {
    let folder = target_folder(root, "skips");
    let path = folder.join(format!("{}.txt", std::process::id()));
    let made = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, ""));
    made.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(PATH.get_or_init(|| path))
}

/// Whether this is a run of CI, according to the usual variable.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Records that a step, or a part of it, cannot run here. In CI this is an error unless the list
/// has `what`.
pub fn skip(root: &Path, what: &str, why: &str) -> TaskResult {
    println!("skipped: {why}");
    let allowed = fs::read_to_string(root.join(ALLOWED))
        .map_err(|error| format!("cannot read {ALLOWED}: {error}"))?;
    if is_ci() && !allows(&allowed, what) {
        return Err(format!("`{what}` must not be missing in CI ({ALLOWED}): {why}"));
    }
    let Some(path) = record() else { return Ok(()) };
    let file = fs::OpenOptions::new().append(true).open(path);
    let line = format!("{what}\tstep\t{}\n", why.replace(['\n', '\t'], " "));
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn allows(list: &str, what: &str) -> bool {
    list.lines().filter_map(|line| line.split_once(": ")).any(|(name, _)| name == what)
}

/// Summarises a record for the last line of a run. Prints the reason of each skip.
pub fn summary(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    for line in text.lines() {
        println!("skipped: {}", line.replace('\t', ": "));
    }
    // The record is no longer needed. It does not matter if removing it fails.
    let _ = fs::remove_file(path);
    Ok(counted(&text))
}

fn counted(record: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in record.lines() {
        *counts.entry(line.split('\t').next().unwrap_or_default()).or_default() += 1;
    }
    let parts: Vec<_> = counts.iter().map(|(what, count)| format!("{what}: {count}")).collect();
    match counts.values().sum::<usize>() {
        0 => "nothing skipped".to_owned(),
        count => format!("{count} skipped ({})", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_allowed() {
        let list = "# no: comment\n\nipv6: a reason\n";
        assert!(allows(list, "ipv6"));
        assert!(!allows(list, "etcd") && !allows(list, "reason"));
    }

    #[test]
    fn a_record_is_counted_by_what_is_missing() {
        assert_eq!(counted(""), "nothing skipped");
        let record = "root\tone\twhy\nipv6\ttwo\twhy\nroot\tthree\twhy\n";
        assert_eq!(counted(record), "3 skipped (ipv6: 1, root: 2)");
    }
}
