//! Inserted bugs: the judge finds each of them by the rule for it.

use petasos_sim_calls::{Sabotage, by_name, simulate_sabotaged};

/// The rules that the first five seeds of a scenario break with an inserted bug.
fn rules(scenario: &str, sabotage: Option<Sabotage>) -> Vec<Option<&'static str>> {
    let rule = |seed| {
        let scenario = by_name(scenario, seed).expect("the scenario exists");
        let ended = simulate_sabotaged(&scenario, seed, sabotage);
        ended.err().map(|failure| failure.rule)
    };
    (1..=5).map(rule).collect()
}

fn finds(scenario: &str, sabotage: Sabotage, rule: &'static str) {
    assert_eq!(rules(scenario, Some(sabotage)), vec![Some(rule); 5], "{sabotage:?}");
}

#[test]
fn without_a_bug_nothing_is_found() {
    assert_eq!(rules("calls", None), vec![None; 5]);
}

#[test]
fn calls_that_are_sent_again() {
    finds("calls", Sabotage::SendAgain, "handlers run as often as allowed");
}

#[test]
fn streams_that_begin_anew_behind_what_was_delivered() {
    let found = rules("streams-retried", Some(Sabotage::BeginAnew));
    let rules = ["what was delivered is not begun anew", "handlers run as often as allowed"];
    assert!(found.iter().all(|rule| rule.is_some_and(|rule| rules.contains(&rule))), "{found:?}");
    assert!(found.contains(&Some(rules[0])), "{found:?}");
}

#[test]
fn calls_that_are_said_not_to_have_run() {
    let found = rules("calls-crash", Some(Sabotage::ClaimNotRun));
    assert!(found.contains(&Some("what did not run did not run")), "{found:?}");
}

#[test]
fn messages_that_are_lost_repeated_or_altered() {
    finds("calls", Sabotage::LosePiece, "messages come once and in order");
    finds("calls", Sabotage::RepeatPiece, "messages come once and in order");
    finds("calls", Sabotage::AlterPiece, "messages keep their bytes");
}

#[test]
fn streams_that_end_too_early() {
    for rule in rules("calls", Some(Sabotage::EndEarly)) {
        let rule = rule.expect("it is found");
        assert!(
            ["answers are those of handlers", "a stream ends behind its last message"]
                .contains(&rule)
        );
    }
    finds("calls", Sabotage::EndForHandler, "a stream ends behind its last message");
}

#[test]
fn calls_that_end_twice_never_or_without_a_cause() {
    finds("calls", Sabotage::EndCancelled, "calls end once");
    finds("calls", Sabotage::NeverEnd, "calls end");
    finds("calls", Sabotage::FailWithoutCause, "failures have causes");
}

#[test]
fn calls_to_groups_that_run_twice_or_fail() {
    finds("groups", Sabotage::SendAgain, "handlers run as often as allowed");
    let found = rules("groups-crash-workers", Some(Sabotage::FailWithoutCause));
    let rule = "what may run again is answered while a router and a worker are there";
    assert!(found.contains(&Some(rule)), "{found:?}");
}

#[test]
fn what_is_left_behind() {
    finds("calls", Sabotage::KeepStreams, "nothing is left in the loop");
}
