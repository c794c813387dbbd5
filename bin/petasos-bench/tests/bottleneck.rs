//! `petasos bench bottleneck` and `petasos bench loss`: what they measure adds up, what cannot be
//! is refused, and no network is left behind.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use petasos_base::Clock;
use serde_json::Value;
use support::{WATCHDOG, bench};

/// Whether networks can be made here; says so if not.
fn is_privileged() -> bool {
    let privileged = rustix::process::geteuid().is_root();
    let tools = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !privileged {
        petasos_skips::skip("root", "network namespaces need root");
    } else if !tools("ip") || !tools("tc") {
        petasos_skips::skip("iproute2", "there is no `ip` or no `tc`");
        return false;
    }
    privileged
}

/// The rows of a run behind a port of 100 Mbit/s with a small queue.
fn rows(options: &[&str]) -> Vec<Value> {
    let slow = ["--rate-mbit", "100", "--queue-kb", "50", "--mark-kb", "10", "--print-json"];
    let small = ["--clients", "3", "--size", "100000", "--seconds", "0.7"];
    let finished = bench(&[&["bottleneck"], &slow[..], &small, options].concat());
    let json: Value = serde_json::from_str(finished.success()).expect("JSON");
    json["rows"].as_array().expect("rows").clone()
}

fn count(row: &Value, name: &str) -> u64 {
    let found = if row["port"][name].is_null() { &row[name] } else { &row["port"][name] };
    found.as_u64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// What holds whatever the algorithm.
fn check(row: &Value) {
    let completed = row["client_completed"].as_array().expect("a list");
    assert_eq!(completed.len(), 3, "{row}");
    assert!(completed.iter().all(|each| each.as_u64() > Some(0)), "{row}");
    let drops = count(row, "lost") + count(row, "overflowed");
    assert_eq!(count(row, "offered"), drops + count(row, "entered"), "{row}");
    assert!(count(row, "left") <= count(row, "entered"), "{row}");
    let queued = count(row, "entered_bytes") - count(row, "left_bytes");
    assert!(queued <= 50_000, "{row}");
    // All calls have ended, so whatever was dropped was sent again.
    assert!(drops <= count(row, "retransmissions") + count(row, "probes_lost"), "{row}");
    assert!(count(row, "packets") >= count(row, "retransmissions"), "{row}");
    assert!(count(row, "duplicates") <= count(row, "retransmissions"), "{row}");
    assert!(count(row, "probes") > count(row, "probes_lost"), "{row}");
    let rate = row["mbit_per_s"].as_f64().expect("a number");
    assert!(rate > 0.0 && rate < 100.0, "the port's rate bounds the payload's: {row}");
    let fairness = row["fairness"].as_f64().expect("a number");
    assert!(fairness > 1.0 / 3.0 - 1e-9 && fairness <= 1.0 + 1e-9, "{row}");
}

#[test]
fn a_slow_port_limits_drops_and_marks_and_every_byte_arrives() {
    if !is_privileged() {
        return;
    }
    let rows = rows(&["--control", "none,swift,timely,dctcp"]);
    rows.iter().for_each(check);
    let [none, swift, timely, dctcp] = &rows[..] else { panic!("four rows") };
    assert_eq!((&none["control"], &dctcp["control"]), (&"none".into(), &"dctcp".into()));
    // The receiver's credits are many times the queue.
    assert!(count(none, "overflowed") > 0 && count(none, "retransmissions") > 0, "{none}");
    assert!(count(none, "overflowed") > count(swift, "overflowed"), "{none} {swift}");
    for unmarked in [none, swift, timely] {
        assert_eq!(count(unmarked, "marked"), 0, "only DCTCP understands marks: {unmarked}");
    }
    assert!(count(dctcp, "marked") > 0 && count(dctcp, "echoes") > 0, "{dctcp}");
}

#[test]
fn random_losses_are_recovered() {
    if !is_privileged() {
        return;
    }
    let rows = rows(&["--control", "swift", "--loss", "0.02"]);
    rows.iter().for_each(check);
    assert!(count(&rows[0], "lost") > 0, "{}", rows[0]);
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The inode of a process's network namespace; `None` once it has ended.
fn namespace_of(id: u32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{id}/ns/net")).ok().map(|data| data.ino())
}

/// The processes that `id` has started and that run.
fn children_of(id: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |child: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // The name, in parentheses, may contain anything.
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let mut words = rest.split(' ');
        words.next() != Some("Z") && words.next() == Some(&id.to_string())
    };
    ids.filter(is_child).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::system();
    let deadline = clock.now() + WATCHDOG;
    while !is_so() {
        assert!(clock.now() < deadline, "{what}: not within {WATCHDOG:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn interfaces() -> Vec<String> {
    let names = Path::new("/sys/class/net").read_dir().expect("it is mounted").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string()).collect();
    names.sort();
    names.into_iter().flatten().collect()
}

#[test]
fn a_killed_measurement_leaves_no_process_and_no_network() {
    if !is_privileged() {
        return;
    }
    let own = namespace_of(std::process::id()).expect("we are alive");
    let before = interfaces();
    let args = ["bottleneck", "--clients", "2", "--control", "none", "--seconds", "100"];
    let mut command = Command::new(support::BENCH);
    let command = command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = Killed(command.spawn().expect("the binary starts"));
    let mut hosts = Vec::new();
    wait_until("three hosts in namespaces of their own", || {
        let children = children_of(bench.0.id());
        let apart = |id: &u32| namespace_of(*id).is_some_and(|inode| inode != own);
        hosts = children.into_iter().filter(apart).map(|id| (id, namespace_of(id))).collect();
        hosts.len() == 3
    });
    bench.0.kill().expect("it is our child");
    assert_eq!(bench.0.wait().expect("it is our child").code(), None);
    // Their namespaces have no names, so that they end with the last process in them.
    wait_until("the hosts end", || hosts.iter().all(|(id, inode)| namespace_of(*id) != *inode));
    assert_eq!(interfaces(), before);
}

#[test]
fn without_privileges_the_bottleneck_is_skipped_and_says_which_are_missing() {
    if !is_privileged() || Command::new("setpriv").arg("--version").output().is_err() {
        return;
    }
    let drop_all = ["--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(drop_all)
        .args([support::BENCH, "bottleneck"])
        .output()
        .expect("it was just there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in ["skipped", "CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_BPF", "run as root"] {
        assert!(said.contains(expected), "no {expected} in {said}");
    }
}

#[test]
fn losses_are_swept_beside_lossless_turns() {
    let options = ["--losses", "1e-2,0", "--turns", "2", "--turn-ms", "50", "--size", "1000000"];
    let finished = bench(&[&["loss", "--print-json"], &options[..]].concat());
    let json: Value = serde_json::from_str(finished.success()).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    let [lossy, lossless] = &rows[..] else { panic!("two rows: {json}") };
    assert!(lossy["completed"].as_u64() > Some(0) && lossless["completed"].as_u64() > Some(0));
    assert!(lossy["lost_requests"].as_u64() > Some(0), "{lossy}");
    assert_eq!((&lossy["goal"], &lossy["ratio"]["count"]), (&0.5.into(), &2.into()));
    assert_eq!(lossless["lost_answers"], 0, "{lossless}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_advice() {
    for (options, advice) in [
        (&["bottleneck", "--loss", "1.5"][..], "a probability"),
        (&["bottleneck", "--seconds", "0"], "at least 0.1"),
        (&["bottleneck", "--clients", "0"], "0 is not in 1..=200"),
        (&["bottleneck", "--control", "cubic"], "swift, timely, dctcp, none"),
        (&["loss", "--losses", "2"], "probabilities"),
        (&["loss", "--turns", "0"], "at least 1"),
    ] {
        let finished = bench(options);
        assert!(finished.code != Some(0), "{options:?}");
        assert!(finished.stderr.contains(advice), "{options:?}: {}", finished.stderr);
    }
}
