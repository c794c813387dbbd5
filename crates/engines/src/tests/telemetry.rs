use petasos_engine::*;

use super::support::*;
use crate::Telemetry;

#[test]
fn calls_are_counted_by_outcome_with_bytes_and_latency() {
    let mut rig = Rig::new(&Telemetry, "{}");
    for n in 1..=100 {
        assert!(rig.whole(call(), n * 10, None));
    }
    rig.whole(call(), 1, Some(Status::not_found("x")));
    rig.whole(to_peer(7), 1, None);
    let report = rig.report();
    let series = &report["series"][0];
    assert_eq!((&series["application"], &series["peer"]), (&1.into(), &2.into()));
    assert_eq!(series["method"], "pkg.Service/Method");
    assert_eq!((&series["begun"], &series["ended"]["OK"]), (&101.into(), &100.into()));
    assert_eq!(series["ended"]["NOT_FOUND"], 1);
    assert_eq!(
        (&series["request_bytes"], &series["response_bytes"]),
        (&10_100.into(), &5050.into())
    );
    let median = series["latency_us"]["p50"].as_f64().unwrap();
    assert!((490.0..570.0).contains(&median), "{median}");
    assert_eq!(report["series"][1]["begun"], 1);
}

#[test]
fn an_upgrade_keeps_counts_and_calls_under_way() {
    let mut rig = Rig::new(&Telemetry, "{}");
    rig.whole(call(), 10, None);
    let id = rig.begin(call());
    rig.run();
    rig.run_after(500);
    rig.upgrade(r#"{"series_max": 1}"#);
    rig.run_after(500);
    rig.end(id, None);
    let series = &rig.report()["series"][0];
    assert_eq!((&series["begun"], &series["ended"]["OK"]), (&2.into(), &2.into()));
    let longest = series["latency_us"]["max"].as_f64().unwrap();
    assert!((1000.0..1130.0).contains(&longest), "from before the upgrade on: {longest}");
}

#[test]
fn messages_of_streams_and_calls_that_are_given_up() {
    let mut rig = Rig::new(&Telemetry, r#"{"by": "all"}"#);
    let id = rig.begin(stream());
    rig.submit(id, ItemKind::Message, 1000);
    let message = Submission::new(ItemKind::Message, Direction::Inbound, 7);
    rig.datapath.submit(id, message, rig.now()).unwrap();
    rig.run();
    rig.submit(id, ItemKind::Cancel, 0);
    rig.run();
    let series = &rig.report()["series"][0];
    assert_eq!((&series["request_bytes"], &series["response_bytes"]), (&1100.into(), &7.into()));
    assert_eq!(series["cancelled"], 1);
}

#[test]
fn items_of_calls_whose_request_was_not_seen_count_without_latency() {
    let mut rig = Rig::new(&Telemetry, "{}");
    let id = rig.datapath.begin(stream()).unwrap();
    rig.submit(id, ItemKind::Message, 5);
    rig.run();
    rig.end(id, None);
    let series = &rig.report()["series"][0];
    assert_eq!((&series["begun"], &series["ended"]["OK"]), (&0.into(), &1.into()));
    assert_eq!(series["latency_us"]["max"], 0.0);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut rig = Rig::new(&Telemetry, r#"{"series_max": 10}"#);
    for peer in 0..100_000 {
        let id = rig.begin(to_peer(peer));
        rig.run();
        rig.out();
        if peer % 2 == 0 {
            rig.end(id, None);
        } else {
            rig.submit(id, ItemKind::Cancel, 0);
            rig.run();
            rig.out();
        }
    }
    let report = rig.report();
    assert_eq!(report["series"].as_array().unwrap().len(), 10);
    assert_eq!(report["rest"]["begun"], 99_990);
    let EngineCalls { calls } = engine_state(&mut rig);
    assert!(calls.is_empty(), "no call is left");
}

#[derive(serde::Deserialize)]
struct EngineCalls {
    calls: Vec<serde_json::Value>,
}

fn engine_state(rig: &mut Rig) -> EngineCalls {
    let (state, _) = rig.detach();
    serde_json::from_str(&state.expect("it has one").json).unwrap()
}

#[test]
fn calls_that_never_end_take_no_more_room_than_the_datapath_has() {
    let mut rig = Rig::new(&Telemetry, "{}");
    for _ in 0..70_000 {
        rig.begin(call());
    }
    rig.run();
    assert_eq!(rig.out().len(), 70_000);
    assert_eq!(rig.report()["series"][0]["begun"], 70_000);
    assert_eq!(engine_state(&mut rig).calls.len(), 65_536, "others are not followed");
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"series": [
        [{"application": 1, "method": 3, "peer": 2},
         {"begun": 5, "ended": [4], "latency": [[80, 4]]}],
        [{"peer": 9}, {"begun": 7}]], "rest": {"begun": 1}}"#;
    let policy = goes_on_from(&Telemetry, r#"{"series_max": 1}"#, version_1);
    let mut rig = Rig::with(&Telemetry, policy);
    rig.whole(call(), 10, None);
    let report = rig.report();
    assert_eq!(report["series"][0]["begun"], 6);
    assert_eq!(report["series"][0]["ended"]["OK"], 5);
    assert_eq!(report["rest"]["begun"], 8, "there is room for one");
    are_wrong(
        &Telemetry,
        &[
            (r#"{"series_max": 0}"#, "`series_max` must be from 1 to 65536, and is 0"),
            (r#"{"by": "name"}"#, "unknown variant `name`"),
            (r#"{"max": 1}"#, "unknown field `max`"),
        ],
    );
}
