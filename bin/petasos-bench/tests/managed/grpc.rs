//! HTTP/2 and protobuf between services: the figures of appendix A.1 of the mRPC paper, and one
//! call at a time.

use serde_json::Value;

use super::live::{has_service, measured_in_turns};
use super::number;

/// Measures a figure, and gives its points.
fn points(figure: &str, options: &[&str]) -> Vec<Value> {
    let contenders = ["--contenders", "tonic,managed,managed-grpc"];
    let json = measured_in_turns(figure, &[&contenders, options].concat());
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "{json}");
    json["points"].as_array().expect("there are points").clone()
}

fn is_measured(point: &Value) {
    for name in ["tonic", "managed", "managed-grpc"] {
        let row = &point["contenders"][name];
        for field in ["p50_us", "p99_us", "ops_per_s", "gbit_per_s", "cpu_s_per_million"] {
            assert!(number(&row[field]) > 0.0, "{field} of {name} in {point}");
        }
        let between = number(&row["peak_memory_bytes"]["between"]) > 0.0;
        assert_eq!(between, name != "tonic", "{name} has services: {point}");
    }
}

#[test]
fn one_call_at_a_time_passes_services_that_speak_grpc() {
    if !has_service() {
        return;
    }
    let points = points("table2", &["--seconds", "0.3"]);
    assert_eq!(points.len(), 1);
    is_measured(&points[0]);
}

#[test]
fn long_requests_pass_services_that_speak_grpc() {
    if !has_service() {
        return;
    }
    let points = points("10", &["--points", "2 B,8 KiB,1 MiB", "--seconds", "0.3"]);
    assert_eq!(points.len(), 3);
    points.iter().for_each(is_measured);
    assert_eq!(points[1]["request_bytes"], 8192);
}

#[test]
fn calls_of_two_threads_pass_services_that_speak_grpc() {
    if !has_service() {
        return;
    }
    let points = points("11", &["--seconds", "0.3"]);
    let threads: Vec<_> = points.iter().map(|point| number(&point["threads"])).collect();
    assert_eq!(threads, [1.0, 2.0]);
    points.iter().for_each(is_measured);
}
