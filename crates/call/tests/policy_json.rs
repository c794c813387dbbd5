//! gRPC's service config: what is read, and how complaints name the place.

use std::time::Duration;

use petasos_call::Code;
use petasos_call::balance::Balance;
use petasos_call::policy::{
    Attempts, CodeSet, HedgePolicy, MethodPolicy, Policies, Problem, RetryPolicy, Throttling,
};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_whole_config_is_read() {
    let policies = read(&json!({
        "loadBalancingConfig": [{ "xds_wrr": {} }, { "round_robin": {} }],
        "retryThrottling": { "maxTokens": 10, "tokenRatio": 0.1 },
        "methodConfig": [
            { "name": [{}], "waitForReady": true },
            { "name": [{ "service": "a.S" }, { "service": "a.T", "method": "M" }],
              "timeout": "1.5s", "maxRequestMessageBytes": 1000,
              "maxResponseMessageBytes": "2000", "futureField": [1],
              "retryPolicy": { "maxAttempts": 9, "initialBackoff": ".1s", "maxBackoff": "1s",
                "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", 10] } },
            { "name": [{ "service": "a.S", "method": "H" }], "timeout": null,
              "hedgingPolicy": { "maxAttempts": 3, "hedgingDelay": "0.5s",
                "nonFatalStatusCodes": ["INTERNAL"] } },
        ],
    }));
    assert_eq!(policies.balance, Some(Balance::RoundRobin));
    let throttling = Throttling { tokens_max: 10, token_ratio_milli: 100 };
    assert_eq!(policies.throttling, Some(throttling));
    let retry = MethodPolicy {
        timeout: Some(Duration::from_millis(1500)),
        wait_for_ready: false,
        request_bytes_max: Some(1000),
        response_bytes_max: Some(2000),
        attempts: Attempts::Retry(RetryPolicy {
            attempts_max: 5,
            backoff_initial: Duration::from_millis(100),
            backoff_max: Duration::from_secs(1),
            backoff_multiplier: 2.0,
            statuses: CodeSet::EMPTY.with(Code::Unavailable).with(Code::Aborted),
        }),
    };
    assert_eq!(policies.method("a.S", "Any"), &retry);
    assert_eq!(policies.method("a.T", "M"), &retry);
    let general = MethodPolicy { wait_for_ready: true, ..MethodPolicy::default() };
    assert_eq!(policies.method("a.T", "Other"), &general);
    assert_eq!(policies.method("b.S", "M"), &general);
    let hedge = HedgePolicy {
        attempts_max: 3,
        delay: Duration::from_millis(500),
        non_fatal: CodeSet::EMPTY.with(Code::Internal),
    };
    assert_eq!(policies.method("a.S", "H").attempts, Attempts::Hedge(hedge));
}

#[test]
fn an_empty_config_is_that_of_a_builder() {
    assert_eq!(read(&json!({})), Policies::builder().build());
}

#[test]
fn a_builder_says_the_same_as_json() {
    let slow = MethodPolicy { timeout: Some(Duration::from_secs(9)), ..MethodPolicy::default() };
    let patient = MethodPolicy { wait_for_ready: true, ..MethodPolicy::default() };
    let built = Policies::builder()
        .general(patient.clone())
        .service("s", slow.clone())
        .method("s", "m", patient)
        .balance(Balance::Prequal)
        .throttling(Throttling { tokens_max: 3, token_ratio_milli: 1 })
        .build();
    let text = json!({
        "loadBalancingConfig": [{ "prequal": {} }],
        "retryThrottling": { "maxTokens": 3, "tokenRatio": 0.001 },
        "methodConfig": [
            { "name": [{}, { "service": "s", "method": "m" }], "waitForReady": true },
            { "name": [{ "service": "s" }], "timeout": "9s" },
        ],
    });
    assert_eq!(read(&text), built);
}

#[test]
fn names_of_balancing_policies() {
    let of = |config: Value| read(&config).balance;
    assert_eq!(of(json!({ "loadBalancingPolicy": "ROUND_ROBIN" })), Some(Balance::RoundRobin));
    assert_eq!(of(json!({ "loadBalancingPolicy": "pick_first" })), Some(Balance::PickFirst));
    let least = json!({ "loadBalancingConfig": [{ "least_request_experimental": {} }] });
    assert_eq!(of(least), Some(Balance::PowerOfTwo));
    assert_eq!(of(json!({})), None);
}

#[test]
fn complaints_name_the_place() {
    let service = json!({ "name": [{ "service": "s" }] });
    let twice = json!({ "methodConfig": [service, service] });
    let alone = json!({ "methodConfig": [{ "name": [{ "method": "m" }] }] });
    let method = |config: Value| json!({ "methodConfig": [config] });
    for (config, path, problem) in [
        (json!({ "methodConfig": {} }), "methodConfig", "expected a list, found an object"),
        (method(json!(7)), "methodConfig[0]", "expected an object, found a number"),
        (twice, "methodConfig[1].name[0]", "is configured twice"),
        (alone, "methodConfig[0].name[0]", "names a method without a service"),
        (
            method(json!({ "timeout": "1m" })),
            "methodConfig[0].timeout",
            "is no duration such as \"1.5s\"",
        ),
        (
            method(json!({ "retryPolicy": {}, "hedgingPolicy": {} })),
            "methodConfig[0]",
            "has both a retryPolicy and a hedgingPolicy",
        ),
        (
            method(json!({ "hedgingPolicy": {} })),
            "methodConfig[0].hedgingPolicy.maxAttempts",
            "is missing",
        ),
        (
            method(json!({ "maxRequestMessageBytes": -1 })),
            "methodConfig[0].maxRequestMessageBytes",
            "must be a whole number from 0 to 4294967295",
        ),
    ] {
        complains(&config, path, problem);
    }
    let error = Policies::from_json("[]").expect_err("no object");
    assert_eq!(error.to_string(), "service config expected an object, found a list");
}

