//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

#[path = "../../../codegen/tests/stored/mod.rs"]
mod stored;

use petasos_codegen::configure;
use stored::check;

#[test]
fn the_code_for_tests_is_up_to_date() {
    check(&configure(), "protos/hello.proto", "tests/greeter/generated.rs");
    for version in ["newer", "other"] {
        let proto = format!("protos/{version}/hello.proto");
        check(&configure(), &proto, &format!("tests/versions/{version}.rs"));
    }
}

#[test]
fn the_code_of_services_with_streams_is_up_to_date() {
    check(&configure(), "protos/flow.proto", "tests/flow/generated.rs");
    let stored = "examples/route_guide_rates/generated.rs";
    check(&configure(), "protos/route_guide.proto", stored);
}
