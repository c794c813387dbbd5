//! The rule set while the daemon runs.

use petasos::Code;

use super::{Operator, attach};
use crate::support::Daemon;

#[test]
fn a_policy_applies_to_those_that_are_attached_and_those_that_come() {
    let daemon = Daemon::start("rules", Some(r#"[{"application": "*", "kind": "telemetry"}]"#));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    assert!(client.greet(target, "eve").is_ok());
    let deny = r#"{"default": "allow", "rules": [{"name": "no eve", "action": "deny",
        "methods": ["greet.Greeter/Greet"],
        "fields": [{"path": "name", "is": {"equals": "eve"}}]}]}"#;
    operator.change(&[&|mut step| {
        let mut add = step.add_policy_mut();
        add.set_application("*").set_kind("access").set_configuration(deny).set_index(0);
    }]);
    assert_eq!(client.greet(target, "eve"), Err(7), "permission denied");
    let mut late = daemon.attach("late");
    let target_of_late = late.target("greeter");
    assert_eq!(late.greet(target_of_late, "eve"), Err(7));
    let kinds = |application: &str| -> Vec<String> {
        operator.engines(application).into_iter().map(|(kind, _)| kind).collect()
    };
    assert_eq!(kinds("client"), ["access", "telemetry"]);
    assert_eq!(kinds("late"), kinds("client"));
    let id = operator.policies().policies()[0].id();
    assert_eq!(operator.policies().policies()[0].datapaths(), 3);
    let allow = r#"{"default": "allow"}"#;
    operator.change(&[&|mut step| {
        step.configure_policy_mut().set_id(id).set_configuration(allow);
    }]);
    assert!(client.greet(target, "eve").is_ok() && late.greet(target_of_late, "eve").is_ok());
    operator.change(&[&|mut step| {
        step.remove_policy_mut().set_id(id);
    }]);
    assert_eq!(kinds("late"), ["telemetry"]);
    assert!(client.greet(target, "stop").is_ok());
    assert_eq!(server.join().unwrap(), ["eve", "eve", "eve", "stop"]);
}

#[test]
fn a_corrupt_file_changes_nothing_and_a_right_one_is_applied() {
    let limit = |rate: u32| {
        format!(
            r#"{{"application": "*", "kind": "rate_limit",
                     "configuration": {{"rate_per_s": {rate}, "burst": 1}}}}"#
        )
    };
    let null = r#"{"application": "client", "kind": "null"}"#;
    let daemon = Daemon::start("reload", Some(&format!("[{}, {null}]", limit(50_000))));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&|step| attach(step, "client", "telemetry", "")]);
    let before = operator.everything();
    let reload = |mut step: petasos_admin::StepMut<'_>| {
        step.reload_mut();
    };
    for wrong in ["[", "", r#"[{"application": "*", "kind": "nul"}]"#, r#"{"a": 1}"#, "\u{0}"] {
        daemon.write_policies(wrong);
        let (code, why) = operator.fails(&[&reload]);
        assert_eq!(code, Code::FailedPrecondition, "{wrong}");
        assert!(why.starts_with("all stays as it is: ") && why.contains("policies.json"));
        assert_eq!(operator.everything(), before, "{wrong}");
        assert!(client.greet(target, "ann").is_ok());
    }
    std::fs::remove_file(daemon.folder().join("policies.json")).unwrap();
    assert_eq!(operator.fails(&[&reload]).0, Code::FailedPrecondition);
    daemon.write_policies(&format!(
        r#"[{null}, {{"application": "*", "kind": "access",
        "configuration": {{"default": "allow"}}}}, {}]"#,
        limit(40_000)
    ));
    operator.change(&[&reload]);
    let engines = operator.engines("client");
    let kinds: Vec<&str> = engines.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(kinds, ["null", "access", "rate_limit", "telemetry"], "an operator's own stays");
    assert!(engines[2].1.contains("40000"), "{engines:?}");
    let ids: Vec<u64> = operator.policies().policies().iter().map(|policy| policy.id()).collect();
    assert_eq!(ids, [2, 3, 1], "what was there keeps its number");
    assert_eq!(client.greet(target, "stop"), Ok("hello, stop".to_owned()));
    server.join().unwrap();
}

#[test]
fn without_a_file_there_is_nothing_to_reload() {
    let daemon = Daemon::start("nofile", None);
    let (code, why) = Operator::of(&daemon).fails(&[&|mut step| {
        step.reload_mut();
    }]);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(why.contains("without --config or --policies"), "{why}");
}

#[test]
fn the_rule_set_is_bounded() {
    let daemon = Daemon::start("bounded", None);
    let operator = Operator::of(&daemon);
    let add = |name: &'static str| {
        move |mut step: petasos_admin::StepMut<'_>| {
            step.add_policy_mut().set_application(name).set_kind("null");
        }
    };
    let long: &'static str = "x".repeat(257).leak();
    let why = operator.fails(&[&add(long)]);
    assert_eq!(why, (Code::InvalidArgument, "a name has at most 256 bytes".to_owned()));
    let shop = add("shop");
    operator.change(&vec![&shop as &dyn Fn(petasos_admin::StepMut<'_>); 256]);
    let why = operator.fails(&[&shop]);
    assert_eq!(why, (Code::ResourceExhausted, "a rule set has at most 256 policies".to_owned()));
    assert_eq!(operator.policies().policies().len(), 256);
}
