//! Calls over gRPC that are tried again, as those over datagrams are.
#![cfg(feature = "grpc")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::flaky::*;
use crate::greeter::generated::GreeterClient;
use crate::greeter::{blob, name};
use crate::refuser::{Refusal, refuser};
use petasos::grpc::GrpcConfig;
use petasos::{Balance, Channel, Code, Request, Server};
use petasos_base::sync::Ordering;

const UNAVAILABLE: &str = r#""UNAVAILABLE""#;
const SHORT: &str = "0.002";
const LONG: &str = "1000";

fn serve(service: &Flaky) -> (Server, SocketAddr) {
    let server = service.builder().grpc("127.0.0.1:0", GrpcConfig::default());
    let server = server.start().expect("loopback has ports");
    let address = server.grpc_address().expect("it has a gRPC port");
    (server, address)
}

async fn client(addresses: &[SocketAddr], config: &str) -> GreeterClient {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    let channel = Channel::builder(&format!("grpc://{}", addresses.join(",")));
    let channel = channel.balance(Balance::RoundRobin).service_config(config).connect().await;
    GreeterClient::new(channel.expect("a server is up"))
}

/// Runs a test, which fails rather than hangs.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let patience = Duration::from_secs(50);
    let runtime = runtime.expect("a runtime starts");
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("it hangs") });
}

/// Waits for what another thread does.
async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn numbered(list: &[&str]) -> Vec<Option<String>> {
    let numbers = list.iter().map(|number| Some(number.to_string()));
    std::iter::once(None).chain(numbers).collect()
}

#[test]
fn a_status_that_the_policy_names_is_tried_again() {
    run(async {
        let service = Flaky::failing(&[Code::Unavailable; 2]);
        let (_server, address) = serve(&service);
        let config = config(&retries(3, SHORT, UNAVAILABLE), "");
        let client = client(&[address], &config).await;
        let request = Request::new(name("you")).with_metadata("from", "me").expect("a fine key");
        let response = client.greet(request).await.expect("the third attempt succeeds");
        assert_eq!(response.text(), "hello, you");
        assert_eq!(service.previous(), numbered(&["1", "2"]));
        assert!(service.state().reached.iter().all(|it| it.from.as_deref() == Some("me")));
        service.state().always = Some(fail(Code::Unavailable));
        let status = client.greet(name("x")).await.expect_err("it always fails");
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "it fails on purpose"));
        assert_eq!(service.count(), 6);
        service.state().always = Some(fail(Code::Aborted));
        let status = client.greet(name("x")).await.expect_err("it always fails");
        assert_eq!((status.code(), service.count()), (Code::Aborted, 7));
    });
}

#[test]
fn pushback_budgets_and_deadlines_hold() {
    run(async {
        let service = Flaky::default();
        let (_server, address) = serve(&service);
        let pushed = client(&[address], &config(&retries(5, LONG, UNAVAILABLE), "")).await;
        service.state().next.extend(["0", "3"].map(|wait| push_back(Code::Unavailable, wait)));
        assert!(pushed.greet(name("x")).await.is_ok());
        service.state().next.push_back(push_back(Code::Unavailable, "-1"));
        assert!(pushed.greet(name("x")).await.is_err());
        assert_eq!(service.count(), 4);
        // Its next attempt would be too late.
        service.state().next.push_back(fail(Code::Unavailable));
        let request = Request::new(name("x")).with_timeout(Duration::from_secs(20));
        let status = pushed.greet(request).await.expect_err("the policy waits for longer");
        assert_eq!((status.code(), service.count()), (Code::Unavailable, 5));

        let quick = client(&[address], &config(&retries(4, SHORT, UNAVAILABLE), "")).await;
        service.state().next.extend([fail(Code::Unavailable), Act::Hold]);
        let request = Request::new(name("x")).with_timeout(Duration::from_millis(300));
        let status = quick.greet(request).await.expect_err("the second attempt never ends");
        assert_eq!((status.code(), service.count()), (Code::DeadlineExceeded, 7));
        let left: Vec<_> = service.state().reached.iter().map(|reached| reached.timeout).collect();
        assert!(left[5] > left[6], "{left:?}");
        until(|| service.state().dropped == 1).await;

        let throttling = r#", "retryThrottling": {"maxTokens": 4, "tokenRatio": 1}"#;
        let config = config(&retries(5, SHORT, UNAVAILABLE), throttling);
        let bounded = client(&[address], &config).await;
        service.state().always = Some(fail(Code::Unavailable));
        for _ in 0..20 {
            assert!(bounded.greet(name("x")).await.is_err());
        }
        assert_eq!(service.count(), 7 + 21);
    });
}

