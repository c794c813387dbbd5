//! Policies in rounds, and experiments in which policies are changed while calls run, each as short
//! as it can be.

use serde_json::Value;

use super::{in_turns, json, managed, number};
use crate::support::BENCH;

/// Whether there is a service to measure.
pub(super) fn has_service() -> bool {
    is_built("petasosd")
}

/// Whether a program of another package is beside this one's.
pub(super) fn is_built(program: &str) -> bool {
    let is_there = std::path::Path::new(BENCH).with_file_name(program).is_file();
    if !is_there {
        petasos_skips::skip(program, format!("not built: cargo build -p {program}"));
    }
    is_there
}

fn measured(figure: &str, options: &[&str]) -> Value {
    json(managed(&[&["--figure", figure, "--print-json"], options].concat()).success())
}

pub(super) fn measured_in_turns(figure: &str, options: &[&str]) -> Value {
    json(in_turns(&[&["--figure", figure, "--print-json"], options].concat()).success())
}

#[test]
fn policies_are_compared_with_none() {
    if !has_service() {
        return;
    }
    let contenders = ["--contenders", "managed-bare,managed-limited", "--seconds", "0.2"];
    let limit = measured_in_turns("6a", &contenders);
    assert_eq!(limit["skipped"], Value::Array(Vec::new()), "{limit}");
    assert!(number(&limit["ratios"]["managed-limited"]["without_policy"]) > 0.0);
    assert!(limit["ratios"]["managed-bare"]["without_policy"].is_null());
    assert_eq!(limit["contenders"]["managed-limited"]["refused"], 0);
}

#[test]
fn access_control_refuses_what_is_forbidden() {
    if !has_service() {
        return;
    }
    let contenders = ["--contenders", "tonic,managed-bare,managed-access", "--seconds", "0.3"];
    let access = measured_in_turns("6b", &contenders);
    assert_eq!(access["skipped"], Value::Array(Vec::new()), "{access}");
    let counts = |name: &str| {
        let row = &access["contenders"][name];
        [number(&row["refused"]), number(&row["forbidden"])]
    };
    let [refused, forbidden] = counts("managed-access");
    assert!(refused > 0.0 && refused == forbidden, "{refused} of {forbidden}");
    for name in ["tonic", "managed-bare"] {
        let [refused, forbidden] = counts(name);
        assert!(refused == 0.0 && forbidden > 0.0, "{name} has no policy");
    }
    assert!(number(&access["ratios"]["managed-access"]["without_policy"]) > 0.0);
}

fn changes_cost_no_call(json: &Value, count: usize) {
    let changes = &json["changes"];
    assert_eq!((&changes["lost"], &changes["duplicated"]), (&0.into(), &0.into()), "{json}");
    let made = changes["made"].as_array().map(Vec::len);
    assert_eq!((&changes["count"], made), (&count.into(), Some(count)), "{json}");
}

#[test]
fn a_limit_is_attached_opened_and_removed_under_load() {
    if !has_service() {
        return;
    }
    let json = measured("7b", &["--seconds", "2.5"]);
    changes_cost_no_call(&json, 3);
    let stages = &json["stages"];
    for stage in ["none", "limited", "open", "removed"] {
        assert!(number(&stages[stage]["ops_per_s"]) > 0.0, "{stage} in {json}");
    }
    let limit = number(&json["parameters"]["limit_per_s"]);
    let limited = number(&stages["limited"]["ops_per_s"]);
    assert!(limited < limit * 1.2, "{limited} calls per second are not limited to {limit}");
    assert!(json["series"].as_array().is_some_and(|series| series.len() > 50));
}

#[test]
fn the_transport_is_changed_under_load() {
    if !has_service() {
        return;
    }
    let json = measured("7a", &["--seconds", "2"]);
    changes_cost_no_call(&json, 2);
    for name in ["managed", "second"] {
        assert!(number(&json["contenders"][name]["ops_per_s"]) > 0.0, "{name} in {json}");
        for stage in ["pieces", "server", "both"] {
            assert!(number(&json["stages"][name][stage]["ops_per_s"]) > 0.0, "{stage} in {json}");
            assert!(number(&json["ratios"][name][stage]["pieces"]) > 0.0, "{stage} in {json}");
        }
        assert!(json["series"][name].as_array().is_some_and(|series| series.len() > 50));
    }
}

