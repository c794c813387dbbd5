//! Kinds of policies that a configuration file gives to one application: they act on its calls, and
//! on no others.

use std::time::Duration;

use petasos::{Channel, Code, Request, Server, Status, block_on};
use petasos_base::sync::Ordering;

use crate::limits::{Holder, PAUSE, configured};
use crate::retries::{Flaky, RETRIES};
use crate::support::managed::WorkClient;
use crate::support::*;

/// A daemon with this policy for `client`, and none for others.
fn with(test: &str, kind: &str, configuration: &str) -> Daemon {
    let policy = format!(
        "[[policies]]\napplication = 'client'\nkind = '{kind}'\nconfiguration = {configuration}\n"
    );
    configured(test, &policy)
}

/// A channel of an application.
fn channel(daemon: &Daemon, server: &Server, application: &str, config: &str) -> WorkClient {
    let target = format!("petasos://{}", server.local_address().unwrap());
    let channel = Channel::builder(&target).service(daemon.service(application));
    WorkClient::new(block_on(channel.service_config(config).connect()).unwrap())
}

fn echo(client: &WorkClient) -> Result<(), Status> {
    block_on(client.echo(item("x", 1))).map(drop)
}

fn is_unavailable(result: Result<(), Status>) -> bool {
    result.is_err_and(|status| status.code() == Code::Unavailable)
}

#[test]
fn a_circuit_breaker_opens_after_failures_and_closes_after_a_probe() {
    let flaky = Flaky::default();
    let breaks = |open_ms: u32| format!("{{ consecutive_failures = 3, open_ms = {open_ms} }}");
    let daemon = with("breaker", "circuit_breaker", &breaks(60_000));
    let server = flaky.start(&daemon, "server");
    let [client, other] = ["client", "other"].map(|name| channel(&daemon, &server, name, "{}"));
    flaky.fail(3);
    assert!((0..3).all(|_| is_unavailable(echo(&client))));
    assert_eq!(flaky.take_reached(), 3);
    assert!((0..5).all(|_| is_unavailable(echo(&client))));
    assert_eq!(flaky.take_reached(), 0, "the server has rest");
    assert!(echo(&other).is_ok(), "another application has no breaker");

    let daemon = with("probe", "circuit_breaker", &breaks(1));
    let server = flaky.start(&daemon, "server");
    let client = channel(&daemon, &server, "client", "{}");
    flaky.fail(3);
    assert!((0..3).all(|_| is_unavailable(echo(&client))));
    let probe = (0..10_000).find(|_| {
        std::thread::sleep(Duration::from_millis(1));
        echo(&client).is_ok()
    });
    assert!(probe.is_some(), "it closes");
    assert!((0..20).all(|_| echo(&client).is_ok()));
}

#[test]
fn a_retry_budget_lets_as_many_retries_pass_as_calls_have_saved() {
    let daemon = with("budget", "retry_budget", "{ ratio = 0.2 }");
    let flaky = Flaky::default();
    let server = flaky.start(&daemon, "server");
    let [client, other] = ["client", "other"].map(|name| channel(&daemon, &server, name, RETRIES));
    flaky.fail(1);
    assert!(is_unavailable(echo(&client)), "nothing is saved");
    assert_eq!(flaky.take_reached(), 1);
    assert!((0..5).all(|_| echo(&client).is_ok()));
    assert_eq!(flaky.take_reached(), 5);
    flaky.fail(1);
    assert!(echo(&client).is_ok(), "six calls have saved a retry");
    assert_eq!(flaky.take_reached(), 2);
    flaky.fail(1);
    assert!(is_unavailable(echo(&client)), "it was spent");
    assert_eq!(flaky.take_reached(), 1);
    flaky.fail(2);
    assert!(echo(&other).is_ok(), "another application has no budget");
    assert_eq!(flaky.take_reached(), 3);
}

#[test]
fn an_overload_limit_refuses_what_a_server_is_not_to_see() {
    let configuration = "{ calls_initial = 2, calls_min = 2, calls_max = 2 }";
    let daemon = with("overload", "overload", configuration);
    let holder = Holder::default();
    let server = holder.start(&daemon);
    let other = channel(&daemon, &server, "other", "{}");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let held = [0, 1].map(|number| client.hold(item("held", number)));
        for _ in 0..3 {
            let request = Request::new(item("late", 1)).with_timeout(60 * PAUSE);
            let refused = client.echo(request).await.unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        }
        drop(held);
        // As soon as the service has heard of it.
        let mut tries = 0..1000;
        while client.echo(item("x", 1)).await.is_err() {
            assert!(tries.next().is_some(), "there is room again");
        }
    });
    assert!(holder.0.load(Ordering::SeqCst) <= 2);
    assert!(echo(&other).is_ok(), "another application has no limit");
}

#[test]
fn metadata_are_changed_on_the_way_there_and_back() {
    let rules = r#"{ rules = [
        { on = ["requests"], changes = [
            { set = { key = "asked", value = "by the operator" } } ] },
        { on = ["ends"], methods = ["managed.Work/Echo"], changes = [
            { rename = { key = "seen", to = "told" } } ] } ] }"#;
    // Tables of a line have no line ends.
    let daemon = with("metadata", "metadata", &rules.replace('\n', " "));
    let server = daemon.server("server");
    let [client, other] = ["client", "other"].map(|name| channel(&daemon, &server, name, "{}"));
    let asked = |client: &WorkClient| {
        let mut request = Request::new(item("x", 1));
        request.metadata_mut().append("asked", "politely").unwrap();
        let echoed = block_on(client.echo(request)).unwrap();
        ["seen", "told"].map(|key| echoed.metadata().get(key).map(str::to_owned))
    };
    assert_eq!(asked(&client), [None, Some("by the operator".to_owned())]);
    assert_eq!(asked(&other), [Some("politely".to_owned()), None]);
}