#[test]
fn calls_that_are_given_up_are_not_tried_again() {
    run(async {
        let service = Flaky::always(Act::Hold);
        let (_server, address) = serve(&service);
        let client = client(&[address], &config(&retries(3, LONG, UNAVAILABLE), "")).await;
        let held = client.greet(name("x"));
        until(|| service.count() == 1).await;
        drop(held);
        until(|| service.state().dropped == 1).await;
        service.state().always = None;
        service.state().next.push_back(fail(Code::Unavailable));
        let paused = client.greet(name("x"));
        until(|| service.count() == 2).await;
        drop(paused);
        assert!(client.greet(name("x")).await.is_ok());
        assert_eq!(service.count(), 3);
    });
}

#[test]
fn idempotent_methods_are_hedged() {
    run(async {
        let services = [Flaky::default(), Flaky::default()];
        let (_one, first) = serve(&services[0]);
        let (_other, second) = serve(&services[1]);
        let hedging = r#""hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0s"}"#;
        let client = client(&[first, second], &config(hedging, "")).await;
        // Not hedged: no attempt is still to come.
        while services.iter().any(|service| service.count() == 0) {
            assert!(client.echo(blob(b"first")).await.is_ok());
        }
        services.iter().for_each(|service| service.state().reached.clear());
        services[0].state().always = Some(Act::Hold);
        for _ in 0..10 {
            assert!(client.greet(name("x")).await.is_ok(), "the other server is quick");
        }
        until(|| services[0].state().running == 0).await;
        services.iter().for_each(|service| service.state().reached.clear());
        services[1].state().always = Some(Act::Hold);
        let calls: Vec<_> = (0..10).map(|_| client.greet(name("x"))).collect();
        until(|| services.iter().all(|service| service.count() == 10)).await;
        drop(calls);
        until(|| services.iter().all(|service| service.state().running == 0)).await;
    });
}

async fn check_refusals(refusal: Refusal) {
    let service = Flaky::default();
    let (_server, address) = serve(&service);
    let (refuser, refused) = refuser(refusal);
    // Without a policy.
    let client = client(&[address, refuser], "{}").await;
    while refused.load(Ordering::SeqCst) < 4 {
        // It may be the only server that is connected.
        let _ = client.echo(blob(b"x")).await;
    }
    let (before, reached) = (refused.load(Ordering::SeqCst), service.count());
    for _ in 0..20 {
        let echoed = client.echo(blob(b"x")).await;
        assert!(echoed.is_ok(), "the other server takes it: {echoed:?}");
    }
    assert_eq!(service.count() - reached, 20);
    assert!(service.previous().iter().all(Option::is_none), "no attempt is counted");
    if matches!(refusal, Refusal::ResetStream) {
        assert!(refused.load(Ordering::SeqCst) > before, "they take turns");
    }
}

#[test]
fn refused_streams_are_begun_elsewhere() {
    run(check_refusals(Refusal::ResetStream));
}

#[test]
fn streams_that_a_server_that_goes_away_has_not_taken_are_begun_elsewhere() {
    run(check_refusals(Refusal::GoAway));
}
