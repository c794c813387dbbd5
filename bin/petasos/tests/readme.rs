//! The README quotes code that is compiled.

use std::fs;
use std::path::Path;

/// What the README quotes from.
const EXAMPLES: [&str; 2] = ["examples/hello/src/main.rs", "crates/endpoint/examples/hello.rs"];

/// The fenced Rust blocks of the README.
fn rust_blocks(readme: &str) -> Vec<&str> {
    let blocks = readme.split("```rust\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn quoted_code_is_part_of_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("it is in the repository");
    let (readme, examples) = (read("README.md"), EXAMPLES.map(read));
    let blocks = rust_blocks(&readme);
    assert_eq!(blocks.len(), EXAMPLES.len(), "one block from each");
    for (block, (example, path)) in blocks.iter().zip(examples.iter().zip(EXAMPLES)) {
        for piece in block.split("\n// …\n") {
            assert!(example.contains(piece.trim_matches('\n')), "not in {path}:\n{piece}");
        }
    }
}
