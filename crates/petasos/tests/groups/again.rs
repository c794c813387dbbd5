//! Calls to groups that are sent more than once: by policy, hedged, or because they have not run;
//! and calls that may not run twice.

use std::sync::Arc;
use std::time::Duration;

use petasos::{Channel, Code, Request, Response, Server, Status, block_on};
use petasos_base::sync::{AtomicBool, AtomicU64, Ordering};
use petasos_router_control::GroupSettings;

use crate::flaky::{Act, Flaky, config, fail, retries};
use crate::greeter::generated::{Blob, Greeter, GreeterClient, GreeterServer, Greeting, Name};
use crate::greeter::*;
use crate::servers::*;

fn serve(service: impl Greeter, router: &Router) -> Server {
    let server = Server::builder().add(GreeterServer::new(service)).listen("127.0.0.1:0");
    server.join(router.target()).start().expect("loopback has ports")
}

fn client_with(router: &Router, config: &str) -> GreeterClient {
    let channel = Channel::builder(&router.target()).service_config(config).connect();
    GreeterClient::new(block_on(channel).expect("the router is up"))
}

#[test]
fn a_status_that_the_policy_names_is_tried_again() {
    let (service, router) = (Flaky::default(), Router::start());
    let _server = serve(service.clone(), &router);
    until_served(&router.target());
    let client = client_with(&router, &config(&retries(3, "0.002", r#""UNAVAILABLE""#), ""));
    let before = service.count();
    service.state().next.extend([fail(Code::Unavailable), fail(Code::Unavailable)]);
    let echoed = block_on(client.echo(blob(&[7; 20_000]))).expect("the third attempt succeeds");
    assert_eq!((echoed.bytes().len(), service.count() - before), (20_000, 3));
}

#[test]
fn a_worker_that_hangs_is_not_waited_for_if_the_method_may_run_again() {
    let (slow, quick, router) = (Flaky::default(), Flaky::default(), Router::bounded("jbsq1"));
    let _servers = [&slow, &quick].map(|service| serve(service.clone(), &router));
    until_served(&router.target());
    let hedging = r#""hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.02s"}"#;
    let client = client_with(&router, &config(hedging, ""));
    slow.state().always = Some(Act::Hold);
    for _ in 0..10 {
        let greeting = block_on(client.greet(name("x"))).expect("one worker is quick");
        assert_eq!(greeting.text(), "hello, x");
    }
    until(|| slow.state().running == 0);
    assert!(quick.count() >= 10);
}

#[test]
fn rt14_a_router_whose_queue_is_full_is_asked_again_once() {
    let service = Service::default();
    let mut settings = GroupSettings::default();
    settings.plane.core.policy = "jbsq1".parse().expect("it is a policy");
    settings.plane.core.waiting_max = 2;
    settings.plane.core.waiting_age_max = None;
    let router = Router::with(settings);
    let _server = join(&service, &router);
    let client = GreeterClient::new(connect(&router.target()));
    let begun = service.seen().begun;
    let held = client.greet(name("hold"));
    until(|| service.seen().begun > begun);
    // One may wait; the other place is for other clients.
    let waiting = client.greet(name("waits"));
    until(|| router.snapshot().waiting == 1);
    let failed = block_on(client.echo(blob(b"no room"))).expect_err("the queue is full");
    assert_eq!(failed.code(), Code::ResourceExhausted, "{failed}");
    assert_eq!(failed.message(), "the queue of the group's router is full");
    // Each time it may send four first packets (RT13).
    let turned_away = router.snapshot().rejections.queue_full;
    assert!((2..=8).contains(&turned_away), "{turned_away}");
    drop((held, waiting));
}

/// Counts what has run.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Greeter for Counting {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        if request.bytes() == b"count" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Response::new(request.into_message()))
    }
}

#[test]
fn rt15_a_call_that_may_not_run_twice_runs_once_while_workers_come_and_go() {
    let (service, router) = (Counting::default(), Router::start());
    let first = serve(service.clone(), &router);
    until_served(&router.target());
    let client = GreeterClient::new(connect(&router.target()));
    let is_over = AtomicBool::new(false);
    let calls = std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                let request = Request::new(blob(b"count")).with_timeout(Duration::from_secs(20));
                block_on(client.echo(request)).expect("draining workers lose nothing");
                calls += 1;
            }
            calls
        });
        let mut last = first;
        for _ in 0..4 {
            let ran = service.0.load(Ordering::Relaxed);
            let next = serve(service.clone(), &router);
            until(|| service.0.load(Ordering::Relaxed) > ran + 100);
            block_on(last.drain(Duration::from_secs(5)));
            last = next;
        }
        is_over.store(true, Ordering::Relaxed);
        calling.join().expect("no call fails")
    });
    assert_eq!(service.0.load(Ordering::Relaxed), calls, "each has run once");
}
