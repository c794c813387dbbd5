//! `petasos quorum` for groups that keep etcd's model.

use std::process::{Child, Command, Stdio};

use crate::servers::Member;

const PROGRAM: &str = env!("CARGO_BIN_EXE_petasos-quorum");

fn begin(words: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether a command succeeds, and what it prints.
fn ask(words: &[&str]) -> (bool, String) {
    let output = begin(words).wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn answer(words: &[&str]) -> String {
    let (is_good, text) = ask(words);
    assert!(is_good, "{words:?}: {text}");
    text
}

fn complaint(words: &[&str]) -> String {
    let (is_good, text) = ask(words);
    assert!(!is_good, "{words:?}: {text}");
    text
}

#[test]
fn commands_write_read_watch_and_lease() {
    let member = Member::start(8, 1, &["--in-memory", "--init", "--keeps", "etcd"]);
    let group = member.address.as_str();
    assert_eq!(answer(&["put", group, "colour", "blue"]), "");
    assert_eq!(answer(&["get", group, "colour"]), "blue\n");
    assert!(answer(&["get", group, "colour", "--json"]).contains("\"stamp\":2"));
    assert_eq!(answer(&["put", group, "colour", "red", "--if-stamp", "2"]), "");
    assert!(complaint(&["put", group, "colour", "x", "--if-stamp", "2"]).contains("another stamp"));
    let lease = answer(&["lease", "grant", group, "--ttl", "600"]);
    let lease = lease.trim();
    assert_eq!(answer(&["put", group, "colours", "all", "--lease", lease]), "");
    let shown = answer(&["lease", "show", group, lease]);
    assert!(shown.ends_with(" of 600 seconds left\ncolours\n"), "{shown}");
    assert_eq!(answer(&["lease", "renew", group, lease]), "");
    assert_eq!(answer(&["range", group, "--limit", "1"]).lines().next(), Some("colour\tred"));
    assert_eq!(answer(&["lease", "revoke", group, lease]), "");
    assert!(complaint(&["lease", "revoke", group, lease]).contains("lease not found"));
    assert!(complaint(&["lease", "show", group, lease]).contains("no such lease"));
    assert_eq!(answer(&["delete", group, "colour"]), "");
    assert!(complaint(&["delete", group, "colour"]).contains("nothing at that key"));
    // What has happened, and then what happens.
    let watch = ["watch", group, "colour", "--prefix", "--revision", "2", "--count", "6"];
    let watch = begin(&watch);
    assert_eq!(answer(&["put", group, "colour", "green"]), "");
    let told = watch.wait_with_output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let changes = [
        "put\tcolour\tblue",
        "put\tcolour\tred",
        "put\tcolours\tall",
        "delete\tcolours",
        "delete\tcolour",
        "put\tcolour\tgreen",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), changes);
    let future = ["watch", group, "colour", "--revision", "1", "--count", "1", "--json"];
    assert!(answer(&future).contains("\"revision\":2"));
}

#[test]
fn what_only_etcds_model_has_is_refused_by_a_table() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.{high}.{low}.91:7432");
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--until-stdin-closes", "--in-memory", "--init", "--listen", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    crate::servers::until(|| ask(&["put", &address, "a", "1", "--timeout", "500"]).0);
    for words in [
        &["watch", &address, "a"][..],
        &["lease", "grant", &address, "--ttl", "9"],
        &["put", &address, "a", "1", "--lease", "7"],
    ] {
        let text = complaint(words);
        assert!(text.contains("no revisions and no leases"), "{text}");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let table = ["serve", "--in-memory", "--init", "--listen", &address, "--etcd", &address];
    assert!(complaint(&table).contains("--keeps etcd"));
}
