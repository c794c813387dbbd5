//! `petasos bench router`: each figure as short as it can be. What is asserted is what happened and
//! what is reported, not how long it took.

mod support;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use support::{BENCH, Finished, bench};

/// Several measurements at once would starve each other.
static MEASURING: Mutex<()> = Mutex::new(());

fn router(options: &[&str]) -> Finished {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    bench(&[&["router", "--quick"], options].concat())
}

/// What a figure reports; `None` if the router was not built.
fn measured(figure: &str, options: &[&str]) -> Option<Value> {
    if !Path::new(BENCH).with_file_name("petasos-router").is_file() {
        let how = "not built: cargo build -p petasos-router-program";
        petasos_skips::skip("petasos-router", how);
        return None;
    }
    let finished = router(&[&["--figure", figure, "--print-json"], options].concat());
    let json: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    assert_eq!((&json["experiment"], &json["figure"]), (&"router".into(), &figure.into()));
    // Whatever is measured, programs find the same fields.
    for map in ["curves", "predicted", "ratios", "arrivals"] {
        assert!(json[map].is_object(), "{map} in {json}");
    }
    for contender in json["contenders"].as_object().expect("contenders").values() {
        for field in [
            "p50_us",
            "p99_us",
            "ops_per_s",
            "gbit_per_s",
            "cpu_s_per_million",
            "load_at_objective",
        ] {
            assert!(contender.get(field).is_some(), "{field} in {contender}");
        }
    }
    Some(json)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Whether a proxy was measured. If it is not installed, the measurement has said so.
fn has(json: &Value, name: &str) -> bool {
    let skipped = json["skipped"].as_array().expect("a list");
    match skipped.iter().find(|skipped| skipped["name"] == name) {
        None => true,
        Some(skipped) => {
            petasos_skips::skip(name, skipped["reason"].to_string());
            false
        }
    }
}

/// A contender has points, unless arrivals were refused: on a busy machine they come too late.
fn check_curve(json: &Value, name: &str) {
    let curve = json["curves"][name].as_array().expect("a curve");
    let refused = json["arrivals"]["refused"].as_u64().expect("a count");
    assert!(!curve.is_empty() || refused > 0, "{name} in {json}");
    assert!(curve.iter().all(|at| number(&at["p99_us"]) > 0.0), "{name} in {json}");
}

#[test]
fn the_model_has_a_curve_of_each_policy() {
    let finished = router(&["--figure", "1", "--print-json", "--dist", "exponential"]);
    let json: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    let p99 = |policy: &str| {
        let curve = json["curves"][format!("exponential/{policy}")].as_array().expect("a curve");
        number(&curve.last().expect("there are loads")["p99"])
    };
    assert!(p99("random") > p99("jsq") && p99("jsq") > p99("single"), "{json}");
}

#[test]
fn policies_are_compared_with_direct_calls_proxies_and_predictions() {
    let contenders = "direct,random,jbsq3,nginx,haproxy";
    // Short service times need less time; that packets take a part of them does not matter here.
    let options = ["--contenders", contenders, "--mean-us", "2000", "--seconds", "6"];
    let Some(json) = measured("6", &options) else { return };
    for name in ["direct", "random", "jbsq3", "nginx", "haproxy"] {
        if !has(&json, name) {
            continue;
        }
        check_curve(&json, name);
        assert!(number(&json["contenders"][name]["ways_us"]) > 0.0);
    }
    let predicted = &json["predicted"]["jbsq3"];
    // The way that is slept is a part of the delay.
    assert!(number(&predicted["delay_us"]) > 1200.0, "{predicted}");
    // If packets take long, a load is beyond what the workers can serve.
    assert!(predicted["curve"].as_array().is_some_and(|curve| curve.len() <= 2));
    assert!(!json["predicted"]["single"].is_null() && json["predicted"]["nginx"].is_null());
    assert!(json["arrivals"]["points"].as_u64() >= Some(5), "{}", json["arrivals"]);
    for field in ["rate_error", "p_exponential", "p_independent"] {
        number(&json["arrivals"][field]);
    }
}

#[test]
fn workers_behind_the_router_are_compared_with_one_queue() {
    let options = ["--mean-us", "2000", "--seconds", "3"];
    let Some(json) = measured("9", &options) else { return };
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "{json}");
    for name in ["jbsq3", "dispatcher", "tokio"] {
        check_curve(&json, name);
    }
}

