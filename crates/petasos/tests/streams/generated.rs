//! The checked-in code of services with streams is what codegen writes. With `BLESS=1` it is
//! written anew.

use std::path::Path;

fn check(proto: &str, checked_in: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = petasos_codegen::configure().generate(&[here.join(proto)]);
    let files = files.expect("the file compiles");
    let text = files.values().next().expect("there is one package");
    let path = here.join(checked_in);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let present = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(*text, present, "{checked_in}");
}

#[test]
fn the_generated_code_is_up_to_date() {
    check("protos/flow.proto", "tests/flow/generated.rs");
    check("protos/route_guide.proto", "examples/route_guide_rates/generated.rs");
}