#[test]
fn changes_lose_and_repeat_nothing() {
    if !has_service() {
        return;
    }
    let json = measured("changes", &["--changes", "4"]);
    let changes = &json["changes"];
    assert_eq!((&changes["lost"], &changes["duplicated"]), (&0.into(), &0.into()), "{json}");
    for kind in ["attach", "detach", "reorder", "configure", "upgrade"] {
        let of = &changes["kinds"][kind];
        assert!(number(&of["count"]) > 0.0 && number(&of["count"]) <= 4.0, "{kind} in {json}");
        for gap in ["gap_us_p99", "sham_gap_us_p99"] {
            assert!(number(&of[gap]) > 0.0, "{gap} of {kind} in {json}");
        }
    }
    assert!(number(&changes["second_rate_ratio"]) > 0.0);
    assert!(number(&json["contenders"]["second"]["ops_per_s"]) > 0.0);
}

#[test]
fn schemas_are_bound_and_neighbours_measured() {
    if !has_service() {
        return;
    }
    let bind = measured("bind", &["--seconds", "0.1"]);
    for name in ["cold", "cached", "small", "restarted", "prefetched"] {
        let row = &bind["contenders"][name];
        assert!(number(&row["p50_us"]) > 0.0 && number(&row["completed"]) >= 3.0, "{bind}");
        assert!(number(&row["process_p50_us"]) >= number(&row["p50_us"]));
    }
    assert!(number(&bind["parameters"]["schema_bytes"]) > 1000.0);
    let beside = measured_in_turns("table4", &["--seconds", "0.1"]);
    for name in ["without", "small-first", "small-first-of-all"] {
        let row = &beside["contenders"][name];
        for field in ["p95_us", "p99_us", "gbit_per_s", "completed_long"] {
            assert!(number(&row[field]) > 0.0, "{field} of {name} in {beside}");
        }
        assert_eq!((&row["lost"], &row["duplicated"]), (&0.into(), &0.into()), "{beside}");
    }
}

#[test]
fn good_applications_are_measured_beside_hostile_ones() {
    if !has_service() {
        return;
    }
    // On a busy machine, a call has to fit into a turn.
    let report = measured("hostile", &["--turn-ms", "250", "--seconds", "0.1"]);
    for name in ["shared", "dedicated"] {
        let row = &report["contenders"][name];
        for beside in ["computing", "hostile", "both"] {
            assert!(number(&row["ops_per_s"][beside]) > 0.0, "{beside} of {name} in {report}");
        }
        assert_eq!(row["failed"], 0, "{report}");
        assert!(number(&report["ratios"][name]["both"]) > 0.0, "{report}");
    }
}

#[test]
fn options_that_mean_nothing_are_refused() {
    for (options, why) in [
        (&["7b", "--contenders", "managed"][..], "--contenders means nothing for 7b: it is for "),
        (&["8", "--points", "8 KiB"], "--points means nothing for 8: "),
        (&["bind", "--turn-ms", "5"], "--turn-ms means nothing for bind: it is for what is "),
        (&["changes", "--turn-ms", "5"], "--turn-ms means nothing for changes: "),
        (&["table2", "--changes", "5"], "--changes means nothing for table2: it is for changes"),
        (&["12", "--changes", "5"], "--changes means nothing for 12: "),
        (&["6a", "--contenders", "nginx"], "nginx"),
        (&["4", "--points", "8 KiB,9 KiB"], "figure 4 has no point `9 KiB`; it has 2 B, 32 B, "),
    ] {
        let finished = managed(&[&["--figure"], options].concat());
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    }
    for option in [&["--figure", "4"][..], &["--seconds", "1"], &["--print-json"]] {
        let finished = managed(&[&["--show-config"], option].concat());
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
    for changes in ["0", "x", "1000000"] {
        let finished = managed(&["--figure", "changes", "--changes", changes]);
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
}

#[test]
fn idle_applications_cost_the_service_little_memory() {
    if !has_service() {
        return;
    }
    let options = ["--contenders", "direct,managed", "--seconds", "0.2"];
    let memory = measured_in_turns("15", &options);
    let idle = &memory["idle"];
    let resident = &idle["resident_bytes"];
    let [one, all] = ["with_one", "with_all"].map(|name| number(&resident[name]));
    assert!(1e6 < one && one < all, "{idle}");
    let each = number(&idle["per_application_bytes"]);
    assert_eq!(each, ((all - one) / number(&idle["applications"])).floor());
    assert!(idle["is_reached"] == true && each <= number(&idle["goal_bytes"]), "{idle}");
    // Nobody has asked for a service.
    let without = measured_in_turns("15", &["--contenders", "direct", "--seconds", "0.1"]);
    assert!(without["idle"].is_null(), "{without}");
}
