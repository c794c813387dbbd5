use std::collections::HashMap;
use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::Qos;

/// A byte for each microsecond.
const SMALL_FIRST: &str = r#"{"order": {"small_first": {"threshold_bytes": 100}},
    "bytes_per_s": 1000000, "burst_bytes": 100, "hold_max_us": 10000}"#;

fn request(rig: &mut Rig, call: Call, bytes: u32) -> CallId {
    let id = rig.datapath.begin(call).expect("there is room");
    rig.submit(id, ItemKind::Request, bytes);
    id
}

/// What leaves within so many steps of a microsecond.
fn leaves(rig: &mut Rig, steps: u64) -> Vec<CallId> {
    let mut left = Vec::new();
    for _ in 0..steps {
        rig.run_after(1);
        left.extend(rig.out().iter().map(|item| item.call));
    }
    left
}

#[test]
fn small_ones_overtake_large_ones() {
    let mut rig = Rig::new(&Qos, r#"{"order": {"small_first": {"threshold_bytes": 100}}}"#);
    let large = request(&mut rig, call(), 101);
    let small = [request(&mut rig, call(), 100), request(&mut rig, call(), 1)];
    rig.run();
    rig.run();
    let out: Vec<_> = rig.out().iter().map(|item| item.call).collect();
    assert_eq!(out, [small[0], small[1], large]);
}

#[test]
fn with_a_rate_the_small_go_first_and_large_ones_go_in_time() {
    let mut rig = Rig::new(&Qos, SMALL_FIRST);
    let first = request(&mut rig, call(), 100);
    rig.run();
    let large = request(&mut rig, call(), 1000);
    let small = request(&mut rig, call(), 50);
    assert_eq!(leaves(&mut rig, 49), [first], "the small one waits for its bytes");
    assert_eq!(leaves(&mut rig, 52), [small]);
    assert_eq!(leaves(&mut rig, 60), [large], "it needs a full bucket only");
    // Small ones for ever: more than the rate.
    let large = request(&mut rig, call(), 1000);
    let mut left = Vec::new();
    for _ in 0..10_000 / 50 + 1 {
        for _ in 0..2 {
            request(&mut rig, call(), 50);
        }
        left.extend(leaves(&mut rig, 50));
    }
    assert!(left.contains(&large), "after 10 ms it goes");
    assert!(rig.report()["passed_late"].as_u64() > Some(0));
}

/// Two large requests may be without an answer.
const WINDOW: &str = r#"{"order": {"small_first": {"threshold_bytes": 100}},
    "in_flight_bytes_max": 2000, "hold_max_us": 1000}"#;

fn left(rig: &mut Rig) -> Vec<CallId> {
    rig.run_after(1);
    rig.out().iter().map(|item| item.call).collect()
}

#[test]
fn large_requests_wait_for_answers_and_small_ones_do_not() {
    let mut rig = Rig::new(&Qos, WINDOW);
    let large = [(); 4].map(|()| request(&mut rig, call(), 1000));
    assert_eq!(left(&mut rig), large[..2]);
    let small = request(&mut rig, call(), 100);
    assert_eq!(left(&mut rig), [small]);
    // A small one that ends makes no room.
    rig.end(small, None);
    assert_eq!(left(&mut rig), []);
    rig.end(large[1], None);
    assert_eq!(left(&mut rig), [large[2]]);
    // Neither does one that was given up while it waited, but one that had left does.
    rig.submit(large[3], ItemKind::Cancel, 0);
    assert_eq!(left(&mut rig), []);
    let last = request(&mut rig, call(), 1000);
    assert_eq!(left(&mut rig), []);
    rig.submit(large[0], ItemKind::Cancel, 0);
    assert!(left(&mut rig).contains(&last));
}

