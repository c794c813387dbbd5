//! `petasos call` with real processes: what works, and each way in which it does not.

#![allow(clippy::unwrap_used, reason = "the listeners below are part of the test")]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;

use rustix::process::Signal;
use support::{Finished, Petasos, Server, petasos};

/// The slow echo, asked for a delay that no test waits for ("zzzz" as a number).
const SLOW: [&str; 3] = ["method", "5", "zzzzlate"];

fn call_to(address: &str, args: &[&str]) -> Finished {
    petasos(&[&["raw", address], args].concat())
}

#[test]
fn a_value_is_put_and_got() {
    let server = Server::start(&[]);
    assert_eq!(server.call(&["echo", "hello, world"]).success(), "hello, world\n");
    assert_eq!(server.call(&["put", "7", "seven"]).success(), "stored\n");
    let got = server.call(&["get", "7"]);
    assert_eq!(got.success(), "seven\n");
    assert!(got.stderr.starts_with("round trip "), "{got:?}");
    assert_eq!(server.figure("store.keys"), 1);
}

#[test]
fn an_answer_as_json_is_one_object() {
    let server = Server::start(&[]);
    let answer = server.call(&["echo", "a \"quoted\" word", "--json"]);
    let object: serde_json::Value = serde_json::from_str(answer.success()).expect("JSON");
    assert_eq!(object["answer"], "a \"quoted\" word");
    assert!(object["round_trip_us"].as_f64() > Some(0.0));
}

#[test]
fn a_value_of_many_packets_goes_both_ways() {
    let server = Server::start(&["--polling", "spin"]);
    let value: String = (0..700_000).map(|number| format!("{number} ")).collect();
    let mut put = Petasos::start(&["raw", &server.address, "put", "1", "-"]);
    put.feed(value.as_bytes());
    assert_eq!(put.finish().success(), "stored\n");
    let got = server.call(&["get", "1"]);
    assert_eq!(got.success().strip_suffix('\n'), Some(value.as_str()));
}

#[test]
fn each_failure_has_a_line_of_its_own() {
    let server = Server::start(&["--memory-max", "1KiB"]);
    let big = "x".repeat(2000);
    let cases: [(&[&str], &str); 3] = [
        (&["get", "1"], "no value under key 1; store one with"),
        (&["put", "1", &big], "no room for the value; nothing was changed; start it with"),
        (&["method", "999", "x"], "no handler for this method"),
    ];
    for (args, line) in cases {
        let finished = server.call(args);
        assert!(finished.failure().contains(line), "{finished:?}");
    }
    // A malformed request is answered with a status, here as the bare byte.
    assert_eq!(server.call(&["method", "3", "short"]).success(), "\u{3}\n");
}

#[test]
fn wrong_addresses_are_told_apart() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let cases = [
        (unused.as_str(), "nothing listens there; start one with `petasos serve --listen"),
        ("127.0.0.1", "give HOST:PORT"),
        ("127.0.0.1:0", "port 0 cannot be called"),
        ("127.0.0.1:port", "give HOST:PORT"),
    ];
    for (address, line) in cases {
        let finished = call_to(address, &["echo", "x"]);
        assert!(finished.failure().contains(line), "{address}: {finished:?}");
    }
}

#[test]
fn a_wrong_command_line_is_another_exit_status() {
    for args in [&["call"][..], &["call", "127.0.0.1:1", "sing"], &["serve", "--endpoints", "0"]] {
        let finished = petasos(args);
        assert_eq!(finished.code, Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains("--help"), "{finished:?}");
    }
}

#[test]
fn who_gives_call_what_raw_takes_is_told_so() {
    let finished = petasos(&["call", "127.0.0.1:1", "echo", "x"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("`petasos raw`"), "{finished:?}");
}

#[test]
fn a_call_that_is_not_answered_in_time_says_so() {
    let server = Server::start(&[]);
    let finished = server.call(&[&SLOW[..], &["--timeout", "100"]].concat());
    assert!(finished.failure().contains("the call timed out"), "{finished:?}");
    assert_eq!(server.call(&["echo", "still there"]).success(), "still there\n");
}

#[test]
fn a_server_that_is_killed_during_a_call_is_noticed() {
    let server = Server::start(&[]);
    let args = [&["raw", &server.address], &SLOW[..], &["--timeout", "600000"]].concat();
    let waiting = Petasos::start(&args);
    server.await_figure("requests.running", |running| running == 1);
    server.process.send(Signal::KILL);
    let finished = waiting.finish();
    assert!(finished.failure().contains("lost the server at"), "{finished:?}");
}

#[test]
fn a_server_that_does_not_answer_the_set_up_is_noticed() {
    let server = Server::start(&[]);
    server.process.send(Signal::STOP);
    let finished = server.call(&["echo", "x", "--timeout", "200"]);
    assert!(finished.failure().contains("did not answer in time"), "{finished:?}");
}

/// Listens, and greets whoever comes with `greeting`.
fn greeter(greeting: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The client may hang up first, which is as well.
        let _ = stream.write_all(&greeting);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn another_version_is_named() {
    let mut hello = vec![22 + 1, 0, 1, 0];
    hello.extend_from_slice(b"PTSC\x00\x09\x02\x09\x11\x22\x33\x44\x55\x66\x77\x88");
    hello.extend_from_slice(&[1, 0, 3, 0, 0, 0, 0]);
    let finished = call_to(&greeter(hello), &["echo", "x"]);
    let line = finished.failure();
    assert!(line.contains("the server 9.0") && line.contains("upgrade the older"), "{line}");
}

#[test]
fn a_port_of_something_else_is_named() {
    let finished = call_to(&greeter(b"220 mail.example ESMTP\r\n".to_vec()), &["echo", "x"]);
    let line = finished.failure();
    assert!(line.contains("check that a Petasos server listens"), "{line}");
}
