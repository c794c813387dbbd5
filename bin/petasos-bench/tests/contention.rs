//! `petasos bench contention`: what it reports, and that nothing stays busy after it.

mod support;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use petasos_base::Clock;
use serde_json::Value;
use support::WATCHDOG;

/// As short as it gets: the figures mean nothing then.
const SHORT: [&str; 6] = ["--turn-ms", "50", "--seconds", "0.25", "--ends", "1"];

/// A running bench, killed when dropped.
struct Bench(Child);

impl Bench {
    fn start(options: &[&str]) -> Bench {
        let mut command = Command::new(support::BENCH);
        command.args(["contention"]).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Bench(command.spawn().expect("the program was just built"))
    }

    /// Waits until so many processes are busy on its behalf.
    fn await_competitors(&self, count: usize) {
        let clock = Clock::system();
        let deadline = clock.now() + WATCHDOG;
        loop {
            let found = competitors_of(self.0.id());
            if found == count {
                return;
            }
            assert!(clock.now() < deadline, "{found} processes compete, not {count}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many processes there are that compete on behalf of `parent`.
fn competitors_of(parent: u32) -> usize {
    let role = format!(",{parent},");
    let processes = std::fs::read_dir("/proc").expect("this is Linux");
    let lines = processes.filter_map(|process| {
        // Most entries are no processes, and a process may end while it is looked at.
        std::fs::read_to_string(process.ok()?.path().join("cmdline")).ok()
    });
    lines.filter(|line| line.contains("--competitor-role") && line.contains(&role)).count()
}

#[test]
fn the_report_has_every_figure_with_its_goal() {
    let bench = support::bench(
        &[&["contention", "--print-json", "--polling", "adaptive"], &SHORT[..]].concat(),
    );
    let json: Value = serde_json::from_str(bench.success()).expect("JSON");
    assert_eq!(json["experiment"], "contention");
    let parameters = &json["parameters"];
    assert_eq!(
        (&parameters["competitors"], &parameters["polling"]),
        (&4.into(), &"adaptive".into())
    );
    let pairs = json["pairs"].as_array().expect("pairs").len() as u64;
    assert_eq!(pairs + json["pairs_refused"].as_u64().expect("a number"), 2, "0.25 s, 100 ms each");
    assert!(json["without_contention"]["petasos_ops_per_s"].is_number(), "{json}");
    let counted = |name: &str| json[name].as_u64().expect(name);
    let (packets, duplicates) = (counted("packets"), counted("duplicates"));
    assert!(packets > 0 && counted("retransmissions") <= packets, "{json}");
    let spurious = json["spurious"].as_f64().expect("a number");
    assert!((spurious - duplicates as f64 / packets as f64).abs() < 1e-9, "{json}");
    let recoveries = json["recoveries"].as_array().expect("recoveries");
    assert_eq!(recoveries.len(), 1);
    assert_eq!(recoveries[0]["after_ms"].as_f64(), json["recovery_ms"].as_f64());
    let goals = json["goals"].as_array().expect("goals");
    let goals: Vec<_> = goals.iter().map(|goal| goal["goal"].as_str().expect("a text")).collect();
    assert_eq!(goals, ["≥ 0.5", "< 1 %", "≤ 50 ms"]);
}

#[test]
fn competitors_end_with_the_bench_however_that_ends() {
    let mut bench = Bench::start(&["--seconds", "100", "--turn-ms", "20", "--competitors", "3"]);
    bench.await_competitors(3);
    // So that it cannot clean up.
    bench.0.kill().expect("it is our child");
    bench.0.wait().expect("it is our child");
    bench.await_competitors(0);
}

#[test]
fn a_competitor_without_its_parent_is_not_busy() {
    let options = ["contention", "--competitor-role", "0,1,60000"];
    let failed = support::bench(&options);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("is gone"), "{failed:?}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_advice() {
    for (options, advice) in [
        (&["--transport", "loopback"][..], "measure contention with --transport"),
        (&["--connect", "127.0.0.1:1"], "without --connect"),
        (&["--competitors", "0"], "petasos bench rate"),
        (&["--ends", "0"], "at least 1"),
        (&["--turn-ms", "0"], "1..=60000"),
    ] {
        let output = support::bench(&[&["contention"], options].concat());
        assert_ne!(output.code, Some(0), "{options:?}");
        assert!(output.stderr.contains(advice), "{options:?}: {}", output.stderr);
    }
}
