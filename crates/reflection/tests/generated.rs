//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

#[path = "../../codegen/tests/stored/mod.rs"]
mod stored;

use petasos_codegen::configure;
use stored::{check, here};

#[test]
fn the_generated_code_is_up_to_date() {
    let builder = configure().include(here("proto"));
    for version in ["v1", "v1alpha"] {
        let proto = format!("proto/grpc/reflection/{version}/reflection.proto");
        check(&builder, &proto, &format!("src/generated_{version}.rs"));
    }
}
