//! `petasos call`, `list` and `describe` to a typed server through the managed service of the host.

mod shelf;
mod support;

#[path = "../../petasosd/tests/process/mod.rs"]
mod process;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};

use petasos::{ServiceChoice, ServiceConfig};
use process::Process;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use shelf::Running;
use support::{Finished, Petasos, petasos};

const PROTO: [&str; 2] = ["--proto", concat!(env!("CARGO_MANIFEST_DIR"), "/protos/shelf.proto")];

struct Fixture {
    daemon: Process,
    server: Running,
}

impl Fixture {
    /// Nothing if there is no daemon.
    fn new(test: &str) -> Option<Fixture> {
        let daemon = Process::start(test)?;
        let config = ServiceConfig::new(&daemon.service()).expect("it is a path");
        let config = config.application("shelf").expect("it is a name");
        let server = Running::managed(ServiceChoice::Managed(config));
        Some(Fixture { daemon, server })
    }

    /// Where operators connect.
    fn admin(&self) -> String {
        let service = self.daemon.service();
        let folder = service.strip_prefix("unix:").and_then(|path| path.strip_suffix("/socket"));
        format!("{}/admin.sock", folder.expect("it is its socket"))
    }

    /// Runs `petasos COMMAND ADDRESS …` through the daemon.
    fn run(&self, command: &str, more: &[&str], input: &[u8]) -> Finished {
        let service = self.daemon.service();
        let args = [&[command, &self.server.addresses[0]][..], more].concat();
        let mut petasos = Petasos::start_with(&args, &[("PETASOS_SERVICE", &service)]);
        petasos.feed(input);
        petasos.finish()
    }
}

