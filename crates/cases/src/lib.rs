//! How property tests in `tests/` folders are run, so that their failing cases are kept.
//!
//! proptest keeps the seed of a case that failed, and tries it again first of all in later runs. By
//! default it looks for a place beside the crate's `lib.rs` or `main.rs`. A test file in `tests/`
//! has neither above it: proptest warns, without saying what about. Such tests begin with
//! `#![proptest_config(petasos_cases::kept())]`. Their seeds go beside the file itself, in
//! `NAME.proptest-regressions`, which is committed with the fix.

#![forbid(unsafe_code)]

use proptest::test_runner::{Config, FileFailurePersistence};

/// As proptest's default, with failing cases kept beside the test's file.
pub fn kept() -> Config {
    let beside = FileFailurePersistence::WithSource("proptest-regressions");
    Config { failure_persistence: Some(Box::new(beside)), ..Config::default() }
}

/// The same, with so many cases, whatever the environment says.
pub fn kept_with(cases: u32) -> Config {
    Config { cases, ..kept() }
}
