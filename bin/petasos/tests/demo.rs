//! The demo with real processes: it succeeds if every byte is right, and only then.

mod support;

use std::time::Duration;

use rustix::process::Signal;
use support::{Finished, Folder, Petasos, Server, petasos, signal_to};

fn demo(folder: &Folder, file: &str, more: &[&str]) -> Finished {
    let report = folder.path("report.html");
    petasos(&[&["demo", "--file", file, "--report", &report], more].concat())
}

/// A demo whose server can be found.
struct Running {
    process: Petasos,
    server: u32,
}

fn start(folder: &Folder, file: &str) -> Running {
    let report = folder.path("report.html");
    let mut process = Petasos::start(&["demo", "--file", file, "--report", &report]);
    let rest = process.hear("server: process ");
    let id = rest.split(',').next().and_then(|id| id.parse().ok());
    Running { process, server: id.expect("the line names a process") }
}

/// Whether a process runs; one that is gone or a zombie does not.
fn runs(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

fn many_lines(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|n| format!("line {n} of a text that takes a while\n").into_bytes())
        .collect()
}

#[test]
fn the_carried_text_comes_back_right() {
    let folder = Folder::new("carried");
    let (report, json) = (folder.path("r.html"), folder.path("r.json"));
    let finished = petasos(&["demo", "--report", &report, "--json", &json]);
    let out = finished.success();
    assert!(out.contains("every byte was right: 2.7 MiB stored"), "{out}");
    assert!(out.contains("get pieces of 1 MiB"), "{out}");
    let page = std::fs::read_to_string(report).expect("the report was written");
    assert!(page.contains("<svg") && page.contains("Jargon File"));
    let json = std::fs::read_to_string(json).expect("the figures were written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("they are JSON");
    assert_eq!(json["verified"], true);
    let phases = json["phases"].as_array().expect("phases are a list");
    assert_eq!(phases[0]["calls"], 30_492);
    assert!(phases.iter().all(|phase| phase["ops_per_s"].as_f64() > Some(0.0)));
}

#[test]
fn texts_of_every_kind_come_back_right() {
    let folder = Folder::new("kinds");
    let long = vec![b'x'; 3 << 20];
    let texts: [(&str, &[u8]); 6] = [
        ("one byte", b"x"),
        ("no end", b"one\ntwo"),
        ("crlf", b"one\r\ntwo\r\n\r\n"),
        ("no utf-8", b"\xff\xfe\x00\n\n\x80\n"),
        ("empty lines", &[b'\n'; 500]),
        ("one long line", &long),
    ];
    for (name, bytes) in texts {
        let file = folder.file(name, bytes);
        let finished = demo(&folder, &file, &[]);
        assert!(finished.success().contains("every byte was right"), "{name}: {finished:?}");
    }
}

#[test]
fn what_is_no_text_is_named_with_advice() {
    let folder = Folder::new("none");
    let empty = folder.file("empty", b"");
    let absent = folder.path("absent");
    let itself = folder.0.to_str().expect("the name is ASCII");
    let cases = [
        (empty.as_str(), "is empty; the demo needs at least one byte"),
        (&absent, "cannot read"),
        (itself, "name a file, not a folder"),
    ];
    for (file, line) in cases {
        let finished = demo(&folder, file, &[]);
        assert!(finished.failure().contains(line), "{file}: {finished:?}");
    }
}

#[test]
fn an_unwritable_report_is_found_out_before_the_work() {
    let folder = Folder::new("unwritable");
    let report = folder.path("no/such/folder/report.html");
    let finished = petasos(&["demo", "--report", &report]);
    assert!(finished.failure().contains("there is no folder"), "{finished:?}");
    assert!(!finished.stderr.contains("server: process"), "{finished:?}");
}

#[test]
fn a_server_elsewhere_serves_as_well() {
    let folder = Folder::new("connect");
    let file = folder.file("text", &many_lines(3000));
    let server = Server::start(&["--endpoints", "2"]);
    let finished = demo(&folder, &file, &["--connect", &server.address]);
    assert!(finished.success().contains("every byte was right"), "{finished:?}");
    assert_eq!(server.figure("store.keys"), 3001);
}

#[test]
fn a_server_without_room_is_named_with_advice() {
    let folder = Folder::new("room");
    let file = folder.file("text", &many_lines(3000));
    let server = Server::start(&["--memory-max", "64KiB"]);
    let finished = demo(&folder, &file, &["--connect", &server.address]);
    let line = finished.failure();
    assert!(line.contains("no room for the text; start it with a larger --memory-max"), "{line}");
    assert!(server.figure("store.bytes") <= 64 << 10);
}

#[test]
fn nothing_listening_is_named_with_advice() {
    let folder = Folder::new("nobody");
    let file = folder.file("text", b"x");
    let finished = demo(&folder, &file, &["--connect", "127.0.0.1:1"]);
    assert!(finished.failure().contains("nothing listens there"), "{finished:?}");
}

#[test]
fn a_server_that_is_killed_fails_the_demo_at_once() {
    let folder = Folder::new("killed");
    let file = folder.file("text", &many_lines(1_000_000));
    let mut running = start(&folder, &file);
    running.process.hear("put lines");
    signal_to(running.server, Signal::KILL);
    let finished = running.process.finish_within(Duration::from_secs(5));
    let line = finished.failure();
    assert!(line.contains("died: killed by signal 9"), "{line}");
}

#[test]
fn a_server_that_falls_silent_fails_the_demo_and_is_not_left_behind() {
    let folder = Folder::new("stopped");
    let file = folder.file("text", &many_lines(1_000_000));
    let mut running = start(&folder, &file);
    running.process.hear("put lines");
    signal_to(running.server, Signal::STOP);
    let finished = running.process.finish_within(Duration::from_secs(5));
    let line = finished.failure();
    assert!(line.contains("the peer is silent"), "{line}");
    assert!(!runs(running.server), "the server must not be left behind");
}

#[test]
fn a_demo_that_is_killed_leaves_no_server_behind() {
    let folder = Folder::new("orphan");
    let file = folder.file("text", &many_lines(1_000_000));
    let mut running = start(&folder, &file);
    running.process.hear("put lines");
    running.process.send(Signal::KILL);
    running.process.finish();
    let clock = petasos_base::Clock::system();
    let deadline = clock.now() + support::WATCHDOG;
    while runs(running.server) {
        assert!(clock.now() < deadline, "the server outlives its parent");
        std::thread::sleep(Duration::from_millis(5));
    }
}
