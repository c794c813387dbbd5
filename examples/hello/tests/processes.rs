//! The smallest service prints its usage for an invalid command line.

#[path = "../../kv/tests/support/mod.rs"]
mod support;

use support::run;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hello");

#[test]
fn wrong_command_lines_are_told() {
    assert_eq!(run(&["greet"]).usage(), "usage: hello [serve | greet [--grpc] NAME]\n");
}