#[test]
fn a_request_that_is_larger_than_the_window_goes_alone_and_none_waits_for_ever() {
    let mut rig = Rig::new(&Qos, WINDOW);
    let [first, second] = [(); 2].map(|()| request(&mut rig, call(), 5000));
    assert_eq!(left(&mut rig), [first]);
    rig.run_after(998);
    assert!(rig.out().is_empty());
    assert_eq!(left(&mut rig), [], "not before a millisecond has passed");
    assert_eq!(left(&mut rig), [second]);
    assert_eq!(rig.report()["passed_late"], 1);
}

#[test]
fn an_upgrade_knows_what_is_in_flight() {
    let mut rig = Rig::new(&Qos, WINDOW);
    let [first, second, third] = [(); 3].map(|()| request(&mut rig, call(), 1000));
    assert_eq!(left(&mut rig), [first, second]);
    rig.upgrade(WINDOW);
    assert_eq!(left(&mut rig), []);
    rig.end(first, None);
    assert_eq!(left(&mut rig), [third]);
}

#[test]
fn the_earliest_deadline_goes_first() {
    let mut rig = Rig::new(&Qos, r#"{"order": "earliest_deadline"}"#);
    let until = |deadline| Call { deadline: Time::from_nanos(deadline), ..call() };
    let calls = [call(), until(30), until(10), until(20)].map(|call| request(&mut rig, call, 9));
    rig.run();
    let out: Vec<_> = rig.out().iter().map(|item| item.call).collect();
    assert_eq!(out, [calls[2], calls[3], calls[1], calls[0]]);
}

#[test]
fn classes_of_methods_have_their_shares() {
    let mut rig = Rig::new(
        &Qos,
        r#"{"order": {"shares": [{"methods": ["pkg.Service/Method"], "weight": 3}]},
            "bytes_per_s": 1000000, "burst_bytes": 10, "hold_max_us": 1000000}"#,
    );
    let mut bytes_of = HashMap::new();
    for _ in 0..200 {
        // Of the class of weight 3, small ones; of the other, large ones.
        let calls = [(3, 10), (3, 10), (3, 10), (3, 10), (5, 40)];
        for (method, bytes) in calls {
            bytes_of.insert(request(&mut rig, of_method(method), bytes), (method, bytes));
        }
    }
    let mut sent = HashMap::new();
    for id in leaves(&mut rig, 4000) {
        let (method, bytes) = bytes_of[&id];
        *sent.entry(method).or_insert(0) += bytes;
    }
    assert!((2900..=3100).contains(&sent[&3]) && (900..=1100).contains(&sent[&5]), "{sent:?}");
}

#[test]
fn applications_divide_the_rate() {
    let configuration = r#"{"order": "earliest_deadline", "bytes_per_s": 1000000,
        "burst_bytes": 10, "hold_max_us": 1000000,
        "applications": [{"application": "two", "weight": 3}]}"#;
    let mut one = Rig::new(&Qos, configuration);
    let schema = TestSchema { application: "two", ..TestSchema::default() };
    let two = Rig::try_with(&Qos, Arc::clone(&one.policy), schema);
    let mut two = two.expect("the policy is placed");
    for _ in 0..500 {
        request(&mut one, call(), 10);
        request(&mut two, call(), 10);
    }
    let mut left = [0, 0];
    for _ in 0..4000 {
        left[0] += leaves(&mut one, 1).len();
        left[1] += leaves(&mut two, 1).len();
    }
    assert!((95..=105).contains(&left[0]) && (290..=310).contains(&left[1]), "{left:?}");
    two.detach();
    assert!((395..=405).contains(&leaves(&mut one, 4000).len()), "it is alone now");
}

#[test]
fn items_of_a_call_keep_their_order() {
    let mut rig = Rig::new(&Qos, SMALL_FIRST);
    let id = request(&mut rig, stream(), 1000);
    let sizes = [10, 5000, 1, 700, 2];
    sizes.iter().for_each(|bytes| rig.submit(id, ItemKind::Message, *bytes));
    rig.submit(id, ItemKind::Close, 0);
    let mut left = Vec::new();
    for step in 0..20_000 {
        if step == 50 {
            rig.upgrade(SMALL_FIRST);
        }
        rig.run_after(1);
        left.extend(rig.out().into_iter().map(|item| item.kind));
    }
    let messages = vec![ItemKind::Message; 5];
    assert_eq!(left, [vec![ItemKind::Request], messages, vec![ItemKind::Close]].concat());
}

