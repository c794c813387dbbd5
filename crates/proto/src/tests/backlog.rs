use super::pair::{Config, Pair};
use super::plan::{Outcome, Plan};
use petasos_wire::Kind;

#[test]
fn calls_beyond_the_slots_wait_in_order() {
    let mut pair = Pair::new(Config { slots: 2, ..Config::default() });
    for _ in 0..10 {
        pair.call(Plan::new(32, 32).after_us(10));
    }
    pair.run();
    let started: Vec<_> = pair.sent(Kind::Request).iter().map(|sent| sent.request).collect();
    assert_eq!(started, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let mut ends: Vec<_> = pair.outcomes.iter().map(|(method, (_, at))| (*at, *method)).collect();
    ends.sort();
    assert!(ends.iter().map(|(_, method)| *method).is_sorted());
    assert_eq!(pair.client.stats().calls_queued, 8);
}

#[test]
fn a_full_backlog_refuses_and_loses_no_other_call() {
    let mut pair = Pair::new(Config { slots: 2, backlog_max: 3, ..Config::default() });
    for _ in 0..7 {
        pair.call(Plan::new(32, 32).after_us(10));
    }
    pair.run();
    let refused = pair.outcomes.values().filter(|(outcome, _)| *outcome == Outcome::Refused);
    assert_eq!(refused.count(), 2);
    assert_eq!((pair.outcome(5), pair.outcome(6)), (Outcome::Refused, Outcome::Refused));
    assert_eq!(pair.client.stats().calls_completed, 5);
}

#[test]
fn a_slow_call_does_not_hold_up_the_others() {
    let mut pair = Pair::new(Config { slots: 2, ..Config::default() });
    let slow = pair.call(Plan::new(32, 32).after_us(1_000));
    let quick: Vec<_> = (0..9).map(|_| pair.call(Plan::new(32, 32))).collect();
    pair.run();
    let slow_at = pair.outcomes[&slow].1;
    assert!(quick.iter().all(|method| pair.outcomes[method].1 < slow_at), "out of order");
}

#[test]
fn sixty_four_slots_are_all_used() {
    let mut pair = Pair::new(Config { slots: 64, credits: 64, ..Config::default() });
    for _ in 0..65 {
        pair.call(Plan::new(32, 32).after_us(100));
    }
    pair.run_for_us(50);
    assert_eq!((pair.client.busy(), pair.client.backlog()), (64, 1));
    assert_eq!(pair.server.running(), 64);
    pair.run();
}
