//! `petasos bench incast`: what it prints, and what it refuses.

use std::process::{Command, Output};

use serde_json::Value;

fn incast(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petasos-bench"));
    command.args(["incast"]).args(options).output().expect("the binary starts")
}

#[test]
fn every_combination_has_a_row_with_its_figures() {
    let options = ["--senders", "4,8", "--control", "none,swift+timely", "--measured-ms", "1"];
    let output = incast(&[&options[..], &["--victims", "4096", "--print-json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&json["experiment"], &json["parameters"]["seed"]), (&"incast".into(), &1.into()));
    let rows = json["rows"].as_array().expect("rows");
    let names: Vec<_> = rows.iter().map(|row| (&row["senders"], &row["control"])).collect();
    let expected = [(4, "none"), (4, "swift+timely"), (8, "none"), (8, "swift+timely")];
    let expected = expected.map(|(senders, control)| (senders.into(), control.into()));
    assert_eq!(names, expected.iter().map(|(s, c): &(Value, Value)| (s, c)).collect::<Vec<_>>());
    for row in rows {
        assert!(row["goodput_gbps"].as_f64().expect("a number") > 10.0, "{row}");
        assert!(row["rtt"]["p99_us"].as_f64() >= row["rtt"]["p50_us"].as_f64(), "{row}");
        assert!(row["victims"]["measured"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_seed_gives_one_result() {
    let run = || incast(&["--senders", "6", "--measured-ms", "1", "--seed", "7"]).stdout;
    let first = run();
    assert_eq!(first, run());
    assert!(String::from_utf8_lossy(&first).contains("swift"));
}

#[test]
fn what_cannot_be_meant_is_refused_with_advice() {
    for (options, advice) in [
        (&["--senders", "0"][..], "an incast has senders"),
        (&["--control", "dctcp"], "add --mark-kb"),
        (&["--loss", "1.5"], "a probability"),
        (&["--measured-ms", "0"], "at least 1"),
        (&["--control", "cubic"], "none of none, timely, swift, dctcp"),
        (&["--hosts", "7"], "100 and of 1000"),
        (&["--port-kb", "60", "--shared-mb", "3"], "cannot be used with"),
    ] {
        let output = incast(options);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(advice), "{options:?}: {message}");
    }
}
