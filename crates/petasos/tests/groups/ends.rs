//! Groups without workers, targets without routers, and workers and routers that come and go.

use std::time::Duration;

use petasos::{Channel, Code, ConnectError, Join, Request, Server, StartError, Status, block_on};
use petasos_base::sync::{AtomicBool, Ordering};

use crate::greeter::generated::{GreeterClient, GreeterServer};
use crate::greeter::*;
use crate::servers::*;

fn quick_connect(target: &str) -> Result<Channel, ConnectError> {
    let builder = Channel::builder(target).connect_timeout(Duration::from_secs(5));
    block_on(builder.connect())
}

#[test]
fn a_target_without_a_router_is_unreachable() {
    // A server is not a router.
    let server = Server::builder().add(GreeterServer::new(Service::default()));
    let server = server.listen("127.0.0.1:0").start().expect("loopback has ports");
    let address = server.local_address().expect("it listens");
    let refused = quick_connect(&format!("router://{address}")).expect_err("it is a server");
    assert!(refused.to_string().contains(&address.to_string()), "{refused}");
    // A port that was free a moment ago may be another test's by now.
    let refused = quick_connect("router://127.0.0.1:1").expect_err("nobody is there");
    assert!(matches!(refused, ConnectError::Unreachable(_)), "{refused}");
    let wrong = quick_connect("router://127.0.0.1").expect_err("it has no port");
    assert!(matches!(wrong, ConnectError::Target(_)), "{wrong}");
}

#[test]
fn a_group_without_workers_is_unavailable() {
    let router = Router::start();
    let client = GreeterClient::new(connect(&router.target()));
    let failed = block_on(client.greet(name("anybody"))).expect_err("nobody is there");
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
    // The same channel finds the worker that comes.
    let service = Service::default();
    let _server = join(&service, &router);
    until(|| block_on(client.greet(name("somebody"))).is_ok());
}

/// Longer than calls wait that do not wait for a worker, which are sent 17 times.
#[test]
fn a_call_that_waits_for_ready_waits_for_a_worker() {
    let router = Router::start();
    let service = Service::default();
    let builder = Channel::builder(&router.target()).wait_for_ready(true);
    let channel = block_on(builder.connect()).expect("the router is there");
    let client = GreeterClient::new(channel);
    let greet = |whom: &'static str| {
        let client = client.clone();
        std::thread::spawn(move || block_on(client.greet(name(whom))).map(drop))
    };
    let before_the_first = greet("early");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!before_the_first.is_finished(), "{:?}", before_the_first.join());
    let server = join(&service, &router);
    before_the_first.join().expect("it does not panic").expect("a worker has come");
    block_on(server.shut_down());
    let rejected = router.rejected_without_worker();
    let after_the_last = greet("late");
    until(|| router.rejected_without_worker() > rejected + 20);
    let _server = join(&service, &router);
    after_the_last.join().expect("it does not panic").expect("another worker has come");
}

#[test]
fn servers_that_cannot_join_do_not_start() {
    let server = || Server::builder().add(GreeterServer::new(Service::default()));
    let group = "router://127.0.0.1:7000";
    let deaf = server().join(group).start();
    assert!(matches!(deaf, Err(StartError::JoinWithoutListening)), "{deaf:?}");
    let idle = server().listen("127.0.0.1:0").join(Join::new(group).bound(0)).start();
    assert!(matches!(idle, Err(StartError::JoinBound)), "{idle:?}");
    let idle = server().listen("127.0.0.1:0").join(Join::new(group).by_idle_time(0)).start();
    assert!(matches!(idle, Err(StartError::JoinBound)), "{idle:?}");
    for weight in [0, 101, 300] {
        let weighed = server().listen("127.0.0.1:0").join(Join::new(group).weight(weight)).start();
        assert!(matches!(weighed, Err(StartError::JoinWeight(it)) if it == weight), "{weighed:?}");
    }
    let wrong = server().listen("127.0.0.1:0").join("petasos://127.0.0.1:7000").start();
    assert!(matches!(wrong, Err(StartError::Group(_))), "{wrong:?}");
}

#[test]
fn a_worker_that_follows_its_idle_time_begins_with_few_requests() {
    let router = Router::start();
    let join = Join::new(router.target()).bound(64).by_idle_time(3);
    let server = Server::builder().add(GreeterServer::new(Service::default()));
    let server = server.listen("127.0.0.1:0").join(join).start().expect("loopback has ports");
    until(|| router.bounds().len() == 1);
    assert_eq!(router.bounds(), [4], "one for each thread, and one on the way");
    block_on(server.shut_down());
}

/// Calls as long as something happens; all are answered.
fn call_while(targets: &str, happens: impl FnOnce()) -> u64 {
    let client = GreeterClient::new(connect(targets));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Idempotent, and at most once.
                let request = Request::new(name("x")).with_timeout(Duration::from_secs(20));
                let greeted = block_on(client.greet(request)).map(drop);
                let request = Request::new(blob(b"x")).with_timeout(Duration::from_secs(20));
                let echoed = block_on(client.echo(request)).map(drop);
                let failed: Option<Status> = greeted.err().or(echoed.err());
                assert!(failed.is_none(), "call {calls}: {}", failed.expect("it failed"));
                calls += 2;
            }
            calls
        });
        happens();
        is_over.store(true, Ordering::Relaxed);
        calling.join().expect("no call fails")
    })
}

#[test]
fn workers_come_and_drain_while_calls_run() {
    let router = Router::start();
    let services = [(); 3].map(|()| Service::default());
    let first = join(&services[0], &router);
    let mut last = None;
    let calls = call_while(&router.target(), || {
        let second = join(&services[1], &router);
        until(|| services[1].seen().begun > 10);
        block_on(first.drain(Duration::from_secs(5)));
        drop(first);
        // It is needed until nobody calls any more.
        last = Some(join(&services[2], &router));
        until(|| services[2].seen().begun > 10);
        block_on(second.drain(Duration::from_secs(5)));
        until(|| services[2].seen().begun > 200);
    });
    assert!(calls > 200, "{calls}");
    drop(last);
}

#[test]
fn rt38_routers_come_and_go_while_calls_run() {
    let service = Service::default();
    let active = Router::start();
    let standby = Router::standby();
    let targets = format!("router://{},{}", active.address, standby.address);
    let server = Server::builder().add(GreeterServer::new(service.clone()));
    let server = server.listen("127.0.0.1:0").join(targets.as_str());
    let _server = server.start().expect("loopback has ports");
    until_served(&active.target());
    until_served(&standby.target());
    let begun = || service.seen().begun;
    call_while(&targets, || {
        until(|| begun() > 50);
        drop(active);
        let since = begun();
        until(|| begun() > since + 50);
    });
}
