//! How property tests in `tests/` folders are run, so that their failing cases are kept.
//!
//! proptest keeps the seed of a case that failed, and tries it again first of all in later runs. By
//! default it looks for a place beside the crate's `lib.rs` or `main.rs`. A test file in `tests/`
//! has neither above it: proptest warns, without saying what about. Such tests begin with
//! `#![proptest_config(petasos_cases::kept())]`. Their seeds go beside the file itself, in
//! `NAME.proptest-regressions`, which is committed with the fix.
//!
//! A property whose cases are slow has fewer of them, by [`kept_with`]. Its number is a share of
//! proptest's default, so that `PROPTEST_CASES` lengthens all properties alike: a hundred times the
//! default runs a hundred times the cases of each. `cargo xtask soak --times 100` does that.

#![forbid(unsafe_code)]

use proptest::test_runner::{Config, FileFailurePersistence};

/// The cases of a property that says nothing, unless the environment does.
const USUAL_CASES: u64 = 256;

/// As proptest's default, with failing cases kept beside the test's file.
pub fn kept() -> Config {
    let beside = FileFailurePersistence::WithSource("proptest-regressions");
    Config { failure_persistence: Some(Box::new(beside)), ..Config::default() }
}

/// The same, with so many cases where others have proptest's default.
pub fn kept_with(cases: u32) -> Config {
    let usual = kept();
    Config { cases: share(cases, usual.cases), ..usual }
}

/// So many of the usual cases, if there are `all` of those. At least one.
fn share(cases: u32, all: u32) -> u32 {
    let cases = u64::from(cases) * u64::from(all) / USUAL_CASES;
    u32::try_from(cases.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_properties_are_lengthened_alike() {
        assert_eq!([1, 64, 2000].map(|cases| share(cases, 256)), [1, 64, 2000]);
        assert_eq!([1, 64, 2000].map(|cases| share(cases, 25_600)), [100, 6400, 200_000]);
        assert_eq!([1, 64, 2000].map(|cases| share(cases, 1)), [1, 1, 7]);
        assert_eq!(share(u32::MAX, u32::MAX), u32::MAX);
    }
}