#[test]
fn complaints_about_the_whole_channel() {
    let throttling = |tokens: i64, ratio: i64| {
        let throttling = json!({ "maxTokens": tokens, "tokenRatio": ratio });
        json!({ "retryThrottling": throttling })
    };
    let unknown = "names no known balancing policy";
    let two = json!({ "loadBalancingConfig": [{ "round_robin": {}, "x": {} }] });
    for (config, path, problem) in [
        (throttling(1001, 1), "retryThrottling.maxTokens", "must be from 1 to 1000"),
        (throttling(10, -1), "retryThrottling.tokenRatio", "must be 0.001 or more"),
        (json!({ "loadBalancingConfig": [{ "x": {} }] }), "loadBalancingConfig", unknown),
        (two, "loadBalancingConfig[0]", "must be an object with one field"),
        (json!({ "loadBalancingPolicy": "best" }), "loadBalancingPolicy", unknown),
    ] {
        complains(&config, path, problem);
    }
}

#[test]
fn complaints_about_retries() {
    let no_status = "is not a status that a call can fail with";
    for (key, value, at, problem) in [
        ("maxAttempts", json!(1), "", "must be 2 or more"),
        ("maxAttempts", json!(2.5), "", "must be a whole number from 0 to 4294967295"),
        ("initialBackoff", json!("0s"), "", "must be longer than 0s"),
        ("maxBackoff", json!(null), "", "is missing"),
        ("backoffMultiplier", json!(0), "", "must be above 0"),
        ("retryableStatusCodes", json!([]), "", "must not be empty"),
        ("retryableStatusCodes", json!(["ABORTED", "OK"]), "[1]", no_status),
        ("retryableStatusCodes", json!([17]), "[0]", no_status),
    ] {
        let mut policy = json!({ "maxAttempts": 2, "initialBackoff": "1s", "maxBackoff": "1s",
            "backoffMultiplier": 1.5, "retryableStatusCodes": ["UNAVAILABLE"] });
        policy[key] = value;
        let config = json!({ "methodConfig": [{}, { "retryPolicy": policy }] });
        complains(&config, &format!("methodConfig[1].retryPolicy.{key}{at}"), problem);
    }
}

#[test]
fn what_is_not_json_is_said_with_its_line() {
    let error = Policies::from_json("{\n \"methodConfig\": }").expect_err("no JSON");
    assert!(matches!(&error.problem, Problem::Json(text) if text.contains("line 2")), "{error}");
    let deep = "[".repeat(100_000);
    assert!(matches!(Policies::from_json(&deep), Err(error) if error.path.is_empty()));
}

/// JSON values with the config's own keys, so that deep places are reached.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[0-9]{0,14}\\.?[0-9]{0,10}s?".prop_map(Value::from),
        prop::sample::select(vec!["UNAVAILABLE", "OK", "pick_first", "s"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let keys = prop::sample::select(vec![
            "methodConfig",
            "name",
            "service",
            "method",
            "retryPolicy",
            "hedgingPolicy",
            "timeout",
            "maxAttempts",
            "initialBackoff",
            "maxBackoff",
            "backoffMultiplier",
            "hedgingDelay",
            "retryableStatusCodes",
            "nonFatalStatusCodes",
            "retryThrottling",
            "maxTokens",
            "tokenRatio",
            "loadBalancingConfig",
            "loadBalancingPolicy",
            "waitForReady",
        ]);
        let object = prop::collection::vec((keys, inner.clone()), 0..8)
            .prop_map(|fields| fields.into_iter().map(|(key, v)| (key.to_owned(), v)).collect());
        prop_oneof![object, prop::collection::vec(inner, 0..4).prop_map(Value::from)]
    })
}

proptest! {
    #![proptest_config(petasos_cases::kept())]

    #[test]
    fn no_config_panics(value in values()) {
        if let Err(error) = Policies::from_json(&value.to_string()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_text_panics(text in ".{0,200}") {
        let is_read = Policies::from_json(&text).is_ok();
        let is_object = text.trim_start().starts_with('{');
        prop_assert!(is_object || !is_read);
    }
}

fn read(config: &Value) -> Policies {
    Policies::from_json(&config.to_string()).expect("the config is right")
}

fn complains(config: &Value, path: &str, problem: &str) {
    let error = Policies::from_json(&config.to_string()).expect_err("the config is wrong");
    assert_eq!(error.to_string(), format!("{path}: {problem}"));
}
