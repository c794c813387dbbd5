//! `petasos check`: what it says of histories, with which exit status, and what it refuses.

mod support;

use support::{Finished, Petasos};

fn stored(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/history/tests/histories");
    format!("{folder}/{name}.jsonl")
}

fn check(args: &[&str]) -> Finished {
    Petasos::start(&[&["check"], args].concat()).finish()
}

#[test]
fn a_good_history_ends_with_0() {
    let finished = check(&[&stored("register-good")]);
    let expected = "linearizable: 7 calls (5 done, 1 not done, 1 unknown) in 2 independent parts, \
                    as register\n";
    assert_eq!(finished.success(), expected);
}

#[test]
fn a_violated_one_ends_with_1_and_says_which_calls() {
    let finished = check(&[&stored("register-stale-read")]);
    assert!(finished.failure().contains("no service of this model can have answered so"));
    for what in [
        "NOT linearizable: 5 calls",
        "\"a\": 3 of 4 calls have an order that fits:",
        "line 5: process 1, {\"get\":{\"key\":\"a\"}} -> {\"value\":\"2\"}",
        "then \"a\" is \"2\", and none of these fits next:",
        "line 7: process 1, {\"get\":{\"key\":\"a\"}} -> {\"value\":\"1\"}",
    ] {
        assert!(finished.stdout.contains(what), "{what}: {}", finished.stdout);
    }
}

#[test]
fn json_has_all_lines() {
    let path = stored("register-stale-read");
    let finished = check(&[&path, "--json"]);
    assert_eq!(finished.code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    assert_eq!((&json["verdict"], &json["model"]), (&"violated".into(), &"register".into()));
    assert_eq!(json["calls"], serde_json::json!({ "done": 5, "not_done": 0, "unknown": 0 }));
    let violation = &json["violations"][0];
    let lines = |what: &str| {
        let all = violation[what].as_array().expect("it is a list");
        all.iter().map(|place| place["line"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!((lines("order"), lines("left")), (vec![2, 4, 5], vec![7]));
    assert_eq!(violation["blocked"], serde_json::json!({ "file": path, "line": 7 }));

    let finished = check(&[&stored("etcd-watch-gap"), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("it is JSON");
    let violation = &json["violations"][0];
    assert_eq!(violation["what"], "a watch has not seen revision 5 as it was made");
    assert_eq!(violation["calls"][0]["line"], 2);
}

#[test]
fn too_small_a_budget_ends_with_3() {
    for option in ["--steps", "--states"] {
        let finished = check(&[&stored("register-good"), option, "1"]);
        assert_eq!(finished.code, Some(3), "{finished:?}");
        assert!(finished.stdout.contains("undecided") && finished.stderr.contains("raise --steps"));
    }
}

#[test]
fn files_of_several_processes_are_one_history() {
    let folder = std::env::temp_dir().join(format!("petasos-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let file = |name: &str, lines: &[&str]| {
        let path = folder.join(name);
        std::fs::write(&path, lines.join("\n")).expect("a file can be written");
        path.to_str().expect("plain names").to_owned()
    };
    let one = file(
        "one",
        &[
            r#"{"process":1,"id":0,"at":10,"call":{"add":{"key":"a","by":2}}}"#,
            r#"{"process":1,"id":0,"at":20,"ok":{"number":2}}"#,
        ],
    );
    let other = file(
        "other",
        &[
            r#"{"process":2,"id":0,"at":30,"call":{"read":{"key":"a"}}}"#,
            r#"{"process":2,"id":0,"at":40,"ok":{"number":0}}"#,
        ],
    );
    let [both, second] = [&[&one[..], &other][..], &[&other]]
        .map(|files| check(&[&["--model", "counter"], files].concat()));
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(both.code, Some(1), "{both:?}");
    assert!(both.stdout.contains(&format!("{other}, line 1: process 2")), "{}", both.stdout);
    second.success();
}

#[test]
fn what_is_no_history_ends_with_2() {
    let good = stored("register-good");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (args, what) in [
        (&["/nowhere"][..], "cannot read /nowhere"),
        (&[manifest], "is no history: line 1: expected value"),
        (&[&good, "--model", "etcd"], "--model is etcd, and the file says register"),
        (&[&good, &good], "line 2: call 0 of process 0 was called before"),
        (&[&good, "--model", "stack"], "the models are register, counter, sequence and etcd"),
        (&["/dev/null"], "there are no calls"),
        (&[], "required arguments were not provided"),
    ] {
        let finished = check(args);
        assert_eq!(finished.code, Some(2), "{args:?}: {finished:?}");
        assert!(finished.stderr.contains(what), "{args:?}: {}", finished.stderr);
    }
}

#[test]
fn a_call_of_another_model_is_named() {
    let mut petasos = Petasos::start(&["check", "-", "--model", "register"]);
    petasos.feed(br#"{"process":1,"id":0,"at":10,"call":{"add":{"key":"a","by":2}}}"#);
    petasos.close_stdin();
    let finished = petasos.finish();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let what = "petasos: -, line 1: the model `register` has no operation `add`; see --model";
    assert!(finished.stderr.contains(what), "{}", finished.stderr);
}
