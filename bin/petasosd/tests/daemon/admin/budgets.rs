//! Engines that take more of the processor than they may (E8, E9).

use std::time::Duration;

use petasos::Code;
use petasos_admin::StepMut;
use petasos_base::{SystemClock, Time};

use super::Operator;
use crate::support::{Client, Daemon};

/// So little that any engine takes more.
const LITTLE: f64 = 1e-9;

fn now() -> Time {
    SystemClock::default().now()
}

/// Sets the budget of the first policy.
fn set(operator: &Operator, percent: f64, over: &str) {
    let id = operator.policies().policies()[0].id();
    operator.change(&[&|mut step| {
        let mut set = step.set_budget_mut();
        set.set_id(id);
        set.budget_mut().set_percent(percent).set_over(over);
    }]);
}

/// Calls until an engine of the application stands so: `open` or `closed`, or is there.
fn call_until(operator: &Operator, client: &mut Client, target: u32, without: &str) {
    let begin = now();
    while operator.without("client") != [without] {
        let _ = client.greet(target, "ann");
        assert!(now() < begin + Duration::from_secs(60), "its place is not {without:?}");
    }
}

#[test]
fn e8_an_engine_over_its_budget_is_taken_out_if_its_rule_says_so_and_comes_back() {
    let rules = r#"[{"application": "client", "kind": "telemetry",
        "budget": {"percent": 100, "over": "closed"}}]"#;
    let daemon = Daemon::start("budgets", Some(rules));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    let until = now() + Duration::from_millis(1500);
    while now() < until {
        assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    }
    assert_eq!(operator.without("client"), [""], "it takes less than a processor");
    set(&operator, LITTLE, "open");
    call_until(&operator, &mut client, target, "open");
    assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()), "items pass");
    // Another budget brings it back, and then it is taken out by the other rule.
    set(&operator, LITTLE, "closed");
    call_until(&operator, &mut client, target, "closed");
    assert_eq!(client.greet(target, "eve"), Err(14), "unavailable");
    let kinds = operator.engines("client");
    assert_eq!(kinds[0].0, "telemetry", "operators see what is meant to be there");
    // One that is only reported goes on.
    set(&operator, LITTLE, "report");
    let until = now() + Duration::from_millis(4500);
    while now() < until {
        assert_eq!(client.greet(target, "ann"), Ok("hello, ann".to_owned()));
    }
    assert_eq!(operator.without("client"), [""]);
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    assert!(!server.join().unwrap().contains(&"eve".to_owned()), "what was refused has not run");
}

#[test]
fn e9_a_policy_that_is_configured_or_reloaded_is_there_again() {
    let rules = format!(
        r#"[{{"application": "client", "kind": "telemetry",
            "budget": {{"percent": {LITTLE}, "over": "closed"}}}}]"#
    );
    let daemon = Daemon::start("back", Some(&rules));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    let id = operator.policies().policies()[0].id();
    let ways: [&dyn Fn(StepMut<'_>); 3] = [
        &|mut step| {
            step.configure_policy_mut().set_id(id).set_configuration("{}");
        },
        &|mut step| {
            step.reload_mut();
        },
        &|mut step| {
            let mut upgrade = step.upgrade_engine_mut();
            upgrade.engine_mut().set_application("client").set_place(0);
        },
    ];
    for way in ways {
        call_until(&operator, &mut client, target, "closed");
        operator.change(&[way]);
        assert_eq!(operator.without("client"), [""]);
    }
    set(&operator, 100.0, "report");
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

#[test]
fn e9_an_engine_that_comes_back_has_the_configuration_that_it_had() {
    let rules = r#"[{"application": "client", "kind": "telemetry"}]"#;
    let daemon = Daemon::start("overridden", Some(rules));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&|mut step| {
        let mut change = step.configure_engine_mut();
        change.set_configuration(r#"{"by": "method"}"#);
        change.engine_mut().set_application("client").set_place(0);
    }]);
    let before = operator.engines("client");
    set(&operator, LITTLE, "open");
    call_until(&operator, &mut client, target, "open");
    set(&operator, 100.0, "report");
    assert_eq!(operator.without("client"), [""]);
    assert_eq!(operator.engines("client"), before);
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

#[test]
fn budgets_that_cannot_be_are_refused() {
    let daemon = Daemon::start("no-budget", Some(r#"[{"application": "*", "kind": "null"}]"#));
    let operator = Operator::of(&daemon);
    let before = operator.everything();
    let id = operator.policies().policies()[0].id();
    for (percent, over) in [(0.0, "open"), (101.0, "open"), (f64::NAN, "open"), (5.0, "shut")] {
        let (code, why) = operator.fails(&[&|mut step| {
            let mut set = step.set_budget_mut();
            set.set_id(id);
            set.budget_mut().set_percent(percent).set_over(over);
        }]);
        assert_eq!(code, Code::InvalidArgument, "{why}");
        let (code, _) = operator.fails(&[&|mut step| {
            let mut add = step.add_policy_mut();
            add.set_application("*").set_kind("null");
            add.budget_mut().set_percent(percent).set_over(over);
        }]);
        assert_eq!(code, Code::InvalidArgument);
    }
    assert_eq!(operator.everything(), before);
}
