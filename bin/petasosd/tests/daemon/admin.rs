//! Operators, and others at their socket.

mod budgets;
mod hostile;
mod metrics;
mod operator;
mod overview;
mod policies;
mod stats;
mod transport;
mod undo;

use petasos::{Code, Msg};
use petasos_admin::{ChangeRequest, StepMut};

use crate::load::{LAST, Load};
use crate::support::Daemon;
pub use operator::Operator;

const RATE_LIMIT: &str = r#"{"rate_per_s": 20000, "burst": 4}"#;

/// A step that attaches an engine.
fn attach(mut step: StepMut<'_>, application: &str, kind: &str, configuration: &str) {
    let mut attach = step.attach_engine_mut();
    attach.set_application(application).set_kind(kind).set_configuration(configuration);
}

/// A plan of these steps.
pub fn plan(steps: &[&dyn Fn(StepMut<'_>)]) -> Msg<ChangeRequest> {
    let mut request = ChangeRequest::new();
    let mut edit = request.edit();
    let mut list = edit.steps_mut();
    steps.iter().for_each(|step| step(list.add()));
    request
}

#[test]
fn engines_change_while_calls_run_and_no_call_is_lost_or_repeated() {
    let daemon = Daemon::start("changes", None);
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", LAST);
    let load = Load::begin(daemon.attach("client"), "greeter");
    for round in 0..20 {
        for application in ["client", "server"] {
            let other = format!(r#"{{"rate_per_s": {}, "burst": 2}}"#, 10_000 + round);
            let at = |mut at: petasos_admin::EngineAtMut<'_>| {
                at.set_application(application).set_kind("rate_limit");
            };
            operator.change(&[&|step| attach(step, application, "rate_limit", RATE_LIMIT)]);
            operator.change(&[&|step| attach(step, application, "telemetry", "{}")]);
            operator.change(&[&|mut step| {
                let mut change = step.move_engine_mut();
                change.set_to(1);
                at(change.engine_mut());
            }]);
            operator.change(&[&|mut step| {
                let mut change = step.configure_engine_mut();
                change.set_configuration(&other);
                at(change.engine_mut());
            }]);
            let engines = operator.engines(application);
            assert_eq!(engines.len(), 2);
            assert_eq!(engines[0].0, "telemetry");
            assert!(engines[1].1.contains(&(10_000 + round).to_string()), "{engines:?}");
            operator.change(&[&|mut step| at(step.upgrade_engine_mut().engine_mut())]);
            operator.fails(&[
                &|mut step| at(step.detach_engine_mut().engine_mut()),
                &|step| attach(step, application, "access", r#"{"default": "deny"}"#),
                &|step| attach(step, application, "no such kind", ""),
            ]);
            operator.change(&[
                &|mut step| at(step.detach_engine_mut().engine_mut()),
                &|mut step| {
                    let mut change = step.detach_engine_mut();
                    change.engine_mut().set_application(application).set_place(0);
                },
            ]);
            assert_eq!(operator.engines(application), []);
        }
    }
    load.end(server);
}

#[test]
fn a_plan_that_fails_in_a_later_step_leaves_all_as_it_was() {
    let policies = r#"[{"application": "*", "kind": "telemetry"},
                       {"application": "client", "kind": "null"}]"#;
    let daemon = Daemon::start("plan", Some(policies));
    let operator = Operator::of(&daemon);
    let _client = daemon.attach("client");
    operator.change(&[&|step| attach(step, "client", "rate_limit", RATE_LIMIT)]);
    let before = operator.everything();
    let (code, why) = operator
        .fails(&[&|step| attach(step, "client", "access", r#"{"default": "allow"}"#), &|step| {
            attach(step, "client", "rate_limit", r#"{"rate_per_s": "many"}"#)
        }]);
    assert_eq!(code, Code::InvalidArgument);
    assert!(why.starts_with("step 2 of 2: the configuration of `rate_limit` is wrong"), "{why}");
    assert!(why.ends_with("the steps before it were undone"), "{why}");
    assert_eq!(operator.everything(), before);
    // One step of each kind, and then one that fails.
    let at = |mut at: petasos_admin::EngineAtMut<'_>, kind: &str| {
        at.set_application("client").set_kind(kind);
    };
    let (code, why) = operator.fails(&[
        &|mut step| at(step.detach_engine_mut().engine_mut(), "telemetry"),
        &|mut step| {
            let mut change = step.move_engine_mut();
            change.set_to(0);
            at(change.engine_mut(), "rate_limit");
        },
        &|mut step| {
            let mut change = step.configure_engine_mut();
            change.set_configuration(r#"{"rate_per_s": 7}"#);
            at(change.engine_mut(), "rate_limit");
        },
        &|mut step| at(step.upgrade_engine_mut().engine_mut(), "null"),
        &|mut step| {
            let mut change = step.add_policy_mut();
            change.set_application("*").set_kind("faults").set_index(0);
            change.set_configuration(r#"{"rules": [{"probability": 0.5, "delay_us": 5}]}"#);
        },
        &|mut step| {
            step.remove_policy_mut().set_id(2);
        },
        &|mut step| {
            step.set_quota_mut().quota_mut().set_items_max(7);
        },
        &|mut step| {
            step.remove_policy_mut().set_id(99);
        },
    ]);
    assert_eq!(code, Code::NotFound, "{why}");
    assert!(why.starts_with("step 8 of 8: there is no policy 99"), "{why}");
    assert_eq!(operator.everything(), before);
}

#[test]
fn an_operator_who_errs_is_told_what_there_is() {
    let daemon = Daemon::start("errs", None);
    let operator = Operator::of(&daemon);
    let why = operator.fails(&[&|step| attach(step, "shop", "null", "")]);
    let expected = "no application `shop` is attached; there are none";
    assert_eq!(why, (Code::NotFound, expected.to_owned()));
    let (_one, _two) = (daemon.attach("twin"), daemon.attach("twin"));
    let (code, why) = operator.fails(&[&|step| attach(step, "twin", "null", "")]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.ends_with("say which by its number: `twin` (0), `twin` (1)"), "{why}");
    operator.change(&[&|step| attach(step, "1", "null", "")]);
    let (code, why) = operator.fails(&[&|step| attach(step, "1", "nul", "")]);
    assert_eq!(code, Code::InvalidArgument);
    assert!(why.starts_with("there is no kind `nul`; there are access, "), "{why}");
    let why = operator.fails(&[&|mut step| {
        step.detach_engine_mut().engine_mut().set_application("1").set_place(3);
    }]);
    let expected = "there is no such engine: `twin` (1) has 0 null";
    assert_eq!(why, (Code::NotFound, expected.to_owned()));
    let why = operator.fails(&[&|mut step| {
        let mut change = step.detach_engine_mut();
        change.engine_mut().set_application("1").set_place(0).set_kind("access");
    }]);
    assert_eq!(why.0, Code::NotFound, "the kind has to be right");
    assert_eq!(
        operator
            .fails(&[&|mut step| {
                step.attach_engine_mut();
            }])
            .0,
        Code::NotFound
    );
    assert_eq!(operator.fails(&[&|_| {}]).0, Code::InvalidArgument, "a step that says nothing");
    assert_eq!(operator.fails(&[]).0, Code::InvalidArgument);
    let many: Vec<&dyn Fn(StepMut<'_>)> = vec![&|_| {}; petasos_admin::STEPS_MAX + 1];
    assert_eq!(
        operator.fails(&many),
        (Code::InvalidArgument, "a change has at most 256 steps".into())
    );
}

#[test]
fn a_quota_holds_for_applications_that_attach_later() {
    let daemon = Daemon::start("quotas", None);
    let operator = Operator::of(&daemon);
    let _before = daemon.attach("shop");
    operator.change(&[&|mut step| {
        let mut change = step.set_quota_mut();
        change.quota_mut().set_application("shop").set_message_bytes_max(2048);
    }]);
    let (code, why) = operator.fails(&[&|mut step| {
        step.set_quota_mut().quota_mut().set_items_max(0);
    }]);
    assert_eq!((code, &why[..14]), (Code::InvalidArgument, "items_max is 1"));
    let server = daemon.serve("server", 2);
    let mut after = daemon.attach("shop");
    let target = after.target("greeter");
    assert!(after.greet(target, "ann").is_ok());
    assert_eq!(after.greet(target, &"x".repeat(4000)), Err(8), "resource exhausted");
    let mut other = daemon.attach("other");
    let target = other.target("greeter");
    assert!(other.greet(target, &"x".repeat(4000)).is_ok());
    server.join().unwrap();
    let mut limits = operator.message_limits();
    // The server has left, or is about to.
    limits.retain(|(number, _)| *number != 1);
    assert_eq!(limits, [(0, 16 << 20), (2, 2048), (3, 16 << 20)]);
}
