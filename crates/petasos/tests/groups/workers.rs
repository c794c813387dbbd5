//! Servers with several loops, each of which is a worker, and with threads for their handlers.

use std::collections::HashSet;
use std::time::Duration;

use petasos::{Join, block_on};

use crate::callers::Caller;
use crate::gated::{Gated, PASSES, gated};
use crate::greeter::generated::GreeterClient;
use crate::greeter::{blob, name};
use crate::servers::*;

#[test]
fn each_loop_of_a_server_is_a_worker() {
    let (service, _gate) = gated();
    let router = Router::start();
    let server = service.builder().loops(2).join(Join::new(router.target()).bound(7));
    let server = server.start().expect("loopback has ports");
    until(|| server.routers().iter().filter(|at| at.is_member).count() == 2);
    let at = server.routers();
    assert!(at.len() == 2 && at.iter().all(|at| at.router == router.address), "{at:?}");
    let workers = router.snapshot().workers;
    let addresses: HashSet<_> = workers.iter().map(|it| it.address).collect();
    assert_eq!((workers.len(), addresses.len(), router.bounds()), (2, 2, vec![7, 7]));
    let client = GreeterClient::new(connect(&router.target()));
    until(|| {
        block_on(client.greet(name("x"))).expect("a loop answers");
        service.seen().greeted_on.len() == 2
    });
    // Each tells the router itself what it has done.
    until(|| router.snapshot().workers.iter().all(|it| it.state.account.settled() > 0));
    block_on(server.drain(Duration::from_secs(5)));
    until(|| router.snapshot().workers.is_empty());
}

/// Calls to threads and to the loop, one after the other.
fn others_go_on(service: &Gated, client: &GreeterClient) {
    let before = service.seen().echoes.len();
    for call in 0..50 {
        let echoed = block_on(client.echo(blob(&[PASSES, call]))).expect("a thread is free");
        assert_eq!(echoed.bytes(), [PASSES, call]);
        block_on(client.greet(name("x"))).expect("the loop is free");
    }
    let seen = service.seen();
    assert_eq!(seen.echoes.len() - before, 50, "each has run once");
    assert!(seen.greeted_on.is_disjoint(&seen.echoed_on), "only echoes run on threads");
}

#[test]
fn calls_run_on_threads_as_many_at_a_time_as_the_server_takes() {
    let (service, gate) = gated();
    let router = Router::start();
    let _server = service.start(5, Join::new(router.target()).bound(3));
    let [first, last] = [(); 2].map(|()| Caller::attach(&router));
    let echo = |caller: &Caller<'_>| caller.client.echo(blob(b"wait"));
    let mut calls = vec![echo(&first), echo(&first)];
    until(|| service.seen().running == 2);
    // There is room for one more, whose place has to become free each time.
    others_go_on(&service, &first.client);
    calls.push(echo(&first));
    until(|| service.seen().running == 3);
    calls.push(echo(&last));
    // Two threads have nothing to do.
    until(|| last.waits());
    assert_eq!(service.seen().running, 3);
    gate.open(calls.len());
    for call in calls {
        assert_eq!(block_on(call).expect("it goes on").bytes(), b"wait");
    }
    others_go_on(&service, &last.client);
    let seen = service.seen();
    assert_eq!((seen.most, seen.running), (3, 0));
    assert!(seen.echoed_on.len() >= 3, "three blocked at once");
}

#[test]
fn a_worker_with_threads_that_follows_its_idle_time_has_one_call_more_than_threads() {
    let (service, gate) = gated();
    let router = Router::start();
    let join = Join::new(router.target()).bound(64).by_idle_time(2);
    let _server = service.start(2, join);
    assert_eq!(router.bounds(), [3], "one for each thread, and one on the way");
    let [first, last] = [(); 2].map(|()| Caller::attach(&router));
    let mut calls: Vec<_> = (0..3).map(|_| first.client.echo(blob(b"wait"))).collect();
    until(|| {
        let workers = router.snapshot().workers;
        service.seen().running == 2 && workers[0].state.account.outstanding() == 3
    });
    calls.push(last.client.echo(blob(b"wait")));
    until(|| last.waits());
    gate.open(calls.len());
    for call in calls {
        assert_eq!(block_on(call).expect("it goes on").bytes(), b"wait");
    }
    others_go_on(&service, &last.client);
    assert_eq!(service.seen().most, 2, "as many as there are threads");
    let bounds = router.bounds();
    assert!(bounds.len() == 1 && (2..=64).contains(&bounds[0]), "{bounds:?}");
}
