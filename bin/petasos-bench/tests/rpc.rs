//! `petasos bench rpc`: what it reports of Petasos, the peer and the floor, and that its processes
//! end with it.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use support::{BENCH, Finished, WATCHDOG, bench};

/// Both processes of a measurement spin: several at once would starve each other, until peers take
/// each other for dead.
static MEASURING: Mutex<()> = Mutex::new(());

fn rpc(options: &[&str]) -> Finished {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    bench(&[&["rpc", "--seconds", "0.5"], options].concat())
}

fn json(options: &[&str]) -> Value {
    let finished = rpc(&[options, &["--print-json"]].concat());
    serde_json::from_str(finished.success()).expect("it is JSON")
}

/// The names of an object's fields.
fn fields(object: &Value) -> BTreeSet<&str> {
    let object = object.as_object().unwrap_or_else(|| panic!("{object} is no object"));
    object.keys().map(String::as_str).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn small_calls_are_compared_in_latency_rate_and_processor_time() {
    let json = json(&["--peer", "tonic", "--window", "16"]);
    assert_eq!(json["experiment"], "rpc");
    assert_eq!((&json["peer"]["name"], &json["quantity"]), (&"tonic".into(), &"ops_per_s".into()));
    assert_eq!(json["parameters"]["size_bytes"], 64);
    assert_eq!(json["parameters"]["response_bytes"], 64);
    for who in ["petasos", "peer", "floor"] {
        let who = &json[who];
        for latency in [who, &who["sleeping"], &who["loaded"]] {
            let percentiles = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"];
            let percentiles = percentiles.map(|name| latency[name].as_f64().unwrap_or(-1.0));
            let is_loaded_floor = latency == &who["loaded"] && who == &json["floor"];
            let sorted = percentiles[0] > 0.0 && percentiles.is_sorted();
            assert!(sorted || is_loaded_floor, "{percentiles:?} in {who}");
        }
        assert!(number(&who["ops_per_s"]) > 0.0 && number(&who["cpu_s_per_million"]) > 0.0);
    }
    let ratios = ["cpu_s_per_million", "ops_per_s", "p50_us", "sleeping_p50_us"];
    assert_eq!(fields(&json["ratios"]["peer"]), ratios.into());
    assert_eq!(json["ratios"]["peer"]["ops_per_s"], json["ratio_peer"]);
    assert_eq!(json["ratios"]["floor"]["ops_per_s"], json["ratio"]);
    let pairs = json["pairs"].as_array().expect("every round is told");
    assert_eq!(pairs.len(), 5);
    assert!(pairs.iter().all(|pair| number(&pair["floors"]["peer"]) > 0.0));
    assert_eq!(fields(&json["phases"]), ["sleeping", "spinning", "window"].into());
}

#[test]
fn large_calls_are_compared_in_payload() {
    let json = json(&["--size", "300000", "--phases", "window"]);
    assert_eq!(json["quantity"], "gbit_per_s");
    assert_eq!(json["parameters"]["window"], 53);
    assert_eq!(json["parameters"]["response_bytes"], 32);
    for who in ["petasos", "peer", "floor"] {
        assert!(number(&json[who]["gbit_per_s"]) > 0.0, "{who}");
        assert!(json[who].get("sleeping").is_none(), "what was not measured is absent");
    }
    let ratio = number(&json["petasos"]["gbit_per_s"]) * 1e9 / (300_000.0 * 8.0);
    assert!((number(&json["petasos"]["ops_per_s"]) / ratio - 1.0).abs() < 1e-6);
    assert_eq!(fields(&json["phases"]), ["window"].into());
}

#[test]
fn the_typed_layer_is_compared_with_the_raw_endpoint() {
    let finished = rpc(&["--peer", "petasos-direct", "--size", "32"]);
    let table = finished.success();
    let rows = ["| petasos ", "| petasos-direct ", "| floor "];
    assert!(rows.iter().all(|row| table.contains(row)), "{table}");
    let lines = ["p50 spinning: ", "p50 asleep: ", "rate at window 128: ", "processor time: "];
    assert!(lines.iter().all(|line| table.contains(line)), "{table}");
}

#[test]
fn the_grpc_port_is_compared_with_tonics_server() {
    let json = json(&["--peer", "petasos-grpc", "--phases", "sleeping", "--peer-awake"]);
    let names = (&json["petasos"]["name"], &json["peer"]["name"]);
    assert_eq!(names, (&"petasos-grpc".into(), &"tonic".into()));
    assert_eq!(json["quantity"], "latency_us");
    let p50s = ["petasos", "peer"].map(|who| number(&json[who]["sleeping"]["p50_us"]));
    assert!(p50s.iter().all(|us| *us > 0.0), "{p50s:?}");
    assert_eq!(json["ratios"]["peer"]["sleeping_p50_us"], json["ratio_peer"]);
}

#[test]
fn calls_over_tls_are_compared_with_those_of_a_peer_over_tls() {
    for peer in ["tonic", "petasos-grpc", "petasos-direct"] {
        let json = json(&["--tls", "--peer", peer, "--phases", "window", "--window", "16"]);
        assert_eq!(json["parameters"]["tls"], true);
        for who in ["petasos", "peer", "floor"] {
            assert!(number(&json[who]["ops_per_s"]) > 0.0, "{who} beside {peer}");
        }
    }
    let finished = rpc(&["--tls", "--transport", "auto"]);
    assert_eq!(finished.code, Some(1), "shared memory is not sealed: {finished:?}");
}

#[test]
fn streams_are_compared_in_messages() {
    let json = json(&["--streaming", "--phases", "spinning,window"]);
    assert_eq!(json["parameters"]["streaming"], true);
    assert!(json["parameters"]["window"].is_null(), "flow control is the window");
    for who in ["petasos", "peer"] {
        assert!(number(&json[who]["ops_per_s"]) > 0.0 && number(&json[who]["p50_us"]) > 0.0);
        assert!(json[who].get("loaded").is_none(), "no message is timed under load");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let finished = rpc(&["--peer", "petasos-direct", "--streaming"]);
    assert_eq!(finished.code, Some(1), "it has no streams: {finished:?}");
    let finished = rpc(&["--role", "client:nobody"]);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let finished = rpc(&["--role", "client:tonic"]);
    assert_eq!(finished.code, Some(1), "a client needs a server: {finished:?}");
}

/// `tcp` is what builds within seconds and needs nothing but Rust.
#[test]
fn a_program_of_its_own_is_built_and_compared() {
    let json = json(&["--peer", "tcp", "--size", "100", "--response", "3", "--window", "16"]);
    assert_eq!(json["peer"]["name"], "tcp");
    for who in ["petasos", "peer"] {
        let who = &json[who];
        assert!(number(&who["p50_us"]) > 0.0 && number(&who["sleeping"]["p50_us"]) > 0.0);
        assert!(number(&who["ops_per_s"]) > 0.0 && number(&who["cpu_s_per_million"]) > 0.0);
        assert!(number(&who["loaded"]["p50_us"]) > 0.0, "one call in 32 is timed");
    }
    assert_eq!(json["ratios"]["peer"]["ops_per_s"], json["ratio_peer"]);
}

/// Every process of a measurement has its standard error, whose end is theirs.
#[test]
fn a_measurement_that_is_killed_leaves_nobody_behind() {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(BENCH);
    command.args(["rpc", "--peer", "tcp", "--seconds", "600"]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("built");
    let errors = BufReader::new(killed.stderr.take().expect("it is piped"));
    let (send, lines) = channel();
    std::thread::spawn(move || errors.lines().try_for_each(|line| send.send(line)));
    let line = || lines.recv_timeout(WATCHDOG);
    while !line().expect("it measures soon").expect("it is text").starts_with("rpc ...") {}
    killed.kill().expect("it is our child");
    killed.wait().expect("it is our child");
    let end = std::iter::from_fn(|| match line() {
        Ok(_) => Some(None),
        Err(error) => Some(Some(error)),
    });
    let end = end.flatten().next();
    assert_eq!(end, Some(RecvTimeoutError::Disconnected), "somebody lives on");
}

#[test]
fn programs_of_their_own_refuse_what_they_do_not_have() {
    for option in [&["--streaming"][..], &["--tls"], &["--peer-awake"], &["--transport", "auto"]] {
        for peer in ["tcp", "all"] {
            let finished = rpc(&[&["--peer", peer], option].concat());
            assert_eq!(finished.code, Some(1), "{option:?}: {finished:?}");
            assert!(finished.stderr.contains(option[0]), "{finished:?}");
        }
    }
    let finished = rpc(&["--figure", "/nonexistent/figure.svg"]);
    assert_eq!(finished.code, Some(1), "one peer has no figure: {finished:?}");
}
