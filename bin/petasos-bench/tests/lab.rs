//! `petasos bench lab`: every pair is reported, in a table and as JSON, measured or with a reason.

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use petasos_report::{significant, with_si_prefix};
use serde_json::Value;
use support::{Finished, bench};

/// Makes every pair short and small.
/// Turns are so long that others who have the core leave something of most.
const QUICK: [&str; 6] = ["--seconds", "0.4", "--memory-mb", "12", "--connections", "2000"];

fn lab(options: &[&str]) -> Finished {
    bench(&[&["lab"], &QUICK[..], options].concat())
}

/// Runs a shell's script, bounded; `$0` is the program.
fn shell(script: &str) -> Output {
    let program = support::BENCH;
    let mut command = Command::new("timeout");
    command.args(["60", "sh", "-c", script, program]).current_dir(std::env::temp_dir());
    command.output().expect("coreutils are installed")
}

/// The cells of the table's row on `name`.
fn cells(table: &str, name: &str) -> Vec<String> {
    let mut rows = table.lines().map(|line| line.split('|').map(|cell| cell.trim().to_owned()));
    let row = rows.find_map(|row| {
        let row: Vec<_> = row.collect();
        (row.get(1).map(String::as_str) == Some(name)).then_some(row)
    });
    row.unwrap_or_else(|| panic!("no row on {name} in {table}"))[1..9].to_vec()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// What the table should show of a row of the JSON.
fn expected_cells(row: &Value) -> Vec<String> {
    let number = |value: &Value| value.as_f64().expect("a measured row has figures");
    let ratio = |which: &str| significant(number(&row["ratio"][which]));
    let figures = match &row["skipped"] {
        Value::Null => [
            with_si_prefix(number(&row["off"]["ops_per_s"])),
            with_si_prefix(number(&row["on"]["ops_per_s"])),
            ratio("median"),
            format!("{} to {}", ratio("min"), ratio("max")),
        ],
        _ => ["–", "–", "skipped", "–"].map(str::to_owned),
    };
    let words = [&row["name"], &row["off"]["what"], &row["on"]["what"]];
    let thesis = &row["thesis"];
    let figure = format!("{} ({})", text(&thesis["figure"]), text(&thesis["section"]));
    words.iter().map(|word| text(word).to_owned()).chain(figures).chain([figure]).collect()
}

#[test]
fn every_pair_is_reported_and_table_and_json_agree() {
    let path = std::env::temp_dir().join(format!("petasos-lab-{}.json", std::process::id()));
    let finished = lab(&["--json", path.to_str().expect("a path in UTF-8")]);
    let table = finished.success();
    let written = std::fs::read(&path).expect("the file was written");
    std::fs::remove_file(&path).expect("and can be removed");
    let json: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(
        (&json["experiment"], &json["parameters"]["connections"]),
        (&"lab".into(), &2000.into())
    );
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 15);
    for row in rows {
        let name = text(&row["name"]);
        assert_eq!(cells(table, name), expected_cells(row));
        assert!(table.contains(text(&row["thesis"]["quote"])), "{name}: {table}");
        if let Some(reason) = row["skipped"].as_str() {
            let privileged = rustix::process::geteuid().is_root();
            assert!(!privileged || name == "huge-pages" || reason.contains("core"), "{row}");
            assert!(table.contains(&format!("{name}: {reason}")), "{table}");
            continue;
        }
        let ratio = &row["ratio"];
        assert!(ratio["min"].as_f64() <= ratio["median"].as_f64(), "{row}");
        assert!(ratio["median"].as_f64() <= ratio["max"].as_f64(), "{row}");
        let little = ratio["median"].as_f64() < Some(1.1);
        assert_eq!(row["why"].is_string(), little, "{row}");
    }
    let guidelines: BTreeSet<_> = rows.iter().map(|row| text(&row["guideline"])).collect();
    assert_eq!(guidelines.len(), 6, "{guidelines:?}");
}

#[test]
fn what_takes_no_privilege_is_measured_by_anybody() {
    let rows = ["doorbells-udp", "doorbells-calls", "inlining-udp", "queues-udp"];
    let memory = ["connections-nic", "connections-session", "connections-udp"];
    let names = [&rows[..], &memory].concat().join(",");
    let finished = lab(&["--only", &names, "--print-json"]);
    let json: Value = serde_json::from_str(finished.success()).expect("JSON and nothing else");
    let measured = json["rows"].as_array().expect("rows").iter().map(|row| {
        assert_eq!(row["skipped"], Value::Null, "{row}");
        assert!(row["off"]["ops_per_s"].as_f64() > Some(0.0), "{row}");
        text(&row["name"])
    });
    assert_eq!(measured.collect::<Vec<_>>().join(","), names);
}

#[test]
fn without_privileges_af_xdp_is_skipped_with_advice_and_the_rest_measured() {
    if !rustix::process::geteuid().is_root() {
        return petasos_skips::skip("root", "giving up privileges needs root");
    }
    let drop = "setpriv --bounding-set=-all --inh-caps=-all --reuid=65534 --clear-groups";
    let output =
        shell(&format!("exec {drop} \"$0\" lab --seconds 0.4 --only doorbells-xdp,doorbells-udp"));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cells(&table, "doorbells-xdp")[5], "skipped");
    assert_ne!(cells(&table, "doorbells-udp")[5], "skipped");
    assert!(table.contains("doorbells-xdp: AF_XDP is measured in a network namespace"), "{table}");
    assert!(table.contains("takes root"), "{table}");
}

#[test]
fn without_memory_huge_pages_are_skipped_with_advice_and_nothing_is_no_success() {
    let output = shell(
        "ulimit -v 2000000; exec \"$0\" lab --seconds 0.01 --memory-mb 4000 --only \
         huge-pages",
    );
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(cells(&table, "huge-pages")[5], "skipped");
    assert!(table.contains("sysctl vm.nr_hugepages=") && table.contains("madvise"), "{table}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no pair could be measured"), "{said}");
}

#[test]
fn on_a_single_core_rings_are_skipped_with_advice() {
    let output =
        shell("exec taskset -c 0 \"$0\" lab --seconds 0.4 --only doorbells-shm,connections-nic");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cells(&table, "doorbells-shm")[5], "skipped");
    assert!(table.contains("a core of its own"), "{table}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_advice() {
    for (options, advice) in [
        (&["--only", "telepathy"][..], "doorbells-udp"),
        (&["--seconds", "0"], "more than 0"),
        (&["--seconds", "nan"], "more than 0"),
        (&["--memory-mb", "0"], "from 1 to"),
        (&["--connections", "9"], "from 10 to"),
    ] {
        let program = support::BENCH;
        let output = Command::new(program).args(["lab"]).args(options).output();
        let output = output.expect("the binary starts");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(advice), "{options:?}: {message}");
    }
}
