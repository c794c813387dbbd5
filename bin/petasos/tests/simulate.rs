//! `petasos simulate queueing`: forms of its results, and what it refuses.

mod support;

use support::Petasos;

fn simulate(args: &[&str]) -> support::Finished {
    Petasos::start(&[&["simulate", "queueing"], args].concat()).finish()
}

const SHORT: [&str; 6] =
    ["--dist", "exponential", "--policy", "single,jbsq2", "--requests", "64000"];

#[test]
fn csv_has_a_line_for_each_point_in_order() {
    let args = [&SHORT[..], &["--loads", "0.3,0.6", "--csv", "-"]].concat();
    let finished = simulate(&args);
    let lines: Vec<Vec<&str>> =
        finished.success().lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["dist", "policy", "load", "p99", "stderr", "mean"]);
    let names: Vec<String> = lines[1..].iter().map(|line| line[..3].join(" ")).collect();
    let point = |policy, load| format!("exponential {policy} {load}");
    let expected = [("single", "0.3"), ("single", "0.6"), ("jbsq2", "0.3"), ("jbsq2", "0.6")];
    assert_eq!(names, expected.map(|(policy, load)| point(policy, load)));
    for line in &lines[1..] {
        let numbers: Vec<f64> = line[3..].iter().map(|cell| cell.parse().unwrap()).collect();
        // The 99th percentile of the service time alone is 4.6.
        assert!(numbers[0] > 4.5 && numbers[1] < 0.5 && numbers[2] > 0.99, "{line:?}");
    }
    assert_eq!(simulate(&args).stdout, finished.stdout, "a seed determines it");
}

#[test]
fn a_file_is_written_beside_the_table() {
    let file = std::env::temp_dir().join(format!("petasos-simulate-{}.csv", std::process::id()));
    let path = file.to_str().expect("plain names");
    let finished = simulate(&[&SHORT[..], &["--loads", "0.3", "--csv", path]].concat());
    let table = finished.success();
    assert!(table.contains("99th percentile, exponential") && table.contains("jbsq2"), "{table}");
    assert!(table.contains("standard errors: at most"), "{table}");
    assert!(!table.contains("too few"), "{table}");
    let text = std::fs::read_to_string(&file).expect("it is written");
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn too_few_requests_to_tell_the_errors_are_said() {
    let args = [&SHORT[..], &["--loads", "0.3,0.8"]].concat();
    let finished = simulate(&args);
    assert!(finished.success().contains("2 points had too few requests"), "{finished:?}");
    let finished = simulate(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let points = json["points"].as_array().expect("it is a list");
    for point in points {
        assert_eq!(point["errors_are_known"], point["load"] == 0.3, "{point}");
    }
}

#[test]
fn json_has_theory_and_says_who_cannot_keep_up() {
    let args = ["--loads", "0.6", "--delay", "2", "--policy", "jbsq1,random", "--json"];
    let finished = simulate(&[&args[..], &["--requests", "64000"]].concat());
    let json: serde_json::Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let points = json["points"].as_array().expect("it is a list");
    assert_eq!((points.len(), &json["workers"]), (6, &16.into()));
    for point in points {
        let is_random = point["policy"] == "random";
        assert_eq!(point["p99"].is_f64(), is_random, "{point}");
        assert_eq!(point["theory"]["mean"].is_f64(), is_random, "{point}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    for (args, what) in [
        (&["--loads", "1.2"][..], "a load of 1.2 cannot be simulated"),
        (&["--loads", "0.997", "--policy", "rr"], "cannot be simulated with rr; up to 0.995"),
        (&["--workers", "0"], "0 workers cannot be simulated"),
        (&["--delay", "-1"], "a delay of -1 mean service times"),
        (&["--precision", "0"], "--precision is 0"),
        (&["--csv", "-", "--json"], "both want standard output"),
        (&["--requests", "18446744073709551615"], "requests take too long"),
    ] {
        let finished = simulate(args);
        assert!(finished.failure().contains(what), "{finished:?}");
    }
    for (args, what) in [
        (["--policy", "jbsq0"], "`jbsq0` is no policy"),
        (["--dist", "normal"], "`normal` is no distribution"),
        (["--requests", "0"], "0 is not in"),
    ] {
        let finished = simulate(&args);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(what), "{finished:?}");
    }
}