#[test]
fn methods_of_all_kinds_are_called_by_what_the_server_tells() {
    let Some(fixture) = Fixture::new("cli-told") else { return };
    let found = fixture.run("call", &["shelf.Shelf/Find", r#"{"title": "Emma"}"#], b"");
    assert_eq!(found.success(), "{\"title\":\"Emma\",\"pages\":7}\n");
    let walk = ["shelf.Shelf/Walk", r#"{"title": "x", "pages": 2}"#];
    let walked = fixture.run("call", &walk, b"");
    assert_eq!(walked.success(), "{\"title\":\"x\"}\n{\"title\":\"x\",\"pages\":1}\n");
    let counted = fixture.run("call", &["shelf.Shelf/Put", "{} {\"pages\": 1}\n{}"], b"");
    assert_eq!(counted.success(), "{\"books\":\"3\"}\n");
    let input = b"{\"title\": \"a\"} {\"kind\": \"POEMS\"}";
    let swapped = fixture.run("call", &["shelf.Shelf/Swap", "-d", "@"], input);
    assert_eq!(swapped.success(), "{\"title\":\"a\"}\n{\"kind\":\"POEMS\"}\n");
}

#[test]
fn methods_are_called_by_files_and_statuses_come_back() {
    let Some(fixture) = Fixture::new("cli-files") else { return };
    let call = |title: &str| {
        let request = format!("{{\"title\": \"{title}\"}}");
        let arguments = [&["shelf.Shelf/Find", &request][..], &PROTO].concat();
        fixture.run("call", &arguments, b"")
    };
    assert_eq!(call("x").success(), "{\"title\":\"x\",\"pages\":7}\n");
    let lost = call("lost");
    assert_eq!(lost.code, Some(64 + 5), "{lost:?}");
    assert!(lost.stderr.contains("it is lost"), "{lost:?}");
}

#[test]
fn services_are_listed_and_described() {
    let Some(fixture) = Fixture::new("cli-list") else { return };
    let listed = fixture.run("list", &[], b"");
    assert!(listed.success().lines().any(|line| line.contains("shelf.Shelf")), "{listed:?}");
    let described = fixture.run("describe", &["shelf.Shelf"], b"");
    assert!(described.success().contains("rpc Find"), "{described:?}");
}

const FIND: [&str; 2] = ["shelf.Shelf/Find", r#"{"title": "Emma"}"#];

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

/// What is told of a method, in the list at `list`.
fn of<'a>(list: &'a Value, method: &str, way: &str) -> Option<&'a Value> {
    let mut all = list.as_array().expect("a list").iter();
    all.find(|calls| calls["method"] == method && calls["way"] == way)
}

#[test]
fn operators_see_what_is_counted() {
    let Some(fixture) = Fixture::new("cli-stats") else { return };
    fixture.run("call", &[&FIND[..], &PROTO].concat(), b"").success();
    let admin = fixture.admin();
    let ctl = |more: &[&str]| petasos(&[&["ctl", "--socket", &admin, "stats"], more].concat());
    let stats = parsed(ctl(&["shelf", "--json"]).success());
    let application = &stats["applications"][0];
    let found = of(&application["calls"], "shelf.Shelf/Find", "from-local").expect("it was called");
    assert_eq!((&found["begun"], &found["under_way"]), (&json!(1), &json!(0)));
    assert_eq!(found["ended"], json!({"OK": 1}));
    assert!(found["p50_ns"].as_u64() > Some(0) && found["latency"].is_array(), "{found}");
    let table = ctl(&[]);
    let line = table.success().lines().find(|line| line.contains("shelf.Shelf/Find"));
    let words: Vec<&str> = line.expect("it was called").split_whitespace().collect();
    assert_eq!(words[1..8], ["shelf", "shelf.Shelf/Find", "from-local", "1", "0", "1", "0"]);
    assert_eq!(ctl(&["shop"]).code, Some(64 + 5), "not found");
}

#[test]
fn top_prints_frames_without_a_terminal() {
    let Some(fixture) = Fixture::new("cli-top") else { return };
    let admin = fixture.admin();
    let top = |more: &[&str]| {
        petasos(&[&["top", "--socket", &admin, "--interval", "0.1"], more].concat())
    };
    let once = top(&["--once"]);
    assert!(once.success().starts_with("1 application, 0 calls/s, "), "{once:?}");
    let frames = top(&["--batch", "3", "--json", "--sort", "p99"]);
    let frames: Vec<Value> = frames.success().lines().map(parsed).collect();
    assert_eq!(frames.len(), 3);
    assert!(frames.iter().all(|frame| frame["seconds"].as_f64() > Some(0.0)), "{frames:?}");
    for wrong in [&["--interval", "0"][..], &["--batch", "0"], &["--once", "--batch", "2"]] {
        assert_eq!(petasos(&[&["top", "--socket", &admin], wrong].concat()).code, Some(2));
    }
    let unseen = top(&[]);
    assert!(unseen.failure().contains("--once, --batch N or --json"), "{unseen:?}");
}

#[test]
fn top_shows_rates() {
    let Some(fixture) = Fixture::new("cli-rates") else { return };
    let admin = fixture.admin();
    let arguments = ["top", "--socket", &admin, "--interval", "0.1", "--json"];
    let mut top = Petasos::start(&arguments);
    parsed(&top.line());
    fixture.run("call", &[&FIND[..], &PROTO].concat(), b"").success();
    let frame = loop {
        let frame = parsed(&top.line());
        let found = of(&frame["calls"], "shelf.Shelf/Find", "from-local");
        if found.is_some_and(|found| found["begun_per_s"].as_f64() > Some(0.0)) {
            break frame;
        }
    };
    let found = of(&frame["calls"], "shelf.Shelf/Find", "from-local").expect("it was just found");
    assert_eq!(found["failed_per_s"], 0.0, "{found}");
    // It was over in this frame, or will be in the next.
    let p50 = |frame: &Value| {
        let found = of(&frame["calls"], "shelf.Shelf/Find", "from-local");
        found.and_then(|found| found["p50_ns"].as_u64())
    };
    assert!(p50(&frame).is_some() || p50(&parsed(&top.line())).is_some(), "{frame}");
}

#[test]
fn top_takes_a_terminal_and_gives_it_back() {
    let Some(fixture) = Fixture::new("cli-terminal") else { return };
    let (mut terminal, mut child) = in_terminal(&["top", "--socket", &fixture.admin()]);
    let mut shown = Vec::new();
    let mut read_until = |terminal: &mut File, end: &str| {
        let mut bytes = [0; 4096];
        while !String::from_utf8_lossy(&shown).contains(end) {
            let count = terminal.read(&mut bytes).expect("the terminal is open");
            shown.extend_from_slice(&bytes[..count]);
        }
        shown.clear();
    };
    read_until(&mut terminal, "\x1b[?1049h");
    read_until(&mut terminal, "(by rate)");
    terminal.write_all(b"9").expect("the terminal is open");
    read_until(&mut terminal, "(by p99)");
    terminal.write_all(b"q").expect("the terminal is open");
    read_until(&mut terminal, "\x1b[?1049l");
    assert!(child.wait().expect("it is a child").success());
}

/// `petasos` in a terminal of its own.
fn in_terminal(arguments: &[&str]) -> (File, Child) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are terminals");
    grantpt(&terminal).expect("it is new");
    unlockpt(&terminal).expect("it is new");
    let path = ptsname(&terminal, Vec::new()).expect("it has a name").into_string();
    let path = path.expect("it is a path");
    let open = || File::options().read(true).write(true).open(&path).expect("it is there");
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos"));
    command.args(arguments).stdin(open()).stdout(open());
    (File::from(terminal), command.spawn().expect("it was just built"))
}