#[test]
fn the_number_of_held_items_is_bounded_and_they_are_given_back_in_order() {
    let mut rig = Rig::new(
        &Qos,
        r#"{"order": {"small_first": {"threshold_bytes": 100}}, "bytes_per_s": 1,
            "burst_bytes": 1, "held_max": 20, "hold_max_us": 3600000000}"#,
    );
    let all: Vec<_> = (0..100).map(|n| request(&mut rig, call(), n * 2 + 1)).collect();
    rig.run();
    let out = rig.out().len();
    assert_eq!((out, rig.datapath.counts().held), (80, 20));
    // A call that was given up is not held any more than it has to.
    rig.submit(all[99], ItemKind::Cancel, 0);
    rig.run();
    let (_, left) = rig.detach();
    let left: Vec<_> = left.iter().map(|item| item.call).collect();
    assert_eq!(left, all[80..99], "large ones, in the order in which they came");
}

#[test]
fn an_upgrade_gives_no_new_burst() {
    let mut rig = Rig::new(&Qos, SMALL_FIRST);
    request(&mut rig, call(), 100);
    rig.run();
    let second = request(&mut rig, call(), 100);
    rig.run();
    assert_eq!(rig.out().len(), 1);
    rig.upgrade(SMALL_FIRST);
    rig.run();
    assert!(rig.out().is_empty(), "its bytes are not there yet");
    assert_eq!(leaves(&mut rig, 101), [second]);
    assert_eq!(rig.report()["passed"], 2);
}

#[test]
fn states_and_configurations() {
    let policy = goes_on_from(&Qos, SMALL_FIRST, r#"{"passed": 5, "passed_late": 2}"#);
    assert_eq!(policy.report()["passed_late"], 2);
    let engine = State {
        kind: "qos".to_owned(),
        version: 1,
        json: r#"{"full_at_ns": [2000000000, 0]}"#.to_owned(),
    };
    assert!(policy.engine(Some(&engine)).is_ok());
    are_wrong(
        &Qos,
        &[
            ("{}", "missing field `order`"),
            (r#"{"order": "largest"}"#, "unknown variant `largest`"),
            (r#"{"order": {"shares": []}}"#, "`order.shares` must have 1 to 64 entries"),
            (
                r#"{"order": {"shares": [{"methods": ["*"], "weight": 0}]}}"#,
                "`order.shares.weight` must be from 1 to 1000, and is 0",
            ),
            (r#"{"order": "earliest_deadline", "bytes_per_s": 0}"#, "`bytes_per_s` must be from 1"),
            (
                r#"{"order": "earliest_deadline", "in_flight_bytes_max": 0}"#,
                "`in_flight_bytes_max` must be from 1",
            ),
            (r#"{"order": "earliest_deadline", "hold_max_us": 0}"#, "`hold_max_us` must be from 1"),
            (
                r#"{"order": "earliest_deadline",
                    "applications": [{"application": "one", "weight": 0}]}"#,
                "`applications.weight` must be from 1 to 1000",
            ),
            (r#"{"order": "earliest_deadline", "hold": 1}"#, "unknown field `hold`"),
            (
                r#"{"order": {"shares": [{"methods": ["*"], "weight": 1}]}, "scope": "runtime"}"#,
                "`scope` is `runtime`: `order` must be `small_first` or `earliest_deadline`",
            ),
            (
                r#"{"order": "earliest_deadline", "scope": "runtime",
                    "applications": [{"application": "one", "weight": 1}]}"#,
                "so leave `applications` out",
            ),
            (
                r#"{"order": "earliest_deadline", "scope": "runtime"}"#,
                "nothing waits without `bytes_per_s` or `in_flight_bytes_max`",
            ),
            (r#"{"order": "earliest_deadline", "scope": "host"}"#, "unknown variant `host`"),
        ],
    );
}
