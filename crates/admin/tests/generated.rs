//! The checked-in code is what codegen writes. `BLESS=1` stores it anew.

#[path = "../../codegen/tests/stored/mod.rs"]
mod stored;

use petasos_codegen::configure;
use stored::{check, here};

#[test]
fn the_generated_code_is_up_to_date() {
    let builder = configure().include(here("proto"));
    check(&builder, "proto/petasos/admin/v1/admin.proto", "src/generated.rs");
}

#[test]
fn the_generated_code_of_routers_is_up_to_date() {
    let builder = configure().include(here("proto")).extern_path(".petasos.admin.v1", "crate");
    check(&builder, "proto/petasos/router/v1/router.proto", "src/router.rs");
}
