use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::CircuitBreaker;

const THREE: &str = r#"{"consecutive_failures": 3, "open_ms": 100, "probes": 2}"#;
const RATIO: &str = r#"{"open_ms": 100,
    "ratio": {"failures": 0.5, "window_ms": 1000, "calls_min": 10}}"#;

fn fails(rig: &mut Rig, call: Call) -> bool {
    rig.whole(call, 10, Some(Status::unavailable("down")))
}

fn succeeds(rig: &mut Rig, call: Call) -> bool {
    rig.whole(call, 10, None)
}

fn opened(configuration: &str) -> Rig {
    let mut rig = Rig::new(&CircuitBreaker, configuration);
    (0..3).for_each(|_| assert!(fails(&mut rig, call())));
    rig
}

#[test]
fn it_opens_after_failures_one_after_another_and_per_peer() {
    let mut rig = Rig::new(&CircuitBreaker, THREE);
    for _ in 0..10 {
        assert!(fails(&mut rig, call()) && fails(&mut rig, call()) && succeeds(&mut rig, call()));
        assert!(rig.whole(call(), 1, Some(Status::not_found("an answer"))));
    }
    (0..3).for_each(|_| assert!(fails(&mut rig, call())));
    rig.begin(call());
    rig.run();
    assert_eq!(rig.refused(), [(Code::Unavailable, "the circuit breaker is open".to_owned())]);
    assert!(succeeds(&mut rig, to_peer(3)), "another peer");
    assert_eq!(rig.report()["not_closed"][0], "peer 2");
    assert_eq!(rig.report()["refused"], 1);
}

#[test]
fn probes_close_it_or_open_it_again() {
    let mut rig = opened(THREE);
    rig.run_after(99_000);
    assert!(!succeeds(&mut rig, call()));
    rig.run_after(1000);
    assert!(fails(&mut rig, call()), "a probe");
    assert!(!succeeds(&mut rig, call()), "it is open again");
    rig.run_after(100_000);
    let probes = [rig.begin(call()), rig.begin(call()), rig.begin(call())];
    rig.run();
    assert_eq!(rig.out().len(), 2, "two probes");
    assert_eq!(rig.refused().len(), 1);
    rig.end(probes[0], None);
    assert!(!rig.passes(call()), "one of two has succeeded");
    rig.back();
    rig.end(probes[1], None);
    assert_eq!(rig.report()["not_closed"].as_array().unwrap().len(), 0);
    assert!((0..10).all(|_| succeeds(&mut rig, call())));
}

#[test]
fn probes_that_do_not_end_are_followed_by_others_in_time() {
    let mut rig = opened(THREE);
    rig.run_after(100_000);
    assert!(rig.passes(call()) && rig.passes(call()) && !rig.passes(call()));
    rig.run_after(100_000);
    assert!(succeeds(&mut rig, call()) && succeeds(&mut rig, call()));
    assert!(rig.passes(call()) && rig.passes(call()) && rig.passes(call()), "it is closed");
}

#[test]
fn calls_from_before_say_nothing_and_late_cancels_are_failures() {
    let mut rig = Rig::new(&CircuitBreaker, THREE);
    let old = rig.begin(call());
    rig.run();
    (0..3).for_each(|_| assert!(fails(&mut rig, call())));
    rig.end(old, None);
    assert!(!rig.passes(call()), "its success does not close the breaker");
    let mut rig = Rig::new(&CircuitBreaker, THREE);
    for is_late in [false, true] {
        for _ in 0..3 {
            let id = rig.begin(Call { deadline: rig.now().plus_nanos(5000), ..call() });
            rig.run();
            assert_eq!(rig.out().len(), 1, "{is_late}");
            rig.run_after(if is_late { 5 } else { 4 });
            rig.submit(id, ItemKind::Cancel, 0);
            rig.run();
            rig.out();
        }
    }
    assert!(!rig.passes(call()), "three have taken too long");
}

#[test]
fn a_ratio_of_failures_in_a_window_opens_it() {
    let mut rig = Rig::new(&CircuitBreaker, RATIO);
    (0..6).for_each(|_| assert!(succeeds(&mut rig, call())));
    (0..5).for_each(|_| assert!(fails(&mut rig, call())));
    assert!(succeeds(&mut rig, call()), "5 of 11");
    (0..2).for_each(|_| assert!(fails(&mut rig, call())));
    assert!(!rig.passes(call()), "7 of 14");
    let mut rig = Rig::new(&CircuitBreaker, RATIO);
    for _ in 0..10 {
        (0..9).for_each(|_| assert!(fails(&mut rig, call()), "too few to say anything"));
        rig.run_after(1_000_000);
    }
}

