//! Generated code that is checked in is what codegen writes. `BLESS=1` stores it anew; review it as
//! a change.
//!
//! Crates whose generated code is checked in include this file by its path.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};

use petasos_codegen::Builder;

/// The path of a file of the crate that includes this.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares what `builder` writes for `proto` with what is stored.
pub fn check(builder: &Builder, proto: &str, stored: &str) {
    let files = builder.generate(&[here(proto)]).expect("the file compiles");
    assert_eq!(files.len(), 1, "{proto} is one package");
    files.values().for_each(|text| compare(&here(stored), text));
}

/// Compares a stored file with what it should be.
pub fn compare(path: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, text).expect("the checkout can be written");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    let first = stored.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        stored == text,
        "{} differs, first in line {:?}: run with BLESS=1, and review the change",
        path.display(),
        first.map(|at| at + 1),
    );
}
