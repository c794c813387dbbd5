//! Calls of idempotent methods that are sent again while there is no answer.

use std::time::Duration;

use crate::flaky::*;
use crate::greeter::generated::GreeterClient;
use crate::greeter::{blob, name};
use crate::servers::{PATIENCE, target, until};
use petasos::{Balance, Channel, Code, Loop, LoopConfig, Request, Server, block_on};

/// Longer than any test, in seconds.
const LONG: &str = "1000";

fn hedging(attempts: u32, delay: &str, codes: &str) -> String {
    format!(
        r#""hedgingPolicy": {{"maxAttempts": {attempts}, "hedgingDelay": "{delay}s",
            "nonFatalStatusCodes": [{codes}]}}"#
    )
}

/// A channel that takes turns between servers, and has called all of them.
fn client(services: &[&Flaky], servers: &[&Server], config: &str) -> GreeterClient {
    let addresses = servers.iter().map(|server| server.local_address().expect("it listens"));
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    let channel = Channel::builder(&format!("petasos://{}", addresses.join(",")));
    let channel = channel.balance(Balance::RoundRobin).service_config(config).connect();
    let client = GreeterClient::new(block_on(channel).expect("the servers are up"));
    until(|| {
        // Not hedged: no attempt is still to come.
        assert!(block_on(client.echo(blob(b"first"))).is_ok());
        services.iter().all(|service| service.count() > 0)
    });
    until(|| services.iter().all(|service| service.state().running == 0));
    services.iter().for_each(|service| service.state().reached.clear());
    services.iter().for_each(|service| service.state().dropped = 0);
    client
}

#[test]
fn a_slow_server_is_not_waited_for() {
    let (slow, quick) = (Flaky::default(), Flaky::default());
    let (one, other) = (slow.start(), quick.start());
    let config = config(&hedging(2, "0.02", ""), "");
    let client = client(&[&slow, &quick], &[&one, &other], &config);
    slow.state().always = Some(Act::Hold);
    let mut asked_first = 0;
    for _ in 0..6 {
        let before = slow.count();
        assert_eq!(block_on(client.greet(name("x"))).expect("one is quick").text(), "hello, x");
        asked_first += slow.count() - before;
    }
    assert!(asked_first > 0, "they take turns");
    assert!(quick.count() >= 6);
    let hedges = quick.previous().iter().flatten().filter(|number| *number == "1").count();
    assert_eq!(hedges, asked_first);
    until(|| slow.state().dropped == asked_first as u64);
}

#[test]
fn attempts_go_to_different_servers() {
    let services = [Flaky::default(), Flaky::default()];
    let servers = [services[0].start(), services[1].start()];
    let config = config(&hedging(2, "0", ""), "");
    let client = client(&[&services[0], &services[1]], &[&servers[0], &servers[1]], &config);
    for service in &services {
        service.state().always = Some(Act::Hold);
    }
    let calls: Vec<_> = (0..20).map(|_| client.greet(name("x"))).collect();
    until(|| services.iter().all(|service| service.count() == 20));
    drop(calls);
    until(|| services.iter().all(|service| service.state().dropped == 20));
}

#[test]
fn only_methods_that_may_run_twice_are_hedged() {
    let service = Flaky::default();
    let server = service.start();
    let all = config(&hedging(3, "0", ""), "");
    let client = client(&[&service], &[&server], &all);
    service.state().always = Some(Act::Hold);
    let short = |bytes| Request::new(blob(bytes)).with_timeout(Duration::from_millis(100));
    let status = block_on(client.echo(short(b"x"))).expect_err("it is held");
    assert_eq!((status.code(), service.count()), (Code::DeadlineExceeded, 1));
    let request = Request::new(name("x")).with_timeout(Duration::from_millis(100));
    let status = block_on(client.greet(request)).expect_err("it is held");
    assert_eq!((status.code(), service.count()), (Code::DeadlineExceeded, 4));
    until(|| service.state().dropped == 4);
    // Unless the policy names the method.
    let policy = hedging(3, "0", "");
    let echo = r#"{"service": "hello.Greeter", "method": "Echo"}"#;
    let named = format!(r#"{{"methodConfig": [{{"name": [{echo}], {policy}}}]}}"#);
    let channel = Channel::builder(&target(&server)).service_config(&named).connect();
    let client = GreeterClient::new(block_on(channel).expect("the server is up"));
    let status = block_on(client.echo(short(b"x"))).expect_err("it is held");
    assert_eq!((status.code(), service.count()), (Code::DeadlineExceeded, 7));
}

#[test]
fn some_failures_bring_the_next_attempt_forward_and_others_end_the_call() {
    let service = Flaky::default();
    let server = service.start();
    let config = config(&hedging(3, LONG, r#""UNAVAILABLE""#), "");
    let client = client(&[&service], &[&server], &config);
    service.state().next.extend([fail(Code::Unavailable), fail(Code::Unavailable)]);
    assert!(block_on(client.greet(name("x"))).is_ok());
    assert_eq!(service.previous(), [None, Some("1".to_owned()), Some("2".to_owned())]);
    service.state().next.extend([fail(Code::Internal)]);
    let status = block_on(client.greet(name("x"))).expect_err("that is fatal");
    assert_eq!((status.code(), service.count()), (Code::Internal, 4));
    service.state().next.extend([1, 2, 3].map(|_| fail(Code::Unavailable)));
    let status = block_on(client.greet(name("x"))).expect_err("all attempts have failed");
    assert_eq!((status.code(), service.count()), (Code::Unavailable, 7));
    service.state().next.push_back(push_back(Code::Unavailable, "-1"));
    let status = block_on(client.greet(name("x"))).expect_err("the server wants no other");
    assert_eq!((status.code(), service.count()), (Code::Unavailable, 8));
}

#[test]
fn a_budget_bounds_hedges() {
    let service = Flaky::default();
    let server = service.start();
    let throttling = r#", "retryThrottling": {"maxTokens": 4, "tokenRatio": 0.001}"#;
    let config = config(&hedging(2, LONG, r#""UNAVAILABLE""#), throttling);
    let client = client(&[&service], &[&server], &config);
    service.state().always = Some(fail(Code::Unavailable));
    for _ in 0..10 {
        let status = block_on(client.greet(name("x"))).expect_err("it always fails");
        assert_eq!(status.code(), Code::Unavailable);
    }
    assert_eq!(service.count(), 11, "two attempts of the first call, one of each other");
}

#[test]
fn in_a_loop_of_the_caller_attempts_wait_for_their_time() {
    let service = Flaky::default();
    let server = service.start();
    let config = config(&hedging(3, "0.01", ""), "");
    let event_loop = Loop::new(LoopConfig::default()).expect("a loop starts");
    event_loop.block_on(async {
        let channel = Channel::builder(&target(&server)).service_config(&config).connect().await;
        let client = GreeterClient::new(channel.expect("the server is up"));
        service.state().next.extend([Act::Hold, Act::Hold]);
        let request = Request::new(name("x")).with_timeout(PATIENCE);
        assert_eq!(client.greet(request).await.expect("the third is quick").text(), "hello, x");
        // With another call, the loop turns on until the server knows.
        assert!(client.greet(name("y")).await.is_ok());
    });
    until(|| {
        event_loop.run_turns(1);
        service.state().dropped == 2
    });
}
