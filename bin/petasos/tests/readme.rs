//! The README quotes code that is compiled.

use std::fs;
use std::path::Path;

/// The fenced Rust blocks of the README.
fn rust_blocks(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```rust\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_quick_start_is_part_of_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("it is in the repository");
    let (readme, example) = (read("README.md"), read("crates/endpoint/examples/hello.rs"));
    let blocks = rust_blocks(&readme);
    assert!(!blocks.is_empty(), "the README has a quick start");
    for piece in blocks.iter().flat_map(|block| block.split("\n// …\n")) {
        assert!(example.contains(piece.trim_matches('\n')), "not in hello.rs:\n{piece}");
    }
}