#[test]
fn it_is_open_after_an_upgrade_and_counts_calls_from_before() {
    let mut rig = opened(THREE);
    rig.upgrade(THREE);
    assert!(!rig.passes(call()));
    assert_eq!(rig.refused().len(), 1);
    rig.run_after(100_000);
    let probes = [rig.begin(call()), rig.begin(call())];
    rig.run();
    rig.upgrade(THREE);
    // What the probes say is lost with their count; others are admitted.
    probes.iter().for_each(|id| rig.end(*id, None));
    assert!(succeeds(&mut rig, call()) && succeeds(&mut rig, call()));
    let mut rig = Rig::new(&CircuitBreaker, THREE);
    (0..2).for_each(|_| assert!(fails(&mut rig, call())));
    let third = rig.begin(call());
    rig.run();
    rig.upgrade(THREE);
    rig.end(third, Some(Status::unavailable("down")));
    assert!(!rig.passes(call()), "two before and one after");
}

#[test]
fn engines_share_breakers() {
    let mut rig = opened(THREE);
    let mut other = Rig::with(&CircuitBreaker, Arc::clone(&rig.policy));
    assert!(!other.passes(call()) && !rig.passes(call()));
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let few = r#"{"consecutive_failures": 3, "open_ms": 100, "keys_max": 10}"#;
    let mut rig = Rig::new(&CircuitBreaker, few);
    for peer in 0..100_000 {
        fails(&mut rig, to_peer(peer));
    }
    assert_eq!(rig.report()["keys"], 10);
    rig.run_after(61_000_000);
    rig.run_after(1);
    // The first one shares with others, until the engine lets go of those that it has used.
    for _ in 0..4 {
        assert!(fails(&mut rig, to_peer(200_000)));
    }
    assert_eq!(rig.report()["not_closed"][0], "peer 200000", "old ones make room");
    let unseen = rig.datapath.begin(stream()).unwrap();
    rig.submit(unseen, ItemKind::Message, 1);
    rig.end(unseen, Some(Status::internal("x")));
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"breakers": [[{"peer": 2}, {"open_until_ns": 1000050000}],
        [{"peer": 3}, {"consecutive": 2}]], "refused": 6}"#;
    let mut rig = Rig::with(&CircuitBreaker, goes_on_from(&CircuitBreaker, THREE, version_1));
    assert!(!rig.passes(call()));
    assert!(fails(&mut rig, to_peer(3)) && !rig.passes(to_peer(3)), "the third failure");
    assert_eq!(rig.report()["refused"], 8);
    // Of another clock: it is open for as long as it may be.
    let far = r#"{"breakers": [[{"peer": 2}, {"open_until_ns": 18446744073709551615}]]}"#;
    let mut rig = Rig::with(&CircuitBreaker, goes_on_from(&CircuitBreaker, THREE, far));
    assert!(!rig.passes(call()));
    rig.run_after(100_000);
    assert!(rig.passes(call()));
    are_wrong(
        &CircuitBreaker,
        &[
            (r#"{"open_ms": 1}"#, "`consecutive_failures`, `ratio` or both must be there"),
            (r#"{"consecutive_failures": 1}"#, "missing field `open_ms`"),
            (
                r#"{"consecutive_failures": 0, "open_ms": 1}"#,
                "`consecutive_failures` must be from 1 to 1000000, and is 0",
            ),
            (
                r#"{"ratio": {"failures": 0, "window_ms": 1, "calls_min": 1}, "open_ms": 1}"#,
                "`ratio.failures` must be from 0.01 to 1, and is 0",
            ),
            (
                r#"{"consecutive_failures": 1, "open_ms": 1, "failures": ["DOWN"]}"#,
                "`DOWN` is not the name of a failure",
            ),
            (r#"{"consecutive_failures": 1, "open_ms": 1, "probes": 0}"#, "`probes` must be from"),
            (r#"{"consecutive_failures": 1, "open_s": 1}"#, "unknown field `open_s`"),
        ],
    );
}
