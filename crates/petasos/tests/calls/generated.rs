//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

use std::path::{Path, PathBuf};

use petasos_codegen::{Builder, configure};

/// The path of a file of this crate.
fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn check(builder: Builder, proto: &str, stored: &str) {
    let files = builder.generate(&[here(proto)]).expect("the file compiles");
    let text = files.values().next().expect("there is one package");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(here(stored), text).expect("the checkout can be written");
    }
    let stored_text = std::fs::read_to_string(here(stored)).unwrap_or_default();
    assert!(*text == stored_text, "{stored} is not what codegen writes: BLESS=1 stores it");
}

#[test]
fn the_code_for_tests_is_up_to_date() {
    check(configure(), "protos/hello.proto", "tests/greeter/generated.rs");
    for version in ["newer", "other"] {
        let proto = format!("protos/{version}/hello.proto");
        check(configure(), &proto, &format!("tests/versions/{version}.rs"));
    }
}
