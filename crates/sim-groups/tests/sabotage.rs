//! Inserted bugs: the judge finds each of them by the rule for it.

use petasos_sim_groups::{Sabotage, Scenario, simulate_sabotaged};

/// The rules that the first seeds of a scenario break with an inserted bug.
fn rules(scenario: &Scenario, sabotage: Option<Sabotage>) -> Vec<Option<&'static str>> {
    let rule = |seed| simulate_sabotaged(scenario, seed, sabotage).err().map(|wrong| wrong.rule);
    (1..=3).map(rule).collect()
}

fn finds(scenario: &Scenario, sabotage: Sabotage, rule: &'static str) {
    assert_eq!(rules(scenario, Some(sabotage)), [Some(rule); 3], "{sabotage:?}");
}

#[test]
fn without_a_bug_nothing_is_found() {
    assert_eq!(rules(&Scenario::LOSSY, None), [None; 3]);
}

#[test]
fn claims_that_run_twice() {
    finds(&Scenario::CALM, Sabotage::RunAgain, "claims run once at most");
}

#[test]
fn calls_that_are_said_not_to_have_run() {
    let found = rules(&Scenario::CRASHES, Some(Sabotage::ClaimNotRun));
    assert_eq!(found, [Some("what is said not to have run has not"); 3]);
}

#[test]
fn messages_that_are_altered() {
    finds(&Scenario::CALM, Sabotage::AlterRequest, "messages keep their bytes");
    finds(&Scenario::CALM, Sabotage::AlterResponse, "messages keep their bytes");
}

#[test]
fn answers_that_no_worker_has_given() {
    finds(&Scenario::CALM, Sabotage::AnswerUnasked, "answers are those of handlers");
}

#[test]
fn calls_that_end_twice_or_never() {
    finds(&Scenario::CALM, Sabotage::EndAgain, "calls end once");
    finds(&Scenario::CALM, Sabotage::NeverEnd, "calls end");
}

#[test]
fn what_is_left_behind() {
    finds(&Scenario::CALM, Sabotage::KeepRequests, "nothing is left");
}
