//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

#[path = "../../codegen/tests/stored/mod.rs"]
mod stored;

use petasos_codegen::configure;
use stored::{check, here};

#[test]
fn the_code_of_untyped_messages_is_up_to_date() {
    let builder = configure().include(here("proto")).runtime("crate::message");
    check(&builder, "proto/petasos/untyped.proto", "src/dynamic/generated.rs");
}
