//! States that come from another process.

use petasos_engine::*;
use serde_json::{Value as Json, json};

use super::support::*;
use crate::{CircuitBreaker, Qos, RateLimit, RetryBudget, Tracing};

fn carried(kind: &'static dyn PolicyKind, json: &Json, ahead_ns: i64) -> Json {
    let state = State { kind: kind.version().kind.into(), version: 1, json: json.to_string() };
    let carried = kind.carried(state, ClockShift { ahead_ns }).expect("it is one");
    assert_eq!((&*carried.kind, carried.version), (kind.version().kind, kind.version().version));
    serde_json::from_str(&carried.json).expect("it is JSON")
}

#[test]
fn times_are_told_by_the_clock_of_this_process() {
    let key = json!({"peer": 2});
    let buckets = json!({"buckets": [[key, 3000]], "rest": 0, "passed": 9, "refused": 1});
    let moved = json!({"buckets": [[key, 3500]], "rest": 0, "passed": 9, "refused": 1});
    assert_eq!(carried(&RateLimit, &buckets, 500), moved);
    let breakers = json!({"breakers": [[key, {"open_until_ns": 3000, "window_began_ns": 9}]]});
    let breakers = carried(&CircuitBreaker, &breakers, -2000);
    assert_eq!(breakers["breakers"][0][1]["open_until_ns"], 1000);
    assert_eq!(breakers["breakers"][0][1]["window_began_ns"], 1, "long ago, and not never");
    assert_eq!(breakers["rest"]["open_until_ns"], 0, "it is closed");
    let budgets = json!({"budgets": [[key, {"saved": 7, "full_at_ns": 3000}]]});
    let budgets = carried(&RetryBudget, &budgets, 10);
    assert_eq!(budgets["budgets"], json!([[key, {"saved": 7, "full_at_ns": 3010}]]));
    let far = json!({"buckets": [[key, u64::MAX]]});
    assert_eq!(carried(&RateLimit, &far, i64::MAX)["buckets"][0][1], u64::MAX);
}

#[test]
fn the_bandwidth_that_an_application_has_used_goes_along_and_its_calls_do_not() {
    let kind: &dyn PolicyKind = &Qos;
    let json = json!({"full_at_ns": [3000, 0], "in_flight": [[5, 100]]}).to_string();
    let left = State { kind: "qos".into(), version: 1, json };
    assert!(kind.carries_engines());
    let left = kind.carried_engine(left, ClockShift { ahead_ns: 500 }).expect("it is one");
    let left: Json = serde_json::from_str(&left.json).expect("it is JSON");
    assert_eq!(left, json!({"full_at_ns": [3500, 0], "in_flight": []}));
}

#[test]
fn an_open_breaker_is_open_as_long_as_it_would_have_been() {
    const THREE: &str = r#"{"consecutive_failures": 3, "open_ms": 100}"#;
    let mut before = Rig::new(&CircuitBreaker, THREE);
    before.run_after(50_000_000);
    for _ in 0..3 {
        assert!(before.whole(call(), 10, Some(Status::unavailable("down"))));
    }
    before.run_after(60_000);
    let mut after = Rig::new(&CircuitBreaker, THREE);
    let ahead = i128::from(after.now().as_nanos()) - i128::from(before.now().as_nanos());
    let clock = ClockShift { ahead_ns: ahead as i64 };
    let kind: &dyn PolicyKind = &CircuitBreaker;
    let state = kind.carried(before.policy.state(), clock).expect("it is one");
    let policy = make(&CircuitBreaker, THREE, Some(&state)).expect("it goes on");
    after = Rig::with(&CircuitBreaker, policy);
    assert!(!after.passes(call()) && after.passes(to_peer(3)));
    after.run_after(39_000);
    assert!(!after.passes(call()));
    after.run_after(1000);
    assert!(after.passes(call()), "a probe");
}

#[test]
fn spans_stay_with_the_process_that_sends_them() {
    let mut rig = Rig::new(&Tracing, r#"{"probability": 1}"#);
    assert!(rig.whole(call(), 10, None));
    let state: Json = serde_json::from_str(&rig.policy.state().json).expect("it is JSON");
    assert_eq!((state["spans"].as_array().map(Vec::len), &state["finished"]), (Some(1), &json!(1)));
    assert_eq!(carried(&Tracing, &state, 0), json!({"spans": [], "finished": 1}));
}

/// Puts a number in the place of all that are no part of keys.
fn fill(json: &mut Json, number: u64) {
    match json {
        Json::Number(_) => *json = json!(number),
        Json::Array(all) => all.iter_mut().for_each(|one| fill(one, number)),
        Json::Object(all) => {
            let keys = ["application", "method", "peer"];
            let others = all.iter_mut().filter(|(name, _)| !keys.contains(&name.as_str()));
            others.for_each(|(_, one)| fill(one, number));
        }
        _ => {}
    }
}

#[test]
fn whatever_numbers_a_state_has_no_policy_panics() {
    let configurations = [
        ("rate_limit", r#"{"rate_per_s": 1, "burst": 9, "by": "peer"}"#),
        ("circuit_breaker", r#"{"consecutive_failures": 3, "open_ms": 100}"#),
        (
            "circuit_breaker",
            r#"{"open_ms": 1, "ratio": {"failures": 0.5, "window_ms": 1, "calls_min": 3}}"#,
        ),
        ("retry_budget", r#"{"ratio": 0.5, "min_per_s": 1}"#),
        ("overload", "{}"),
        ("telemetry", "{}"),
        ("tracing", r#"{"probability": 1}"#),
        ("qos", r#"{"order": {"shares": [{"methods": ["pkg.Service/*"], "weight": 3}]}}"#),
        ("require_sealing", "{}"),
        ("metadata", r#"{"rules": [{"on": ["requests"], "changes": [{"remove": {"key": "a"}}]}]}"#),
    ];
    for (name, configuration) in configurations {
        let kind = crate::find(name).expect("it is there");
        for number in [0, 1, u64::from(u32::MAX), 1 << 60, u64::MAX] {
            let mut rig = Rig::new(kind, configuration);
            use_it(&mut rig);
            let mut json: Json = serde_json::from_str(&rig.policy.state().json).expect("JSON");
            fill(&mut json, number);
            let state = State { json: json.to_string(), ..rig.policy.state() };
            let clock = ClockShift { ahead_ns: i64::MAX };
            let state = kind.carried(state, clock).expect("it is one");
            let policy = make(kind, configuration, Some(&state)).expect("it goes on");
            let mut rig = Rig::with(kind, policy);
            use_it(&mut rig);
            let (state, report) = (rig.policy.state(), rig.report());
            assert!(report.is_object(), "{name}: {report}");
            assert!(make(kind, configuration, Some(&state)).is_ok(), "{name}: {state:?}");
        }
    }
}

/// Calls that end well and badly.
fn use_it(rig: &mut Rig) {
    for attempt in 0..8 {
        let call = Call { attempt: attempt % 2, ..to_peer(u32::from(attempt % 3)) };
        let status = (attempt % 2 == 1).then(|| Status::unavailable("down"));
        rig.whole(call, 1000, status);
    }
}
