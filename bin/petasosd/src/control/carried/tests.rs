use petasos_engine::Left;
use petasos_service::SchemaLimits;
use serde_json::{Value, json};

use super::*;
use crate::configuration::Live;
use crate::control::Control;
use crate::plugins::Plugins;
use crate::policies::{self, Before};

const RULES: &str = r#"[
    {"application": "*", "kind": "rate_limit", "configuration": {"rate_per_s": 1}},
    {"application": "shop", "kind": "retry_budget", "configuration": {"ratio": 0.5}}
]"#;
const OWNER: (u32, Option<i32>) = (7, Some(8));

fn control() -> Control {
    with(RULES)
}

fn with(rules: &str) -> Control {
    let plugins = Plugins::default();
    let rules = policies::parse(rules, Before { plugins: &plugins, rules: &[] });
    let rules = Some(rules.expect("they are right"));
    Control::new(Live { plugins, rules, whole: None }, None)
}

fn state(kind: &str, json: &str) -> Value {
    json!({"kind": kind, "version": 1, "json": json})
}

/// What a process tells in which each policy has counted, and `shop` has an engine of its own.
fn told() -> Value {
    let own = state("rate_limit", r#"{"passed": 2}"#);
    json!({
        "clock": {"process_ns": 5, "system_ns": 5},
        "numbers": {
            "applications": [["7 shop", 0]], "next_application": 3,
            "called": [], "next_called": 1 << 30,
            "callers": [],
            "methods": [], "next_method": 0,
        },
        "policies": [
            state("rate_limit", r#"{"passed": 9}"#),
            state("retry_budget", r#"{"retried": 4}"#),
        ],
        "applications": [{
            "application": "shop", "uid": 7, "pid": 8,
            "engines": [
                {"rule": 1},
                {"own": {"kind": "rate_limit", "configuration": {"rate_per_s": 5}, "state": own}},
                {"rule": 0},
            ],
        }],
    })
}

/// What the policies of [`RULES`] have counted in a process that is told this.
fn counts(control: &Control) -> [Value; 2] {
    let of = |index: usize, name: &str| {
        control.policies().rules()[index].made.policy.report()[name].clone()
    };
    [of(0, "passed"), of(1, "retried")]
}

fn gone_on(told: &Value) -> (Control, Result<(), String>) {
    let (mut control, host) = (control(), petasos_service::Host::new(SchemaLimits::default()));
    let result = control.go_on(told.to_string().as_bytes(), &host);
    let inherited = host.policy_numbers();
    assert_eq!(inherited.applications.next == 3, result.is_ok(), "with the numbers or not at all");
    (control, result)
}

#[test]
fn policies_go_on_from_what_was_counted() {
    let (control, result) = gone_on(&told());
    assert_eq!((counts(&control), result), ([json!(9), json!(4)], Ok(())));
    // One of a later version may have more to say.
    let mut more = told();
    more["later"] = json!([1]);
    more["policies"][1] = Value::Null;
    let (control, result) = gone_on(&more);
    assert_eq!((counts(&control), result), ([json!(9), json!(0)], Ok(())));
}

#[test]
fn a_damaged_state_is_a_new_beginning_for_its_policy_only() {
    let later = json!({"kind": "rate_limit", "version": 2, "json": "{}"});
    let deep = "[".repeat(100_000);
    let damaged = ["", "{", "7", r#"{"passed": -1}"#, r#"{"buckets": [[{}]]}"#, &*deep];
    let damaged = damaged.map(|json| state("rate_limit", json)).into_iter();
    for damaged in damaged.chain([later, state("null", "{}")]) {
        let mut told = told();
        told["policies"][0] = damaged;
        let (control, result) = gone_on(&told);
        assert_eq!((counts(&control), result), ([json!(0), json!(4)], Ok(())), "{told}");
    }
}

#[test]
fn what_is_damaged_as_a_whole_is_a_new_beginning_for_all() {
    let damages: [(&str, Value); 6] = [
        ("/clock", json!({})),
        ("/numbers/next_application", json!(-1)),
        ("/numbers/applications", json!([["a", 0], ["b", 0]])),
        ("/policies", json!([state("rate_limit", "{}")])),
        ("/policies/0", json!(1)),
        ("/applications/0/engines", json!({})),
    ];
    for (at, damage) in damages {
        let mut told = told();
        *told.pointer_mut(at).expect("it is there") = damage;
        let (control, result) = gone_on(&told);
        assert!(result.is_err(), "{at}");
        assert_eq!(counts(&control), [json!(0), json!(0)], "{at}");
    }
    let (control, result) = gone_on(&json!("no"));
    assert!(result.is_err() && counts(&control) == [json!(0), json!(0)]);
}

/// What the engines have counted that an application gets, and of which kinds they are.
fn engines(control: &mut Control, name: &str, owner: Option<(u32, Option<i32>)>) -> Vec<Value> {
    let engines = control.engines_for(name, owner).into_iter();
    let both = engines.map(|(policy, _)| {
        let (kind, report) = (control.known(&policy).made.kind_name(), policy.report());
        let count = if kind == "rate_limit" { "passed" } else { "retried" };
        json!([kind, report[count]])
    });
    both.collect()
}

#[test]
fn an_application_gets_the_engines_that_it_had_once() {
    let ruled = json!([["rate_limit", 9], ["retry_budget", 4]]);
    let had = json!([["retry_budget", 4], ["rate_limit", 2], ["rate_limit", 9]]);
    let (mut control, _) = gone_on(&told());
    assert_eq!(json!(engines(&mut control, "shop", None)), ruled, "it does not come over");
    assert_eq!(json!(engines(&mut control, "shop", Some((7, Some(9))))), ruled, "another process");
    assert_eq!(json!(engines(&mut control, "other", Some(OWNER))), json!([["rate_limit", 9]]));
    assert_eq!(json!(engines(&mut control, "shop", Some(OWNER))), had);
    assert_eq!(json!(engines(&mut control, "shop", Some(OWNER))), ruled, "it had them once");
    // When the process before has ended, nobody comes over.
    let (mut control, _) = gone_on(&told());
    control.forget_awaited();
    assert_eq!(json!(engines(&mut control, "shop", Some(OWNER))), ruled);
}

#[test]
fn an_engine_that_cannot_be_made_is_left_out_and_one_with_a_damaged_state_begins_anew() {
    let own = "/applications/0/engines/1/own";
    let cases = [
        ("/kind", json!("nothing"), json!([["retry_budget", 4], ["rate_limit", 9]])),
        ("/configuration", json!({"x": 1}), json!([["retry_budget", 4], ["rate_limit", 9]])),
        (
            "/state/json",
            json!("{"),
            json!([["retry_budget", 4], ["rate_limit", 0], ["rate_limit", 9]]),
        ),
    ];
    for (at, damage, expected) in cases {
        let mut told = told();
        *told.pointer_mut(&format!("{own}{at}")).expect("it is there") = damage;
        let (mut control, result) = gone_on(&told);
        assert_eq!(result, Ok(()), "{at}");
        assert_eq!(json!(engines(&mut control, "shop", Some(OWNER))), expected, "{at}");
    }
}

#[test]
fn engines_go_on_from_what_others_have_left_if_it_is_right() {
    let qos = r#"[{"application": "*", "kind": "qos", "configuration":
        {"order": {"shares": [{"methods": ["a.B/*"], "weight": 1}]}}}]"#;
    let go_on = |json: &str| {
        let mut control = with(qos);
        let mut told = told();
        told["policies"] = json!([Value::Null]);
        let left = state("qos", json);
        told["applications"][0]["engines"] = json!([{"rule": 0, "left": left}]);
        let host = petasos_service::Host::new(SchemaLimits::default());
        control.go_on(told.to_string().as_bytes(), &host).expect("it is right");
        let mut engines = control.engines_for("shop", Some(OWNER));
        (engines.len(), format!("{:?}", engines.remove(0).1))
    };
    let (count, left) = go_on(r#"{"full_at_ns": [7, 0], "in_flight": [[1, 2]]}"#);
    assert!(count == 1 && left.contains("full_at_ns") && !left.contains("[1,2]"), "{left}");
    assert_eq!(go_on(r#"{"full_at_ns": [7]}"#), (1, format!("{:?}", Left::default())));
}

#[test]
fn clocks_are_compared_at_one_moment() {
    let at = |process_ns, system_ns| Clocks { process_ns, system_ns };
    let ahead = |now: Clocks, then| now.ahead_of(then).ahead_ns;
    assert_eq!(ahead(at(1500, 70), at(1000, 50)), 480);
    assert_eq!(ahead(at(1000, 70), at(1500, 50)), -520);
    assert_eq!(ahead(at(u64::MAX, 0), at(0, u64::MAX)), i64::MAX);
    assert_eq!(ahead(at(0, u64::MAX), at(u64::MAX, 0)), i64::MIN);
    let one = Clocks::here();
    assert!(Clocks::here().ahead_of(one).ahead_ns.abs() < 1_000_000_000_000, "a clock is a clock");
}
