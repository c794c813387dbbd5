//! Whole groups under faults, from fixed seeds.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use petasos_sim_groups::{Scenario, Verdict, simulate};

/// What became of the calls of several runs together.
fn all(scenario: &Scenario, seeds: core::ops::Range<u64>) -> Verdict {
    let mut all = Verdict::default();
    for seed in seeds {
        let one = simulate(scenario, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
        all.answered += one.answered;
        all.failed += one.failed;
        all.not_run += one.not_run;
        all.abandoned += one.abandoned;
        all.repeated += one.repeated;
    }
    all
}

/// Of calls, three in a hundred are declined by their handlers, and some have short timeouts.
fn assert_answered(verdict: &Verdict) {
    let all = verdict.answered + verdict.failed + verdict.not_run;
    assert!(all > 1000 && verdict.answered > all * 95 / 100, "{verdict:?}");
    assert!(verdict.not_run < all / 100 && verdict.abandoned == 0, "{verdict:?}");
}

#[test]
fn without_faults_calls_are_answered_and_hardly_any_is_repeated() {
    let verdict = all(&Scenario::CALM, 0..5);
    assert_answered(&verdict);
    // What waits for the primary may wait for longer than answers take as a rule (RT13).
    assert!(verdict.repeated < 10, "{verdict:?}");
}

#[test]
fn rt15_rt25_packets_that_are_lost_copied_and_late_repeat_no_claim() {
    let verdict = all(&Scenario::LOSSY, 0..12);
    assert!(verdict.answered > 5000 && verdict.repeated > 0, "{verdict:?}");
}

#[test]
fn rt15_crashes_of_any_party_repeat_no_claim() {
    let verdict = all(&Scenario::CRASHES, 0..12);
    assert!(verdict.answered > 1000 && verdict.abandoned > 0, "{verdict:?}");
    assert!(verdict.failed > 0 && verdict.not_run > 0, "{verdict:?}");
}

#[test]
fn rt35_rt38_workers_that_drain_and_routers_that_change_lose_nothing() {
    assert_answered(&all(&Scenario::ROLLING, 0..5));
}

#[test]
fn rt24_what_is_too_much_is_refused_and_has_not_run() {
    let verdict = all(&Scenario::OVERLOAD, 0..5);
    assert!(verdict.answered > 100 && verdict.not_run > 100, "{verdict:?}");
}

/// Somebody on the path knows names and secret bits. Counts are wrong for a while, and then right
/// again; at most once holds (RT15).
#[test]
fn rt15_rt22_forged_feedback_and_probes_repeat_no_claim_and_leave_no_slot_taken() {
    let verdict = all(&Scenario::FORGED, 0..8);
    assert!(verdict.answered > 4000 && verdict.abandoned == 0, "{verdict:?}");
}

/// RT17: each claim that lapses makes the next one lapse sooner.
#[test]
fn rt17_a_client_that_only_claims_leaves_others_more_than_half() {
    let alone = all(&Scenario { claims_per_s: 0.0, ..Scenario::CLAIMS }, 0..4);
    let beside = all(&Scenario::CLAIMS, 0..4);
    assert!(beside.answered > alone.answered / 2, "{beside:?} and {alone:?}");
}
