use petasos_engine::*;

use super::support::*;
use crate::Faults;

const SLOW: &str = r#"{"rules": [{"methods": ["pkg.*"], "probability": 1, "delay_us": 100}]}"#;
const HALF: &str = r#"{"rules": [{"probability": 0.5, "delay_us": 100}]}"#;

fn calls(items: &[Finished]) -> Vec<CallId> {
    items.iter().map(|item| item.call).collect()
}

#[test]
fn a_delay_counts_from_the_arrival_and_survives_an_upgrade() {
    let mut rig = Rig::new(&Faults, SLOW);
    let delayed = rig.begin(call());
    let other = rig.begin(of_method(5));
    rig.run();
    assert_eq!(calls(&rig.out()), [other]);
    rig.run_after(60);
    rig.upgrade(SLOW);
    rig.run_after(39);
    assert!(rig.out().is_empty());
    rig.run_after(1);
    assert_eq!(calls(&rig.out()), [delayed], "100 us after it came");
    assert_eq!(rig.report()["delayed"], 1);
}

#[test]
fn the_choice_is_the_same_after_an_upgrade() {
    let mut rig = Rig::new(&Faults, HALF);
    let all: Vec<_> = (0..1000).map(|_| rig.begin(call())).collect();
    rig.run();
    let passed = calls(&rig.out());
    assert!((400..600).contains(&passed.len()), "{}", passed.len());
    for _ in 0..5 {
        rig.upgrade(HALF);
        rig.run_after(1);
        assert!(rig.out().is_empty(), "what was delayed is delayed");
    }
    rig.run_after(100);
    let late = calls(&rig.out());
    assert_eq!(late.len() + passed.len(), 1000);
    assert!(late.is_sorted_by_key(|id| all.iter().position(|known| known == id)));
}

#[test]
fn calls_are_aborted_with_a_code_at_once_or_late() {
    let mut rig = Rig::new(
        &Faults,
        r#"{"rules": [
            {"methods": ["pkg.Service/Method"], "probability": 1,
             "abort": {"code": "DATA_LOSS", "message": "as configured"}},
            {"probability": 1, "delay_us": 50, "abort": {"code": "UNAVAILABLE"}}]}"#,
    );
    rig.begin(call());
    rig.begin(of_method(4));
    rig.run();
    assert_eq!(rig.refused(), [(Code::DataLoss, "as configured".to_owned())]);
    rig.run_after(50);
    assert_eq!(rig.refused(), [(Code::Unavailable, String::new())]);
    assert_eq!(rig.report()["aborted"], 2);
}

#[test]
fn what_follows_a_delayed_request_waits_and_a_cancel_does_not() {
    let mut rig = Rig::new(&Faults, SLOW);
    let (id, given_up) = (rig.begin(stream()), rig.begin(call()));
    rig.submit(id, ItemKind::Message, 1);
    rig.submit(id, ItemKind::Close, 0);
    rig.submit(given_up, ItemKind::Cancel, 0);
    rig.run_after(99);
    assert!(rig.out().is_empty());
    rig.run_after(1);
    let kinds: Vec<_> = rig.out().iter().map(|item| (item.call, item.kind)).collect();
    let all = [ItemKind::Request, ItemKind::Message, ItemKind::Close].map(|kind| (id, kind));
    assert_eq!(kinds, all);
    rig.submit(id, ItemKind::Message, 1);
    rig.run();
    assert_eq!(rig.out().len(), 1, "a request that has gone holds nothing up");
    assert_eq!(rig.report()["delayed"], 1);
}

#[test]
fn what_comes_when_a_delay_is_over_does_not_overtake_what_was_delayed() {
    let mut rig = Rig::new(&Faults, SLOW);
    let id = rig.begin(stream());
    rig.run_after(0);
    rig.submit(id, ItemKind::Message, 1);
    rig.run_after(100);
    let kinds: Vec<_> = rig.out().iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [ItemKind::Request, ItemKind::Message]);
}

#[test]
fn a_bounded_number_is_held_and_given_back_in_order() {
    let bounded = r#"{"rules": [{"probability": 1, "delay_us": 100}], "held_max": 3}"#;
    let mut rig = Rig::new(&Faults, bounded);
    let all: Vec<_> = (0..5).map(|_| rig.begin(call())).collect();
    rig.run();
    assert_eq!(calls(&rig.out()), all[3..]);
    assert_eq!(calls(&rig.detach().1), all[..3]);
}

#[test]
fn states_and_configurations() {
    let policy = goes_on_from(&Faults, SLOW, r#"{"delayed": 3, "aborted": 4}"#);
    assert_eq!(policy.report()["aborted"], 4);
    are_wrong(
        &Faults,
        &[
            (r#"{"rules": []}"#, "`rules` must have 1 to 64 entries, and has 0"),
            (r#"{"rules": [{"probability": 1}]}"#, "must have `delay_us`, `abort` or both"),
            (
                r#"{"rules": [{"probability": 1.5, "delay_us": 1}]}"#,
                "`rules.probability` must be from 0 to 1, and is 1.5",
            ),
            (
                r#"{"rules": [{"probability": 1, "delay_us": 0}]}"#,
                "`rules.delay_us` must be from 1",
            ),
            (r#"{"rules": [{"probability": 1, "abort": {"code": "OK"}}]}"#, "name of a failure"),
            (r#"{"rules": [{"probability": 1, "delay_ms": 1}]}"#, "unknown field `delay_ms`"),
        ],
    );
}
