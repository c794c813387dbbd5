use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::Overload;

const FOUR: &str = r#"{"calls_initial": 4, "calls_min": 2, "calls_max": 200, "window_ms": 10}"#;

/// Keeps as many calls under way as may be, each for so many microseconds, for some rounds.
fn load(rig: &mut Rig, rounds: u32, us: impl Fn(usize) -> u64) {
    for _ in 0..rounds {
        let mut passed = Vec::new();
        loop {
            let id = rig.begin(call());
            rig.run();
            if rig.out().is_empty() {
                break;
            }
            passed.push(id);
        }
        rig.back();
        rig.run_after(us(passed.len()));
        passed.into_iter().for_each(|id| rig.end(id, None));
    }
}

fn limit(rig: &Rig) -> f64 {
    rig.report()["limits"][0]["limit"].as_f64().expect("there is a limit")
}

#[test]
fn what_exceeds_the_limit_is_refused_until_calls_have_ended() {
    let mut rig = Rig::new(&Overload, FOUR);
    let all: Vec<_> = (0..5).map(|_| rig.begin(call())).collect();
    rig.run();
    assert_eq!(rig.out().len(), 4);
    let refused = (Code::ResourceExhausted, "too many calls at a time".to_owned());
    assert_eq!(rig.refused(), [refused]);
    assert!(rig.passes(to_peer(3)), "another peer");
    assert!(rig.passes(stream()), "streams are not counted");
    rig.end(all[0], None);
    rig.submit(all[1], ItemKind::Cancel, 0);
    rig.run();
    assert!(rig.passes(call()) && rig.passes(call()) && !rig.passes(call()));
}

#[test]
fn it_grows_while_calls_are_fast_and_shrinks_when_they_are_slow() {
    let mut rig = Rig::new(&Overload, FOUR);
    // A server that takes 50 calls at a time without queueing.
    let server = |calls: usize| if calls <= 50 { 1000 } else { 1000 * calls as u64 / 50 };
    load(&mut rig, 1000, server);
    let found = limit(&rig);
    assert!((45.0..150.0).contains(&found), "{found}");
    // It becomes ten times as slow.
    load(&mut rig, 10, |calls| 10 * server(calls));
    assert!(limit(&rig) < found * 0.7, "{found}, then {}", limit(&rig));
}

#[test]
fn it_backs_off_from_overload_and_stays_within_its_bounds() {
    let mut rig = Rig::new(&Overload, FOUR);
    load(&mut rig, 100, |_| 1000);
    let before = limit(&rig);
    for n in 0..1000 {
        let is_late = n % 2 == 0;
        let id = rig.begin(Call { deadline: rig.now().plus_nanos(20_000_000), ..call() });
        rig.run();
        rig.out();
        rig.run_after(20_000);
        if is_late {
            rig.submit(id, ItemKind::Cancel, 0);
            rig.run();
            rig.out();
        } else {
            rig.end(id, Some(Status::unavailable("busy")));
        }
        if n == 0 {
            assert!((limit(&rig) - before * 0.9).abs() < 0.01);
        }
    }
    assert_eq!(limit(&rig), 2.0);
    load(&mut rig, 3000, |_| 1000);
    assert_eq!(limit(&rig), 200.0);
}

#[test]
fn classes_use_a_part_of_the_limit() {
    let mut rig = Rig::new(
        &Overload,
        r#"{"calls_initial": 10, "priorities": {"key": "x-class",
            "shares": {"batch": 0.5, "no": 0}}}"#,
    );
    let mut passes = |class: &str| {
        let id = rig.datapath.begin(call()).unwrap();
        let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 1);
        item.metadata.append("x-class", class).unwrap();
        rig.datapath.submit(id, item, rig.now()).unwrap();
        rig.run();
        !rig.out().is_empty()
    };
    assert!(!passes("no"));
    assert_eq!((0..20).filter(|_| passes("batch")).count(), 5);
    assert_eq!((0..20).filter(|_| passes("other")).count(), 5);
}

#[test]
fn an_upgrade_keeps_the_limit_and_the_calls_under_way() {
    let mut rig = Rig::new(&Overload, FOUR);
    load(&mut rig, 100, |_| 1000);
    let before = limit(&rig);
    let id = rig.begin(call());
    rig.run();
    rig.upgrade(FOUR);
    assert_eq!(limit(&rig), before);
    assert_eq!(rig.report()["limits"][0]["calls"], 1);
    rig.end(id, None);
    assert_eq!(rig.report()["limits"][0]["calls"], 0);
    // With two datapaths, each brings its own calls.
    let mut other = Rig::with(&Overload, Arc::clone(&rig.policy));
    let (_, _) = (rig.passes(call()), other.passes(call()));
    assert_eq!(rig.report()["limits"][0]["calls"], 2);
    other.detach();
    assert_eq!(rig.report()["limits"][0]["calls"], 1);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut rig = Rig::new(&Overload, r#"{"keys_max": 10}"#);
    for peer in 0..50_000 {
        rig.begin(to_peer(peer));
    }
    rig.run();
    rig.out();
    assert_eq!(rig.report()["limits"].as_array().unwrap().len(), 10);
    let id = rig.datapath.begin(stream()).unwrap();
    rig.submit(id, ItemKind::Message, 1);
    rig.end(id, None);
    rig.detach();
    let calls = rig.report()["limits"][0]["calls"].clone();
    assert_eq!(calls, 0, "calls that never ended count for as long as there is an engine");
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"limiters": [[{"peer": 2}, {"limit": 3500, "long_ns": 1000000}]],
        "refused": 2}"#;
    let mut rig = Rig::with(&Overload, goes_on_from(&Overload, FOUR, version_1));
    assert_eq!((0..10).filter(|_| rig.passes(call())).count(), 3);
    assert_eq!(rig.report()["refused"], 9);
    are_wrong(
        &Overload,
        &[
            (r#"{"calls_min": 0}"#, "`calls_min` must be from 1 to 1000000, and is 0"),
            (r#"{"calls_min": 5, "calls_max": 4}"#, "`calls_max` must be from 5 to 1000000"),
            (r#"{"calls_max": 10}"#, "`calls_initial` must be from 1 to 10, and is 20"),
            (r#"{"tolerance": 0.5}"#, "`tolerance` must be from 1 to 10, and is 0.5"),
            (
                r#"{"priorities": {"key": "k", "shares": {"a": 1.5}}}"#,
                "`priorities.shares` must be from 0 to 1, and is 1.5",
            ),
            (r#"{"priorities": {"key": "k", "shares": {}}}"#, "must have 1 to 64 entries"),
            (r#"{"limit": 1}"#, "unknown field `limit`"),
        ],
    );
}
