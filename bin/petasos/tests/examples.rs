//! Examples print their errors plainly. A `main` that returns a `Result` prints them for debugging.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose programs users run and copy from.
const FOLDERS: [&str; 3] = ["examples", "crates/endpoint/examples", "crates/petasos/examples"];

/// The Rust files below `folder`, without build scripts, whose errors only developers see.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is in the repository") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("build.rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_main_of_an_example_returns_a_result() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    FOLDERS.iter().for_each(|folder| programs(&root.join(folder), &mut found));
    assert!(found.len() > 20, "{found:?}");
    for path in found {
        let text = fs::read_to_string(&path).expect("it is text");
        let main = text.lines().find(|line| line.contains("fn main()"));
        assert!(!main.is_some_and(|main| main.contains("Result")), "{}", path.display());
    }
}
