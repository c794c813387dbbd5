//! The code for each file in `protos`, compared with what is stored in `golden`.
//!
//! `BLESS=1 cargo test -p petasos-codegen` stores what is generated now; review it as a change.

mod stored;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;

use petasos_codegen::{Builder, configure};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

fn protos() -> Builder {
    configure()
        .include(format!("{DIRECTORY}/protos"))
        .runtime("::petasos_message")
        .calls("crate::calls")
}

/// Compares, or stores, what `builder` makes of the files, and has rustfmt look at it.
fn check(builder: &Builder, files: &[impl Display]) {
    check_format(&compare(builder, files));
}

/// Compares, or stores, what `builder` makes of the files, named as an import would name them.
fn compare(builder: &Builder, files: &[impl Display]) -> Vec<PathBuf> {
    let files: Vec<String> =
        files.iter().map(|file| format!("{DIRECTORY}/protos/{file}")).collect();
    let generated = builder.generate(&files).expect("the files are valid");
    assert!(!generated.is_empty());
    let golden = |name| Path::new(DIRECTORY).join("golden").join(name);
    generated.iter().map(|(name, text)| compare_file(golden(name), text)).collect()
}

fn compare_file(path: PathBuf, text: &str) -> PathBuf {
    stored::compare(&path, text);
    path
}

fn check_format(paths: &[PathBuf]) {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024", "--config-path"]);
    rustfmt.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rustfmt.toml")).args(paths);
    match rustfmt.output() {
        Ok(output) => assert!(
            output.status.success(),
            "rustfmt would change this:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => eprintln!("format not checked, rustfmt does not start: {error}"),
    }
}

#[test]
fn the_example_of_the_design() {
    check(&protos(), &["note.proto"]);
}

#[test]
fn every_kind_in_every_place() {
    let files = ["implicit", "optional", "many", "oneofs"];
    check(&protos(), &files.map(|file| format!("torture/{file}.proto")));
}

/// Golden files have plain structs beside messages where the messages are of all kinds.
#[test]
fn plain_structs() {
    compare(&protos().owned(true), &["torture/owned.proto"]);
}

#[test]
fn names_that_rust_has_other_uses_for() {
    let files = ["fields", "types", "traits"];
    check(&protos(), &files.map(|file| format!("torture/{file}.proto")));
    // With paths of the standard library in full, lines are longer than rustfmt leaves them.
    compare(&protos(), &["torture/prelude.proto"]);
}

#[test]
fn services_of_all_four_kinds() {
    check(&protos(), &["route_guide.proto"]);
}

#[test]
fn comments_that_rustdoc_would_misread() {
    check(&protos(), &["torture/comments.proto"]);
}

#[test]
fn packages_within_packages_and_none() {
    check(&protos().include_file("packages.rs"), &["torture/bare.proto", "torture/inner.proto"]);
}

#[test]
fn types_that_the_runtime_has() {
    check(&protos(), &["torture/well_known.proto"]);
}

/// Each file becomes a module of `petasos-message`, with a schema of its own.
#[test]
fn the_well_known_types() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../message/src/well_known");
    for name in ["any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"] {
        let builder = configure().include(DIRECTORY).runtime("crate").owned(true);
        let builder = builder.compile_well_known_types();
        let generated = builder.generate(&[format!("google/protobuf/{name}.proto")]);
        let mut files = generated.expect("protobuf's own files are valid").into_values();
        let text = files.next().expect("each file declares something");
        let name = if name == "struct" { "structs" } else { name };
        check_format(&[compare_file(Path::new(sources).join(format!("{name}.rs")), &text)]);
        assert_eq!(files.next(), None, "they need nothing of each other");
    }
}
