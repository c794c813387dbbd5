//! `petasos bench managed`: what it reports, that a contender that dies is reported, and that no
//! process outlives it.

#[path = "managed/grpc.rs"]
mod grpc;
#[path = "managed/hotel.rs"]
mod hotel;
#[path = "managed/live.rs"]
mod live;
mod support;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use petasos_base::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{BENCH, Finished, WATCHDOG, bench};

/// Several measurements at once would starve each other.
static MEASURING: Mutex<()> = Mutex::new(());

fn managed(options: &[&str]) -> Finished {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    bench(&[&["managed"], options].concat())
}

/// The same in short turns, for what is measured in turns.
fn in_turns(options: &[&str]) -> Finished {
    managed(&[&["--turn-ms", "20"], options].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("it is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn contenders_are_measured_beside_busy_processes() {
    let options = ["--figure", "table2", "--seconds", "0.1", "--contenders", "relay,direct"];
    let beside = ["--beside", "2", "--print-json"];
    let json = json(in_turns(&[&options[..], &beside].concat()).success());
    assert_eq!(json["parameters"]["beside"], 2);
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "none has ended early: {json}");
    assert!(number(&json["ratios"]["direct"]["relay"]) > 0.0);
    let failed = managed(&["--figure", "bind", "--beside", "2"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("--beside means nothing for bind: it is for "), "{failed:?}");
}

#[test]
fn contenders_of_this_program_are_compared_with_the_floor() {
    let options = ["--figure", "table2", "--seconds", "0.3", "--contenders", "relay,direct,tonic"];
    let json = json(in_turns(&[&options[..], &["--print-json"]].concat()).success());
    assert_eq!((&json["experiment"], &json["figure"]), (&"managed".into(), &"table2".into()));
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "{json}");
    for name in ["relay", "direct", "tonic"] {
        let row = &json["contenders"][name];
        for field in ["p50_us", "p99_us", "ops_per_s", "gbit_per_s", "cpu_s_per_million"] {
            assert!(number(&row[field]) > 0.0, "{field} of {name}");
        }
        let memory = &row["peak_memory_bytes"];
        let between = number(&memory["between"]) > 0.0;
        assert_eq!(between, name == "relay", "others have nobody between their ends");
        assert!(number(&memory["client"]) > 0.0 && number(&memory["server"]) > 0.0);
        assert!(row["rounds"].as_array().is_some_and(|rounds| rounds.len() == 5), "{row}");
        assert!(number(&json["ratios"][name]["relay"]) > 0.0);
        assert!(json["ratios"][name]["best_proxied"].is_null(), "no proxy was measured");
    }
    assert_eq!(json["ratios"]["relay"]["relay"], 1.0);
}

#[test]
fn threads_and_long_requests_pass_relays_and_proxies() {
    let contenders = ["--contenders", "relay,direct-proxies", "--print-json"];
    let rates = ["--figure", "5", "--seconds", "0.2"];
    let rates = json(in_turns(&[&rates[..], &contenders[..]].concat()).success());
    let threads: Vec<_> = rates["points"].as_array().expect("points").iter().collect();
    assert_eq!(threads.len(), 2);
    // On a busy machine, a call of 8 MB may take longer than a short turn.
    let long = ["--figure", "4", "--points", "8 MB", "--turn-ms", "250", "--seconds", "1"];
    let long = json(managed(&[&long[..], &contenders[..]].concat()).success());
    for json in [threads[0], threads[1], &long["points"][0]] {
        for name in ["relay", "direct-proxies"] {
            let row = &json["contenders"][name];
            assert!(number(&row["ops_per_s"]) > 0.0, "{name} in {json}");
        }
    }
    assert_eq!(long["points"][0]["request_bytes"], 8_000_000);
}

#[test]
fn what_does_not_exist_is_refused() {
    for options in [
        &["--figure", "table2", "--contenders", "relay,nobody"][..],
        &["--figure", "5", "--points", "17"],
    ] {
        let finished = managed(options);
        assert_eq!(finished.code, Some(1), "{finished:?}");
    }
    for options in [&["--figure", "3"][..], &[], &["--figure", "5", "--seconds", "1e9"]] {
        let finished = managed(options);
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
}

#[test]
fn configurations_are_shown_without_measuring() {
    let finished = managed(&["--show-config"]);
    let text = finished.success();
    let shown = ["## relay: ", "$ envoy --concurrency 1 ", "grpc_pass", "proto h2", "no-tls"];
    assert!(shown.iter().all(|what| text.contains(what)), "{text}");
}

/// The processes that a measurement has started, with their command lines. A launcher's programs
/// keep no trace of it, so these measurements have none.
fn parts_of(parent: u32) -> Vec<(Pid, String)> {
    let of_parent = format!("\0--parent\0{parent}\0");
    let entries = std::fs::read_dir("/proc").expect("it is mounted");
    let part = |path: PathBuf| {
        let id: i32 = path.file_name()?.to_str()?.parse().ok()?;
        let line = std::fs::read_to_string(path.join("cmdline")).ok()?;
        line.contains(&of_parent).then_some((Pid::from_raw(id)?, line.replace('\0', " ")))
    };
    entries.filter_map(|entry| part(entry.ok()?.path())).collect()
}

/// Waits until `what` gives something.
fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let clock = SystemClock::default();
    let begun = clock.now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(clock.now() - begun < WATCHDOG, "nothing happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(contenders: &str, seconds: &str) -> Child {
    let mut command = Command::new(BENCH);
    command.args(["managed", "--figure", "table2", "--print-json", "--turn-ms", "20"]);
    command.args(["--contenders", contenders, "--seconds", seconds]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program was just built")
}

#[test]
fn a_contender_that_dies_is_reported_and_the_others_go_on() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let child = start("relay,direct", "2");
    let id = child.id();
    // All of both are there: four of the relay and two others.
    let parts = wait_for(|| Some(parts_of(id)).filter(|parts| parts.len() == 6));
    let is_service = |(_, line): &&(Pid, String)| line.contains(" relay-service ");
    let (service, _) = parts.iter().find(is_service).expect("the relay has two");
    kill_process(*service, Signal::KILL).expect("it is the measurement's child");
    let output = child.wait_with_output().expect("its output is piped");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let json = json(&String::from_utf8_lossy(&output.stdout));
    let skipped = &json["skipped"][0];
    assert_eq!(skipped["name"], "relay");
    let reason = skipped["reason"].as_str().expect("there is a reason");
    assert!(reason.contains("relay-service") && reason.contains("died"), "{reason}");
    assert!(errors.contains("relay is skipped"), "{errors}");
    assert!(number(&json["contenders"]["direct"]["p50_us"]) > 0.0);
    assert!(json["contenders"]["relay"].is_null());
    assert!(json["ratios"]["direct"]["relay"].is_null());
    assert_eq!(parts_of(id), []);
}

#[test]
fn a_measurement_that_is_killed_leaves_no_part_behind() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = start("relay,direct-proxies", "600");
    let id = child.id();
    wait_for(|| Some(parts_of(id)).filter(|parts| parts.len() == 8));
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
    wait_for(|| parts_of(id).is_empty().then_some(()));
}

#[test]
fn a_launched_program_ends_with_its_parent() {
    // A shell launches a program that would sleep for an hour, says who it is, and ends.
    let script = r#""$0" managed-launch --core 0 --parent $$ -- sleep 3600 & echo $!; sleep 0.2"#;
    let shell = Command::new("sh").args(["-c", script, BENCH]).output().expect("there is a shell");
    let id: i32 = String::from_utf8_lossy(&shell.stdout).trim().parse().expect("it says who");
    let is_alive = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    wait_for(|| (!is_alive()).then_some(()));
    let orphan = bench(&["managed-launch", "--core", "0", "--parent", "1", "--", "sleep", "3600"]);
    assert_eq!(orphan.code, Some(1), "its parent is another: {orphan:?}");
}
