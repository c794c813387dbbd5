//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

use std::path::Path;

use petasos_codegen::configure;

#[test]
fn the_generated_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (proto, stored) = ("proto/orca.proto", "src/generated.rs");
    let builder = configure().include(root.join("proto"));
    let files = builder.generate(&[root.join(proto)]).expect("the file compiles");
    let text = files.values().next().expect("there is one package");
    let stored = root.join(stored);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&stored, text).expect("the checkout can be written");
    }
    let stored_text = std::fs::read_to_string(&stored).unwrap_or_default();
    assert!(*text == stored_text, "{proto} has other code by now: BLESS=1 stores it");
}
