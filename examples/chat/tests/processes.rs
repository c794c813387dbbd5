//! Tests the room as it is used: a server process, and a process for each member.

#[path = "../../kv/tests/support/mod.rs"]
mod support;

use support::{Process, run, services};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chat");

#[test]
fn members_hear_each_other_over_both_protocols() {
    let (_server, addresses) = Process::serve();
    let mut ada = Process::start(&["join", &addresses[0], "ada"]);
    assert_eq!(ada.line(), "* you are here, with 0 others");
    let mut bob = Process::start(&["join", &addresses[1], "bob"]);
    assert_eq!(bob.line(), "* you are here, with 1 others");
    assert_eq!(ada.line(), "* bob is here");
    ada.say("hello");
    assert_eq!(bob.line(), "ada: hello");
    bob.say("and to you");
    assert_eq!(ada.line(), "bob: and to you");
    let twin = run(&["join", &addresses[0], "bob"]);
    assert!(twin.failure().contains("ALREADY_EXISTS: `bob` is here already"), "{twin:?}");
    assert_eq!(bob.finish().success(), "");
    assert_eq!(ada.line(), "* bob has left");
    assert_eq!(ada.finish().success(), "");
}

#[test]
fn who_does_not_read_is_dropped_and_holds_up_nobody() {
    let (_server, addresses) = Process::serve();
    let line = "x".repeat(1000);
    for address in &addresses {
        let mut ada = Process::start(&["join", address, "ada"]);
        assert_eq!(ada.line(), "* you are here, with 0 others");
        let mut deaf = Process::start(&["join", "--deaf", address, "bob"]);
        assert_eq!(deaf.line(), "* you are here, with 1 others");
        ada.say_until(&line, "* bob was dropped");
        let mut eve = Process::start(&["join", address, "eve"]);
        assert_eq!(eve.line(), "* you are here, with 1 others");
        ada.say("still here");
        // A member that joined meanwhile receives what is said from then on.
        while eve.line() != "ada: still here" {}
        let finished = deaf.finish();
        let failure = finished.failure();
        assert!(failure.contains("RESOURCE_EXHAUSTED: 256 lines were said that"), "{failure}");
        // Both have left once their processes have ended: the next member finds nobody.
        for who in [ada, eve] {
            who.finish().success();
        }
    }
}

#[test]
fn who_is_killed_has_left() {
    let (_server, addresses) = Process::serve();
    let mut ada = Process::start(&["join", &addresses[0], "ada"]);
    assert_eq!(ada.line(), "* you are here, with 0 others");
    for address in &addresses {
        let bob = Process::start(&["join", address, "bob"]);
        assert_eq!(ada.line(), "* bob is here");
        drop(bob);
        assert_eq!(ada.line(), "* bob has left");
    }
}

#[test]
fn wrong_command_lines_are_told() {
    assert!(run(&["join", "x"]).usage().contains("chat join"));
}

#[test]
fn the_server_tells_what_it_offers() {
    let (_server, addresses) = Process::serve();
    for address in &addresses {
        assert_eq!(services(address), ["chat.Room", "grpc.health.v1.Health"]);
    }
}