#[test]
fn redis_is_compared_over_tcp_and_by_way_of_the_router() {
    let Some(json) = measured("11", &["--seconds", "2"]) else { return };
    for name in ["tcp", "random", "jbsq20"].into_iter().filter(|name| has(&json, name)) {
        for mix in ["0.2 % writes", "2 % writes"] {
            let curve = json["curves"][format!("{mix}/{name}")].as_array().expect("a curve");
            assert_eq!(curve.len(), 4);
            let is_there = |at: &Value| number(&at["load"]) > 0.0 && number(&at["p99_us"]) > 0.0;
            assert!(curve.iter().all(is_there), "{json}");
            // On a busy machine no load may keep to the objective.
            let row = &json["contenders"][format!("{mix}/{name}")];
            let kept = curve.iter().any(|at| number(&at["p99_us"]) <= 2000.0);
            assert_eq!(row["load_at_objective"].is_number(), kept, "{row}");
        }
    }
}

#[test]
fn search_is_measured_with_the_answers_that_were_recorded() {
    let bench = Path::new(BENCH);
    if !bench.with_file_name("search").is_file() {
        return petasos_skips::skip("search", "not built: cargo build -p search");
    }
    if !Path::new("/usr/share/dictd/jargon.index").is_file() {
        return petasos_skips::skip("dict", "not installed: apt-get install dict-jargon");
    }
    let contenders = "tcp-random,jbsq1,nginx,nginx-zone";
    let options = ["--contenders", contenders, "--mean-us", "3000", "--seconds", "4"];
    let Some(json) = measured("10", &options) else { return };
    let parameters = &json["parameters"];
    assert_eq!((&parameters["queries"], &parameters["slept"]), (&400.into(), &true.into()));
    let service = &parameters["service_us"];
    assert!(number(&service["p50"]) < number(&service["max"]), "they are no constant: {service}");
    for name in contenders.split(',').filter(|name| has(&json, name)) {
        // Each answer is compared with what was recorded, and one that fails is no measurement.
        check_curve(&json, name);
        for other in contenders.split(',').filter(|other| *other != name && has(&json, other)) {
            let ratios = json["ratios"][name].as_object().expect("ratios");
            assert!(ratios.contains_key(&format!("p99_of_{other}")), "{ratios:?}");
        }
    }
    assert!(json["arrivals"]["points"].as_u64() >= Some(2), "{}", json["arrivals"]);
}

#[test]
fn an_echo_is_measured_with_and_without_a_hop() {
    let Some(json) = measured("5", &["--seconds", "1"]) else { return };
    for point in json["points"].as_array().expect("points") {
        for name in ["direct", "router", "bare", "bare-forwarded", "http", "nginx", "haproxy"] {
            if has(&json, name) {
                let row = &point["contenders"][name];
                assert!(number(&row["p50_us"]) > 0.0 && number(&row["ops_per_s"]) > 0.0, "{row}");
            }
        }
        let added = &point["added"]["router"];
        assert_eq!((&added["to"], added["p50_us"].is_number()), (&"direct".into(), true));
        // Nobody is between a client and the workers that it calls.
        assert!(point["contenders"]["direct"]["cpu_s_per_million"].is_null());
        assert!(number(&point["contenders"]["router"]["cpu_s_per_million"]) > 0.0);
        assert!(point["ratios"]["router"]["direct"]["p50"].is_number());
    }
    let curve = json["curves"]["router"].as_array().expect("a curve");
    let outstanding: Vec<_> = curve.iter().map(|at| at["outstanding"].as_u64()).collect();
    assert_eq!(outstanding, [Some(1), Some(64)]);
    assert!(curve.iter().all(|at| number(&at["load"]) > 0.0 && number(&at["stderr"]) >= 0.0));
}

#[test]
fn answers_of_all_sizes_arrive() {
    let Some(json) = measured("4", &["--seconds", "1", "--contenders", "direct,router"]) else {
        return;
    };
    let points = json["points"].as_array().expect("points");
    let bytes: Vec<_> = points.iter().map(|point| point["response_bytes"].as_u64()).collect();
    assert_eq!(bytes, [Some(2048), Some(65_536)]);
    for point in points {
        assert!(number(&point["contenders"]["router"]["gbit_per_s"]) > 0.0);
        assert!(number(&point["ratios"]["router"]["direct"]["ops_per_s"]) > 0.0);
    }
}

