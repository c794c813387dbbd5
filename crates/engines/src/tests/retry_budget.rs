use std::sync::Arc;

use petasos_engine::*;

use super::support::*;
use crate::RetryBudget;

const FIFTH: &str = r#"{"ratio": 0.2, "saved_max": 3}"#;

fn retry(peer: u32) -> Call {
    Call { attempt: 1, ..to_peer(peer) }
}

fn retries(rig: &mut Rig, peer: u32) -> usize {
    let passed = (0..20).filter(|_| rig.passes(retry(peer))).count();
    rig.back();
    passed
}

#[test]
fn retries_pass_in_proportion_to_first_attempts() {
    let mut rig = Rig::new(&RetryBudget, FIFTH);
    assert_eq!(retries(&mut rig, 2), 0);
    assert!((0..11).all(|_| rig.passes(call())));
    assert_eq!(retries(&mut rig, 2), 2);
    assert!((0..4).all(|_| rig.passes(call())));
    assert_eq!(retries(&mut rig, 2), 1, "parts are kept");
    assert!((0..1000).all(|_| rig.passes(call())));
    assert_eq!(retries(&mut rig, 2), 3, "no more are saved");
    assert_eq!(rig.report()["retried"], 6);
}

#[test]
fn a_refusal_asks_for_no_further_attempt() {
    let mut rig = Rig::new(&RetryBudget, FIFTH);
    rig.begin(Call { attempt: 3, ..call() });
    rig.run();
    let end = rig.back().pop().expect("the caller is told");
    let status = end.status.expect("it failed");
    assert_eq!((status.code(), end.has_not_run), (Code::Unavailable, true));
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms"), Some("-1"));
}

#[test]
fn a_few_pass_anyway() {
    let mut rig = Rig::new(&RetryBudget, r#"{"ratio": 0, "min_per_s": 5, "by": "peer"}"#);
    assert_eq!(retries(&mut rig, 2), 5);
    assert_eq!(retries(&mut rig, 3), 5, "of each peer");
    rig.run_after(400_000);
    assert_eq!(retries(&mut rig, 2), 2);
}

#[test]
fn engines_share_budgets_and_upgrades_keep_them() {
    let mut rig = Rig::new(&RetryBudget, FIFTH);
    let mut other = Rig::with(&RetryBudget, Arc::clone(&rig.policy));
    assert!((0..15).all(|_| rig.passes(call())));
    assert!(other.passes(retry(2)));
    rig.upgrade(FIFTH);
    assert_eq!(retries(&mut rig, 2), 2, "one of three is spent");
    let mut rig = Rig::new(&RetryBudget, r#"{"ratio": 0, "min_per_s": 5}"#);
    assert_eq!(retries(&mut rig, 2), 5);
    rig.upgrade(r#"{"ratio": 0, "min_per_s": 5}"#);
    assert_eq!(retries(&mut rig, 2), 0, "the bucket is not filled");
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let few = r#"{"ratio": 1, "by": "peer", "keys_max": 10}"#;
    let mut rig = Rig::new(&RetryBudget, few);
    assert!((0..90_000).all(|peer| rig.passes(to_peer(peer))));
    assert_eq!(rig.report()["keys"], 10);
    let id = rig.datapath.begin(stream()).unwrap();
    rig.submit(id, ItemKind::Message, 1);
    rig.end(id, None);
}

#[test]
fn states_and_configurations() {
    let version_1 = r#"{"budgets": [[{}, {"saved": 2000, "full_at_ns": 5}]], "refused": 4}"#;
    let mut rig = Rig::with(&RetryBudget, goes_on_from(&RetryBudget, FIFTH, version_1));
    assert_eq!(retries(&mut rig, 2), 2);
    assert_eq!(rig.report()["refused"], 22);
    are_wrong(
        &RetryBudget,
        &[
            ("{}", "missing field `ratio`"),
            (r#"{"ratio": -1}"#, "`ratio` must be from 0 to 10, and is -1"),
            (r#"{"ratio": 1, "saved_max": 0}"#, "`saved_max` must be from 1 to 1000000, and is 0"),
            (r#"{"ratio": 1, "min_per_s": 1000001}"#, "`min_per_s` must be from 0 to 1000000"),
            (r#"{"ratio": 1, "ttl_ms": 1}"#, "unknown field `ttl_ms`"),
        ],
    );
}
