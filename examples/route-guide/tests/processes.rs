//! Runs the guide as one process, and as two.

#[path = "../../kv/tests/support/mod.rs"]
mod support;

use support::{Process, run, services};

const PROGRAM: &str = env!("CARGO_BIN_EXE_route-guide");

const SAID: &str = "\
there is Berkshire Valley Road
in the area: Berkshire Valley Road
in the area: Wharton
3 points, 2 features
left before: first
left before: first
left before: second
";

#[test]
fn one_process_calls_itself() {
    assert_eq!(run(&[]).success(), SAID);
}

#[test]
fn two_processes_call_each_other() {
    let mut server = Process::start(&["serve", "127.0.0.1:0"]);
    let address = server.address();
    assert_eq!(run(&["call", &address]).success(), SAID);
}

#[test]
fn wrong_command_lines_are_told() {
    assert!(run(&["call"]).usage().contains("call ADDRESS"));
}

#[test]
fn the_server_tells_what_it_offers() {
    let mut server = Process::start(&["serve", "127.0.0.1:0"]);
    assert_eq!(services(&server.address()), ["grpc.health.v1.Health", "routeguide.RouteGuide"]);
}
