use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::RateLimit;

const REFUSING: &str = r#"{"rate_per_s": 1000, "burst": 5, "waiting_max": 0}"#;
const HOLDING: &str = r#"{"rate_per_s": 1000, "burst": 5, "waiting_max": 10}"#;

fn calls(items: &[Finished]) -> Vec<CallId> {
    items.iter().map(|item| item.call).collect()
}

#[test]
fn what_exceeds_the_rate_is_refused_at_once() {
    let mut rig = Rig::new(&RateLimit, REFUSING);
    for _ in 0..20 {
        rig.begin(call());
    }
    rig.run();
    assert_eq!(rig.out().len(), 5);
    let refused = rig.refused();
    assert_eq!(refused.len(), 15);
    assert!(refused.iter().all(|(code, _)| *code == Code::ResourceExhausted));
    rig.run_after(2000);
    assert!(rig.passes(call()) && rig.passes(call()) && !rig.passes(call()));
    assert_eq!(rig.report()["passed"], 7);
    assert_eq!(rig.report()["refused"], 16);
}

#[test]
fn what_exceeds_the_rate_waits_in_order() {
    let mut rig = Rig::new(&RateLimit, HOLDING);
    let all: Vec<_> = (0..20).map(|_| rig.begin(call())).collect();
    let turn = rig.run();
    let mut passed = calls(&rig.out());
    assert_eq!((passed.len(), rig.refused().len()), (5, 5), "and 10 wait");
    assert_eq!(turn.wake_at, rig.now().plus_nanos(1_000_000));
    for _ in 0..9 {
        rig.run_after(1000);
        passed.extend(calls(&rig.out()));
    }
    let late = rig.begin(call());
    rig.run_after(1000);
    rig.run_after(1000);
    passed.extend(calls(&rig.out()));
    assert_eq!(passed, [&all[..15], &[late]].concat());
}

#[test]
fn messages_wait_behind_the_request_of_their_stream() {
    let mut rig = Rig::new(&RateLimit, r#"{"rate_per_s": 1000}"#);
    assert!(rig.passes(call()));
    let id = rig.begin(stream());
    rig.submit(id, ItemKind::Message, 1);
    rig.submit(id, ItemKind::Close, 0);
    rig.run();
    assert!(rig.out().is_empty());
    rig.run_after(1000);
    let kinds: Vec<_> = rig.out().iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [ItemKind::Request, ItemKind::Message, ItemKind::Close]);
}

#[test]
fn a_call_that_is_given_up_costs_no_token_and_makes_room() {
    let mut rig = Rig::new(&RateLimit, r#"{"rate_per_s": 1000, "waiting_max": 2}"#);
    assert!(rig.passes(call()));
    let given_up = [rig.begin(call()), rig.begin(call())];
    rig.run();
    given_up.iter().for_each(|id| rig.submit(*id, ItemKind::Cancel, 0));
    let third = rig.begin(call());
    rig.run_after(1);
    assert!(rig.back().is_empty(), "the third one waits");
    rig.run_after(1000);
    assert_eq!(calls(&rig.out()), [third]);
    assert_eq!(rig.report()["passed"], 2);
}

#[test]
fn keys_and_engines() {
    let by_peer = r#"{"rate_per_s": 1, "burst": 1, "by": "peer", "waiting_max": 0}"#;
    let mut rig = Rig::new(&RateLimit, by_peer);
    let mut other = Rig::with(&RateLimit, Arc::clone(&rig.policy));
    assert!(rig.passes(to_peer(1)) && rig.passes(to_peer(2)));
    assert!(!other.passes(to_peer(1)), "buckets are shared by engines");
    assert!(other.passes(to_peer(3)));
    // Those that find no room share one bucket.
    let crowded = r#"{"rate_per_s": 1, "by": "peer", "waiting_max": 0, "keys_max": 2}"#;
    let mut rig = Rig::new(&RateLimit, crowded);
    assert_eq!((0..100).filter(|peer| rig.passes(to_peer(*peer))).count(), 3);
    assert_eq!(rig.report()["keys"], 2);
    rig.run_after(1_000_000);
    rig.run_after(1);
    assert!(rig.passes(to_peer(200)), "idle buckets make room");
}

#[test]
fn without_a_limit_everything_passes() {
    let mut rig = Rig::new(&RateLimit, r#"{"rate_per_s": "unlimited"}"#);
    assert!((0..1000).all(|_| rig.passes(call())));
}

#[test]
fn an_upgrade_does_not_fill_buckets_and_keeps_what_waits() {
    let mut rig = Rig::new(&RateLimit, HOLDING);
    let all: Vec<_> = (0..8).map(|_| rig.begin(call())).collect();
    rig.run();
    assert_eq!(calls(&rig.out()), all[..5]);
    rig.upgrade(HOLDING);
    assert!(rig.out().is_empty(), "no token has come");
    rig.run_after(1000);
    assert_eq!(calls(&rig.out()), all[5..6]);
    assert_eq!(rig.report()["passed"], 6);
    rig.upgrade(r#"{"rate_per_s": "unlimited"}"#);
    assert_eq!(calls(&rig.out()), all[6..]);
}

#[test]
fn what_waits_is_given_back_in_order() {
    let by_peer = r#"{"rate_per_s": 1, "by": "peer"}"#;
    let mut rig = Rig::new(&RateLimit, by_peer);
    (0..3).for_each(|peer| assert!(rig.passes(to_peer(peer))));
    let all: Vec<_> = (0..30).map(|n| rig.begin(to_peer(n % 3))).collect();
    rig.run();
    assert_eq!(rig.datapath.counts().held, 30);
    let (state, items) = rig.detach();
    assert_eq!((state, calls(&items)), (None, all));
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"buckets": [[{"peer": 2}, 3000000000]], "rest": 0, "passed": 9}"#;
    let by_peer = r#"{"rate_per_s": 1, "burst": 2, "by": "peer", "waiting_max": 0}"#;
    let policy = goes_on_from(&RateLimit, by_peer, version_1);
    let mut rig = Rig::with(&RateLimit, policy);
    assert_eq!(rig.report()["passed"], 9);
    assert!(!rig.passes(call()), "the bucket is empty until 2 s");
    assert!(rig.passes(to_peer(3)));
    are_wrong(
        &RateLimit,
        &[
            ("{}", "missing field `rate_per_s`"),
            (r#"{"rate_per_s": 0}"#, "`rate_per_s` must be from 1 to 100000000, and is 0"),
            (r#"{"rate_per_s": 1, "burst": "x"}"#, "`burst`: invalid type: string \"x\", expected"),
            (r#"{"rate_per_s": 1, "keys_max": -1}"#, "`keys_max`: invalid value: integer `-1`"),
            (
                r#"{"rate_per_s": "fast"}"#,
                "`rate_per_s`: a limit must be a whole number or \"unlimited\"",
            ),
            (r#"{"rate_per_s": 1, "burst": 0}"#, "`burst` must be from 1 to"),
            (r#"{"rate_per_s": 1, "keys_max": 0}"#, "`keys_max` must be from 1"),
            (r#"{"rate_per_s": 1, "waiting_max": 65537}"#, "`waiting_max` must be from 0"),
            (r#"{"rate_per_s": 1, "by": "colour"}"#, "unknown variant `colour`"),
            (r#"{"rate_per_s": 1, "rate": 2}"#, "unknown field `rate`"),
        ],
    );
}
