//! The hotel reservation on real stores, in turns that are as short as they can be.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::live::is_built;
use super::{json, managed, number};

/// Whether this machine has what the application needs.
fn has_stores() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = |name: &str| std::env::split_paths(&path).any(|at| at.join(name).is_file());
    if !on_path("memcached") {
        petasos_skips::skip("memcached", "memcached is not installed");
        return false;
    }
    if !Path::new("/usr/lib/postgresql").is_dir() && !on_path("initdb") {
        petasos_skips::skip("postgresql", "PostgreSQL is not installed");
        return false;
    }
    is_built("petasosd") && is_built("hotel")
}

/// Whether Envoy is there: measurements get it when they are first asked for.
fn has_envoy() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = set.map_or_else(|| root.join("target"), |folder| root.join(folder));
    let is_there = target.join("peers/envoy-1.40.0/envoy/_bin/envoy").is_file();
    if !is_there {
        petasos_skips::skip("envoy", "Envoy was not used yet: petasos bench managed --figure 8");
    }
    is_there
}

/// A figure of both ways, with a turn of each that has requests.
fn is_measured(figure: &str, ways: [&str; 2], statistic: &str) {
    let options = ["--figure", figure, "--seconds", "1", "--turn-ms", "1000", "--print-json"];
    let json = json(managed(&options).success());
    assert_eq!((&json["experiment"], &json["figure"]), (&"managed".into(), &figure.into()));
    assert_eq!(json["skipped"], Value::Array(Vec::new()), "{json}");
    let stacks = json["stacks"].as_object().expect("ways");
    assert_eq!(stacks.len(), 2, "{json}");
    for way in ways {
        let stack = &stacks[way];
        assert!(number(&stack["answered"]) > 0.0, "{way} in {json}");
        for of in ["total", "app", "network"] {
            let time = &stack["parts"]["frontend"][of][statistic];
            assert!(number(time) > 0.0, "{of} of {way} in {json}");
        }
    }
    for ratio in ["mean", "network", "p99"] {
        assert!(number(&json["ratios"][ratio]) > 0.0, "{ratio} in {json}");
    }
}

#[test]
fn the_application_is_compared_with_tonic() {
    if has_stores() {
        is_measured("13", ["managed", "tonic"], "mean_us");
        is_measured("14", ["managed", "tonic"], "p99_us");
    }
}

#[test]
fn the_application_is_compared_with_tonic_behind_envoys() {
    if has_stores() && has_envoy() {
        is_measured("8", ["managed-null", "tonic-envoy"], "mean_us");
        is_measured("12", ["managed-null", "tonic-envoy"], "p99_us");
    }
}
