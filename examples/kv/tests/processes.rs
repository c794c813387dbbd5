//! Tests the store as it is used: a server process, and a process for each command.

mod support;

use support::{Process, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kv");

#[test]
fn entries_are_put_read_scanned_and_removed_over_both_protocols() {
    let (_server, addresses) = Process::serve();
    for address in &addresses {
        let kv = |arguments: &[&str]| {
            let (command, rest) = arguments.split_first().expect("a command");
            run(&[&[*command, address.as_str()], rest].concat())
        };
        assert_eq!(kv(&["put", "a/1", "one"]).success(), "stored\n");
        assert_eq!(kv(&["put", "a/1", "uno"]).success(), "replaced\n");
        assert_eq!(kv(&["put", "a/2", "two"]).success(), "stored\n");
        assert_eq!(kv(&["put", "b", "three"]).success(), "stored\n");
        assert_eq!(kv(&["get", "a/1"]).success(), "uno\n");
        assert_eq!(kv(&["scan", "a/"]).success(), "a/1 = uno\na/2 = two\n");
        assert_eq!(kv(&["scan"]).success(), "a/1 = uno\na/2 = two\nb = three\n");
        assert_eq!(kv(&["scan", "c"]).success(), "");
        for name in ["a/1", "a/2", "b"] {
            assert_eq!(kv(&["delete", name]).success(), "removed\n");
        }
        assert!(kv(&["get", "a/1"]).failure().contains("NOT_FOUND: nothing is under `a/1`"));
        assert!(kv(&["delete", "b"]).failure().contains("NOT_FOUND"));
        assert!(kv(&["put", "", "x"]).failure().contains("INVALID_ARGUMENT"));
    }
}

#[test]
fn long_values_and_many_entries_come_back_whole() {
    let (_server, addresses) = Process::serve();
    let long = "0123456789".repeat(10_000);
    run(&["put", &addresses[0], "long", &long]).success();
    for address in &addresses {
        assert_eq!(run(&["get", address, "long"]).success(), format!("{long}\n"));
    }
    // More entries than a page of a scan.
    for number in 0..70 {
        run(&["put", &addresses[0], &format!("n/{number:02}"), "x"]).success();
    }
    let scanned = run(&["scan", &addresses[0], "n/"]);
    let expected: String = (0..70).map(|number| format!("n/{number:02} = x\n")).collect();
    assert_eq!(scanned.success(), expected);
}

#[test]
fn watchers_are_told_of_changes_in_order() {
    let (server, addresses) = Process::serve();
    for address in &addresses {
        let mut watch = Process::start(&["watch", address, "w/"]);
        assert_eq!(watch.line(), "watching");
        run(&["put", address, "w/1", "x"]).success();
        run(&["put", address, "other", "x"]).success();
        run(&["delete", address, "w/1"]).success();
        assert_eq!(watch.line(), "w/1 = x");
        assert_eq!(watch.line(), "w/1 is gone");
    }
    let mut watch = Process::start(&["watch", &addresses[0]]);
    assert_eq!(watch.line(), "watching");
    // A server ends when told to, although watchers never would.
    server.terminate();
    assert!(server.finish().success().contains("ended; "));
    assert!(watch.finish().failure().contains("UNAVAILABLE"));
}

#[test]
fn wrong_command_lines_and_absent_servers_are_told() {
    assert!(run(&["put", "x"]).usage().contains("kv put"));
    assert!(run(&["get", "http://127.0.0.1:1", "x"]).failure().contains("unknown scheme"));
}
