//! Figure 9 of `petasos bench managed`, as short as it can be.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{BENCH, bench};

/// Whether the service was built with libfabric. None if it was not built.
fn has_fabric() -> Option<bool> {
    let service = Path::new(BENCH).with_file_name("petasosd");
    if !service.is_file() {
        petasos_skips::skip("petasosd", "not built: cargo build -p petasosd");
        return None;
    }
    let options = ["--check", "--transport", "fabric", "--provider", "udp"];
    let checked = Command::new(service).args(options).output().expect("it can be started");
    Some(checked.status.success())
}

const FIGURE: [&str; 9] =
    ["managed", "--figure", "9", "--points", "MobileNet", "--seconds", "0.1", "--turn-ms", "1"];

#[test]
fn tensors_travel_with_packets_that_share_messages_and_without() {
    let Some(has_fabric) = has_fabric() else { return };
    let finished = bench(&[&FIGURE[..], &["--print-json"]].concat());
    if !has_fabric {
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("--features fabric"), "{finished:?}");
        return;
    }
    let json: Value = serde_json::from_str(finished.success()).expect("it is JSON");
    assert_eq!((&json["figure"], &json["parameters"]["key_bytes"]), (&"9".into(), &8.into()));
    let points = json["points"].as_array().expect("there are points");
    let windows: Vec<_> = points.iter().map(|point| &point["window"]).collect();
    assert_eq!(windows, [1, 16]);
    for point in points {
        assert_eq!((&point["model"], &point["tensors"]), (&"MobileNet".into(), &83.into()));
        for name in ["each", "fused"] {
            let row = &point["contenders"][name];
            let rounds = row["rounds"].as_array().expect("there are rounds");
            assert!(rounds.len() >= 3 && row["completed"].as_u64() >= Some(3 * 83), "{row}");
            assert!(row["mean_us"].as_f64() > Some(0.0), "{row}");
            assert!(row["half_interval_us"].as_f64() > Some(0.0), "{row}");
        }
        assert!(point["saved"].is_f64() && point["half_interval_of_saved"].is_f64(), "{point}");
    }
}

#[test]
fn a_model_that_is_not_known_is_refused() {
    let finished = bench(&["managed", "--figure", "9", "--points", "ResNet"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("no model ResNet"), "{finished:?}");
}
