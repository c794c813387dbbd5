//! A case that failed is tried again.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use petasos_cases::{kept, kept_with};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

/// Runs a property of a test file at `source` that fails for large numbers; returns those tried.
fn tried(source: &'static str, cases: u32) -> Vec<u64> {
    let config =
        ProptestConfig { source_file: Some(source), max_shrink_iters: 0, ..kept_with(cases) };
    let seen = RefCell::new(Vec::new());
    let outcome = TestRunner::new(config).run(&any::<u64>(), |number| {
        seen.borrow_mut().push(number);
        let is_small = number < u64::MAX / 4;
        if is_small { Ok(()) } else { Err(TestCaseError::fail("large")) }
    });
    assert!(outcome.is_err(), "most numbers are large");
    seen.into_inner()
}

#[test]
fn a_failing_case_is_kept_beside_its_file_and_tried_first() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cases");
    // Of an earlier run, if any.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("there is room");
    let source = folder.join("property.rs");
    fs::write(&source, "").expect("there is room");
    let source: &'static str = source.to_str().expect("plain names").to_owned().leak();
    let failed = *tried(source, 256).last().expect("some case failed");
    let seeds = folder.join("property.proptest-regressions");
    let text = fs::read_to_string(seeds).expect("the seed is kept");
    assert!(text.contains(&failed.to_string()), "{text}");
    // With no fresh cases to speak of, the failure comes back at once.
    assert_eq!(tried(source, 1), [failed]);
}

#[test]
fn the_environment_decides_how_many_cases_there_are() {
    assert_eq!(kept().cases, ProptestConfig::default().cases);
}
