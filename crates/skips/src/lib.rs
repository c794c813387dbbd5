//! Tests that a host cannot run.
//!
//! libtest hides what a passing test prints, so a test that prints `skipped` and returns looks like
//! one that has passed. A test calls [`skip`] instead. It records the skip in the file that
//! [`RECORD`] names, whose lines `cargo xtask ci` counts and prints. Where `CI` is `true` it fails
//! the test, unless `allowed.txt` has the reason: what CI's machines may lack is decided there.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::{env, fs, thread};

/// The environment variable that names the file in which skips are recorded, a line each.
pub const RECORD: &str = "PETASOS_SKIPS";

/// What may be skipped in CI: lines of `NAME: REASON`; others begin with `#` or are empty.
pub const ALLOWED: &str = include_str!("../allowed.txt");

/// Notes that the calling test does not run, or not all of it. The test returns after this.
///
/// `what` is what the host lacks, in one word, as in `allowed.txt`; `why` is for people.
///
/// # Panics
/// In CI, if `allowed.txt` does not have `what`.
#[track_caller]
pub fn skip(what: &str, why: impl Display) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a thread");
    eprintln!("skipped: {test}: {why}");
    if let Err(refusal) = check(what, is_ci()) {
        panic!("{refusal}: {why}");
    }
    if let Some(path) = env::var_os(RECORD) {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        let line = line(what, test, &why.to_string());
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the record of skipped tests can be written");
    }
}

/// Whether this is a CI machine, as most services tell it.
pub fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| value == "true")
}

/// Whether `what` may be skipped.
///
/// # Errors
/// In CI, if the list does not have it.
pub fn check(what: &str, is_ci: bool) -> Result<(), String> {
    let mut names = ALLOWED.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    if !is_ci || names.any(|name| name == what) {
        return Ok(());
    }
    Err(format!("`{what}` must not be missing in CI (crates/skips/allowed.txt)"))
}

/// A line of the record. It is written in one piece: tests run at the same time.
fn line(what: &str, test: &str, why: &str) -> String {
    format!("{what}\t{test}\t{}\n", why.replace(['\n', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_ci_only_what_is_listed_may_be_skipped() {
        assert_eq!(check("ipv6", true), Ok(()));
        assert_eq!(check("etcd", false), Ok(()));
        assert!(check("etcd", true).unwrap_err().contains("`etcd` must not be missing in CI"));
        assert!(check("# What", true).is_err());
    }

    #[test]
    fn every_reason_is_given() {
        for line in ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, reason) = line.split_once(": ").expect("NAME: REASON");
            assert!(!name.contains(' ') && reason.len() > 20, "{line}");
        }
    }

    #[test]
    fn a_record_is_one_line() {
        assert_eq!(line("a", "test", "b\nc\td"), "a\ttest\tb c d\n");
    }
}
