//! The application as processes: answers are the same whatever carries them, and those of a
//! recording are what was recorded.

mod support;

use std::path::Path;

use serde_json::Value;
use support::{Process, get, json, router, search};

/// A query of each kind, and combinations.
const QUERIES: [&str; 8] = [
    "hacker",
    "emacs vi",
    "+unix +shell -perl",
    "\"jargon file\"",
    "\"real programmer\"~3",
    "hack*",
    "+fo? bar",
    "there-is-no-such-thing",
];

/// What is no query.
const WRONG: &str = "\"open";

/// Whether there is something to search.
fn has_corpus() -> bool {
    let is_there = Path::new("/usr/share/dictd/jargon.index").is_file();
    if !is_there {
        petasos_skips::skip("dict", "not installed: apt-get install dict-jargon");
    }
    is_there
}

/// A server's answers to all queries have to be these.
fn asks(target: &str, expected: &[Value]) {
    for (query, expected) in QUERIES.iter().zip(expected) {
        let answer = search(&["ask", target, query, "--json"]);
        assert_eq!(&json(answer.success()), expected, "{target}: {query}");
    }
    let refused = search(&["ask", target, WRONG]);
    assert!(refused.stderr.contains("a phrase does not end"), "{refused:?}");
    assert!(refused.stderr.contains("INVALID_ARGUMENT"), "{refused:?}");
}

#[test]
fn answers_are_the_same_whatever_carries_them() {
    if !has_corpus() {
        return;
    }
    let find = |query: &&str| {
        json(search(&["find", query, "--json", "--dictionaries", "jargon"]).success())
    };
    let expected: Vec<Value> = QUERIES.iter().map(find).collect();
    assert!(expected[..7].iter().all(|answer| answer["total"].as_u64() > Some(0)), "{expected:?}");
    let both = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--workers", "2"];
    let mut server = Process::serve(&[&["--dictionaries", "jargon"], &both[..]].concat());
    let (petasos, http) = server.addresses.split_at(2);
    for address in petasos {
        asks(&format!("petasos://{address}"), &expected);
    }
    for address in http {
        for (query, expected) in QUERIES.iter().zip(&expected) {
            assert_eq!(get(address, query), (200, expected.clone()), "{query}");
        }
        let (status, told) = get(address, WRONG);
        assert_eq!(status, 400);
        assert!(told["error"].as_str().expect("a text").contains("does not end"), "{told}");
    }
    let asked = 4 * (QUERIES.len() + 1);
    assert_eq!(server.ask("count"), format!("ran {asked}"));
}

#[test]
fn a_group_answers_as_its_workers_do() {
    if !has_corpus() {
        return;
    }
    let Some((_router, address)) = router("search.Search") else { return };
    let file = std::env::temp_dir().join(format!("search-test-{}", std::process::id()));
    let path = file.to_str().expect("it is UTF-8");
    let record = ["record", "--out", path, "--count", "40", "--dictionaries", "jargon"];
    let recorded = search(&record);
    assert!(recorded.success().starts_with("40 queries: mean "), "{recorded:?}");
    let lines = std::fs::read_to_string(&file).expect("it was written");
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(lines.len(), 40);
    let target = format!("router://{address}");
    let mut server = Process::serve(&["--join", &target, "--recording", path, "--workers", "3"]);
    std::fs::remove_file(&file).expect("it is ours");
    for line in lines.iter().take(10) {
        let query = line["query"].as_str().expect("a text");
        let answer = search(&["ask", &target, query, "--json"]);
        assert_eq!(json(answer.success()), line["answer"], "{query}");
    }
    let other = search(&["ask", &target, "nothing of the kind"]);
    assert!(other.stderr.contains("not recorded"), "{other:?}");
    assert_eq!(server.ask("count"), "ran 11");
    drop(server);
    let live = ["--join", &target, "--dictionaries", "jargon"];
    let server = Process::serve(&live);
    for line in lines.iter().take(5) {
        let query = line["query"].as_str().expect("a text");
        let answer = search(&["ask", &target, query, "--json"]);
        assert_eq!(json(answer.success())["total"], line["answer"]["total"], "{query}");
    }
    drop(server);
}

#[test]
fn what_cannot_be_done_is_said() {
    let missing = search(&["find", "bee", "--folder", "/nonexistent"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("apt-get install dict-gcide"), "{missing:?}");
    let wrong = search(&["find", WRONG, "--folder", "/nonexistent"]);
    assert!(wrong.stderr.contains("a phrase does not end"), "a query is read first: {wrong:?}");
    let nowhere = search(&["ask", "petasos://127.0.0.1:1", "bee"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.starts_with("search: petasos://127.0.0.1:1: "), "{nowhere:?}");
    let recording = search(&["serve", "--recording", "/nonexistent/file"]);
    assert!(recording.stderr.contains("/nonexistent/file: "), "{recording:?}");
    for options in [&["--workers", "0"][..], &["--stretch", "2"], &["--bound", "3"]] {
        assert_eq!(search(&[&["serve"], options].concat()).code, Some(2), "{options:?}");
    }
    let help = search(&["serve", "--help"]);
    assert!(help.success().contains("--recording <FILE>"), "{help:?}");
}
