//! `qos` with the scope `runtime`: one order for the applications of a runtime.

use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::Qos;

/// Two large requests may be without an answer.
const WINDOW: &str = r#"{"order": {"small_first": {"threshold_bytes": 100}},
    "scope": "runtime", "in_flight_bytes_max": 2000, "hold_max_us": 100000}"#;
/// A byte for each microsecond.
const DEADLINES: &str = r#"{"order": "earliest_deadline", "scope": "runtime",
    "bytes_per_s": 1000000, "burst_bytes": 10, "hold_max_us": 100000}"#;

/// Applications of one runtime with the same policy.
fn applications<const N: usize>(configuration: &str) -> [Rig; N] {
    let first = Rig::new(&Qos, configuration);
    let policy = Arc::clone(&first.policy);
    let mut first = Some(first);
    std::array::from_fn(|_| first.take().unwrap_or_else(|| Rig::with(&Qos, Arc::clone(&policy))))
}

fn request(rig: &mut Rig, deadline: u64, bytes: u32) -> CallId {
    let call = Call { deadline: Time::from_nanos(deadline), ..call() };
    let id = rig.datapath.begin(call).expect("there is room");
    rig.submit(id, ItemKind::Request, bytes);
    id
}

fn large(rig: &mut Rig) -> CallId {
    request(rig, u64::MAX, 1000)
}

/// What leaves each application within so many steps of `us`, in order.
fn leave<const N: usize>(rigs: &mut [Rig; N], steps: u32, us: u64) -> Vec<(usize, CallId)> {
    let mut left = Vec::new();
    for _ in 0..steps {
        for (number, rig) in rigs.iter_mut().enumerate() {
            rig.run_after(us);
            left.extend(rig.out().iter().map(|item| (number, item.call)));
        }
    }
    left
}

#[test]
fn what_is_in_flight_counts_for_all_and_who_waited_longest_is_next() {
    let mut rigs = applications::<3>(WINDOW);
    let first = [large(&mut rigs[0]), large(&mut rigs[0])];
    assert_eq!(leave(&mut rigs, 1, 20), first.map(|call| (0, call)));
    let second = large(&mut rigs[1]);
    assert_eq!(leave(&mut rigs, 1, 20), [], "it has none under way, but another has two");
    let third = [large(&mut rigs[0]), large(&mut rigs[2])];
    assert_eq!(leave(&mut rigs, 3, 20), []);
    let small = request(&mut rigs[2], u64::MAX, 100);
    assert_eq!(leave(&mut rigs, 1, 20), [(2, small)], "small ones do not wait");
    // The application that is looked at first has room, and its request came later.
    rigs[0].end(first[0], None);
    assert_eq!(leave(&mut rigs, 2, 20), [(1, second)]);
    rigs[0].end(first[1], None);
    assert_eq!(leave(&mut rigs, 2, 20), [(0, third[0])]);
    rigs[1].end(second, None);
    assert_eq!(leave(&mut rigs, 2, 20), [(2, third[1])]);
    assert_eq!(rigs[0].report()["passed_late"], 0);
}

#[test]
fn the_earliest_deadline_of_all_goes_first_and_nobody_has_a_part_of_the_rate() {
    let mut rigs = applications::<2>(DEADLINES);
    // Each takes ten microseconds; what the bucket has goes to the first.
    let deadlines = [[50, 10, 40], [30, 60, 20]];
    let mut calls = Vec::new();
    for (number, deadlines) in deadlines.into_iter().enumerate() {
        for deadline in deadlines {
            calls.push((deadline, number, request(&mut rigs[number], deadline, 10)));
        }
    }
    let early = leave(&mut rigs, 1, 0);
    assert_eq!(early, [(0, calls[1].2)], "the other application has not been looked at");
    calls.remove(1);
    calls.sort_unstable_by_key(|(deadline, ..)| *deadline);
    let expected: Vec<_> = calls.iter().map(|(_, number, call)| (*number, *call)).collect();
    assert_eq!(leave(&mut rigs, 49, 1), expected[..4]);
    assert_eq!(leave(&mut rigs, 12, 1), expected[4..], "the whole rate is for who is alone");
}

#[test]
fn runtimes_are_apart_and_an_application_moves_with_what_it_has_under_way() {
    let mut rigs = applications::<2>(WINDOW);
    rigs[1].datapath.set_runtime(Runtime(7));
    let first = [large(&mut rigs[0]), large(&mut rigs[0])];
    let second = large(&mut rigs[1]);
    assert_eq!(leave(&mut rigs, 1, 20), [(0, first[0]), (0, first[1]), (1, second)]);
    let waiting = [large(&mut rigs[0]), large(&mut rigs[1])];
    assert_eq!(leave(&mut rigs, 1, 20), [(1, waiting[1])]);
    // Its requests count where it is now, and no longer where it was.
    rigs[0].datapath.set_runtime(Runtime(7));
    assert_eq!(leave(&mut rigs, 1, 20), []);
    let third = large(&mut rigs[1]);
    rigs[1].end(second, None);
    rigs[0].end(first[0], None);
    assert_eq!(leave(&mut rigs, 3, 20), [], "two are under way there");
    rigs[0].end(first[1], None);
    assert_eq!(leave(&mut rigs, 2, 20), [(0, waiting[0])]);
    rigs[1].end(waiting[1], None);
    assert_eq!(leave(&mut rigs, 2, 20), [(1, third)]);
}

#[test]
fn who_goes_holds_nobody_up() {
    let mut rigs = applications::<3>(WINDOW);
    (0..2).for_each(|_| _ = large(&mut rigs[0]));
    leave(&mut rigs, 1, 20);
    large(&mut rigs[1]);
    leave(&mut rigs, 1, 20);
    let last = large(&mut rigs[2]);
    assert_eq!(leave(&mut rigs, 1, 20), []);
    let [busy, waiting, third] = rigs;
    // Applications that end take what they have posted, and what is under way, with them.
    drop(waiting);
    drop(busy);
    assert_eq!(leave(&mut [third], 2, 20), [(0, last)]);
}

#[test]
fn an_upgrade_gives_no_new_burst_and_knows_what_is_in_flight() {
    let mut rigs = applications::<1>(DEADLINES);
    let calls = [0, 1].map(|deadline| request(&mut rigs[0], deadline, 10));
    assert_eq!(leave(&mut rigs, 1, 0), [(0, calls[0])]);
    rigs[0].upgrade(DEADLINES);
    assert_eq!(leave(&mut rigs, 9, 1), []);
    assert_eq!(leave(&mut rigs, 1, 1), [(0, calls[1])]);

    let mut rigs = applications::<1>(WINDOW);
    let first = [large(&mut rigs[0]), large(&mut rigs[0]), large(&mut rigs[0])];
    assert_eq!(leave(&mut rigs, 1, 20).len(), 2);
    rigs[0].upgrade(WINDOW);
    assert_eq!(leave(&mut rigs, 1, 20), []);
    rigs[0].end(first[1], None);
    assert_eq!(leave(&mut rigs, 2, 20), [(0, first[2])]);
}

#[test]
fn who_waits_for_others_is_late_but_goes() {
    let mut rigs = applications::<2>(WINDOW);
    (0..2).for_each(|_| _ = large(&mut rigs[0]));
    leave(&mut rigs, 1, 20);
    let late = large(&mut rigs[1]);
    assert_eq!(leave(&mut rigs, 99, 1000), []);
    assert_eq!(leave(&mut rigs, 2, 1000), [(1, late)]);
    assert_eq!(rigs[0].report()["passed_late"], 1);
}
