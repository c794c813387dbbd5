//! What a dashboard is told.

use petasos::{Code, Msg, Request, Status, Streaming, block_on};
use petasos_admin::{Overview, WatchOverviewRequest};

use super::hostile::{NOBODY, SOCKET, VIEWER, child_of};
use super::operator::Operator;
use super::{RATE_LIMIT, attach};
use crate::support::Daemon;

fn watch(
    operator: &Operator,
    interval_ms: u32,
    audit_entries_max: u32,
) -> Result<Streaming<Overview>, Status> {
    let mut request = WatchOverviewRequest::new();
    request.edit().set_interval_ms(interval_ms).set_audit_entries_max(audit_entries_max);
    block_on(operator.client.watch_overview(Request::new(request)))
}

fn next(stream: &mut Streaming<Overview>) -> Result<Msg<Overview>, Status> {
    block_on(stream.message()).map(|told| told.expect("it does not end"))
}

const POLICIES: &str = r#"[{"application": "*", "kind": "telemetry"}]"#;

#[test]
fn all_that_there_is_is_told_at_once_and_again() {
    let daemon = Daemon::start("overview", Some(POLICIES));
    let operator = Operator::of(&daemon);
    let server = daemon.serve_until("server", "stop");
    let mut client = daemon.attach("client");
    let target = client.target("greeter");
    operator.change(&[&|step| attach(step, "client", "rate_limit", RATE_LIMIT)]);
    let mut stream = watch(&operator, 100, 1).expect("there are few watchers");
    let told = next(&mut stream).expect("an operator may");
    let apps = told.applications().expect("they are told").applications();
    let names: Vec<_> = apps.iter().map(|one| one.name()).collect();
    assert_eq!(names, ["server", "client"]);
    let paths = told.datapaths().expect("they are told").datapaths();
    let engines: Vec<_> = paths[1]
        .engines()
        .iter()
        .map(|one| (one.kind(), one.policy(), one.configuration()))
        .collect();
    // What the rule set says is not said again for each engine.
    let limit = r#"{"burst":4,"rate_per_s":20000}"#;
    assert_eq!(engines, [("telemetry", 1, ""), ("rate_limit", 0, limit)]);
    let policies = told.policies().expect("they are told").policies();
    assert_eq!((policies[0].configuration(), policies[0].datapaths()), ("{}", 2));
    let quotas = told.quotas().expect("they are told");
    assert_eq!((quotas.quotas().len(), quotas.attached().len()), (1, 2));
    let audit = told.audit().expect("it is wanted").entries();
    assert_eq!((audit.len(), audit[0].method()), (1, "WatchOverview"));
    // Other configurations than that of the rule are told, and what is counted goes on.
    operator.change(&[&|mut step| {
        let mut change = step.configure_engine_mut();
        change.set_configuration(r#"{"series_max": 77}"#);
        change.engine_mut().set_application("client").set_kind("telemetry");
    }]);
    assert!(client.greet(target, "ann").is_ok());
    let begun = |told: &Overview| {
        let apps = told.stats().map_or(&[][..], |stats| stats.applications());
        apps.iter().flat_map(|app| app.calls()).map(|calls| calls.begun()).sum::<u64>()
    };
    let told = loop {
        let told = next(&mut stream).expect("it goes on");
        if begun(&told) == 2 {
            break told;
        }
    };
    let engine = &told.datapaths().expect("they are told").datapaths()[1].engines()[0];
    assert!(engine.is_overridden() && engine.configuration().contains("77"), "{engine:?}");
    let mut without = watch(&operator, 0, 0).expect("there are few watchers");
    assert!(next(&mut without).expect("an operator may").audit().is_none());
    for wrong in [1, 60_001] {
        let refused = next(&mut watch(&operator, wrong, 0).expect("it begins"));
        assert_eq!(refused.map(|_| ()).unwrap_err().code(), Code::InvalidArgument);
    }
    assert!(client.greet(target, "stop").is_ok());
    server.join().unwrap();
}

/// What somebody sees who calls as the user of this process: of [`child_of`].
#[test]
fn somebody_watches() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let operator = Operator::at(&socket.to_string_lossy()).unwrap();
    let told = watch(&operator, 0, 1).and_then(|mut stream| next(&mut stream));
    println!("overview {:?}", told.map_or_else(|status| status.code(), |_| Code::Ok));
}

#[test]
fn viewers_see_the_overview_and_others_do_not() {
    let daemon = Daemon::start_more("overlookers", None, &["--viewer", "uid:65533"]);
    for (user, expected) in [(VIEWER, "Ok"), (NOBODY, "PermissionDenied")] {
        let test = "admin::overview::somebody_watches";
        let Some(said) = child_of(test, &daemon, user) else { return };
        assert!(said.contains(&format!("overview {expected}\n")), "{said}");
    }
    let audit = Operator::of(&daemon).audit();
    let found: Vec<_> = audit.entries().iter().map(|entry| (entry.uid(), entry.status())).collect();
    assert_eq!(found, [(VIEWER, "OK"), (NOBODY, "PERMISSION_DENIED")]);
}