#[test]
fn a_byte_more_than_a_packet_has_asks_for_a_worker_first() {
    let Some(json) = measured("8", &["--seconds", "1"]) else { return };
    assert!(json["second_packet"]["round_trips"].is_number(), "{json}");
    let points = json["points"].as_array().expect("points");
    let [whole, longer] = &points[..] else { panic!("two points: {json}") };
    assert_eq!(
        whole["request_bytes"].as_u64().map(|bytes| bytes + 1),
        longer["request_bytes"].as_u64()
    );
    let part = |point: &Value, name: &str| number(&point["contenders"][name]["asked_first"]);
    // A worker of another process, which may be kept from running for a while, says so first.
    assert!(part(whole, "router-turns") < 0.5, "{json}");
    for router in ["router", "router-turns"] {
        assert!(part(longer, router) > 0.99, "{router} in {json}");
    }
    assert!(whole["contenders"]["direct"]["asked_first"].is_null(), "{json}");
}

#[test]
fn kills_cost_no_call_that_may_run_twice_and_nothing_runs_twice() {
    let Some(json) = measured("kill", &[]) else { return };
    for who in ["workers", "routers"] {
        let cost = &json[who];
        assert_eq!(cost["kills"], 3, "{cost}");
        assert!(number(&cost["calls"]) > 0.0);
        for what in ["failed_idempotent", "run_twice", "answered_unrun"] {
            assert_eq!(cost[what], 0, "{what}: {cost}");
        }
        assert!(number(&cost["recovery_ms"]["median"]) >= 0.0);
    }
}

#[test]
fn changes_on_purpose_cost_no_call() {
    let Some(json) = measured("changes", &[]) else { return };
    for who in ["reloads", "workers", "routers"] {
        let cost = &json[who];
        assert_eq!(cost["changes"], 3, "{cost}");
        for what in ["failed_idempotent", "failed_others", "run_twice", "answered_unrun"] {
            assert_eq!(cost[what], 0, "{what}: {cost}");
        }
        assert!(number(&cost["ratio"]) > 0.0 && number(&cost["p99_us"]["without"]) > 0.0);
    }
}

/// Whether networks can be made here; says so if not.
fn is_privileged() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        petasos_skips::skip("root", "network namespaces need root");
    }
    is_root
}

#[test]
fn an_echo_goes_through_a_router_with_each_plane() {
    if !is_privileged() {
        return;
    }
    let Some(json) = measured("planes", &["--seconds", "2"]) else { return };
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "{json}");
    let hop = &json["points"][0]["added"]["bare-forwarded"];
    assert_eq!((&hop["to"], hop["p50_us"].is_number()), (&"bare".into(), true), "{hop}");
    for name in ["udp", "udp-split", "xdp-socket", "xdp"] {
        for point in json["points"].as_array().expect("points") {
            assert!(number(&point["contenders"][name]["ops_per_s"]) > 0.0, "{name}: {point}");
            assert!(point["added"][name]["p50_us"].is_number(), "{name}: {point}");
        }
        let given = &json["given"][name];
        assert!(number(&given["requests"]) > 0.0, "{name}: {given}");
        // The program is not only there, but has given requests by itself.
        let by_program = given["by_program"].as_u64();
        assert_eq!(by_program.is_some_and(|count| count > 0), name == "xdp", "{name}: {given}");
    }
}

#[test]
fn a_figure_is_measured_with_the_plane_that_is_named() {
    if !is_privileged() {
        return;
    }
    let options = ["--seconds", "0.5", "--plane", "xdp", "--contenders", "direct,router"];
    let Some(json) = measured("8", &options) else { return };
    assert!(json["given"]["router"]["by_program"].as_u64() > Some(0), "{json}");
    let finished = router(&["--figure", "kill", "--plane", "xdp"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("--plane goes with"), "{finished:?}");
}

#[test]
fn losses_leave_no_place_of_a_worker_taken() {
    if !is_privileged() {
        return;
    }
    let options = ["--seconds", "8", "--mean-us", "2000"];
    let Some(json) = measured("loss", &options) else { return };
    assert_eq!(json["slots"], serde_json::json!({ "workers": 16, "leaked": 0 }), "{json}");
    assert!(json["packets"]["lost"].as_u64() > Some(0), "{}", json["packets"]);
    for kind in ["get", "put"] {
        assert!(number(&json["kinds"][kind]["rate_left"]) > 0.0, "{json}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let finished = router(&["--figure", "1", "--dist", "square"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let finished = router(&["--figure", "12"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let finished = router(&["--figure", "5", "--contenders", "router,nobody"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("nobody"), "{finished:?}");
}
