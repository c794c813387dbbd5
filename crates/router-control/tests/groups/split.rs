//! A router with a thread of its own for feedback.

use petasos_endpoint::{GroupId, ServedGroupId};
use petasos_router_control::{GroupSettings, WorkerChange};

use crate::operate::{change, snapshot};
use crate::world::{Member, Router, client, patient, until, worker, worker_that};

/// So many calls, at most 64 at a time, of which none fails.
fn call(clients: &mut [Member<GroupId>], workers: &mut [Member<ServedGroupId>], count: u64) {
    let answered = clients[0].endpoint.state().answered;
    let mut made = 0;
    until(clients, workers, |clients, _| {
        let state = clients[0].endpoint.state();
        assert_eq!(state.errors, []);
        let done = state.answered - answered;
        while made < count.min(done + 64) && clients[0].call(32, made % 2 == 0) {
            made += 1;
        }
        done == count
    });
}

fn jbsq1() -> GroupSettings {
    let mut settings = patient();
    settings.plane.core.policy = "jbsq1".parse().expect("it is a policy");
    settings
}

#[test]
fn what_waits_goes_when_a_split_router_hears_that_a_worker_is_free() {
    let router = Router::start_split(jbsq1());
    let operator = router.service.operator();
    assert_ne!(router.service.feedback_address(), Some(router.service.data_address()));
    let mut workers = [worker(&[router.address]), worker(&[router.address])];
    let mut clients = [client(&[router.address])];
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    // One at a time and worker: most wait in the router, whose thread sleeps meanwhile.
    call(&mut clients, &mut workers, 2000);
    let seen = snapshot(&operator);
    assert!(seen.stats.waited > 0 && seen.counts.feedback > 0, "{seen:?}");
    assert_eq!((seen.stats.void_feedback, seen.counts.wrong_counts), (0, 0));
    // What it received itself are first packets and the like.
    let first = seen.counts.requests + seen.stats.repeated + seen.stats.void;
    assert_eq!(seen.io.rx_frames, first, "feedback came to the other socket");
    // All slots come back.
    until(&mut clients, &mut workers, |_, _| {
        snapshot(&operator).workers.iter().all(|it| it.state.account.outstanding() == 0)
    });
}

#[test]
fn a_split_router_hears_workers_that_drain_go_and_come() {
    let router = Router::start_split(jbsq1());
    let operator = router.service.operator();
    let mut workers = vec![worker(&[router.address]), worker(&[router.address])];
    let mut clients = [client(&[router.address])];
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    call(&mut clients, &mut workers, 100);
    let number = snapshot(&operator).workers[0].worker;
    assert!(change(&operator, number, WorkerChange::Drain(true)));
    call(&mut clients, &mut workers, 100);
    until(&mut clients, &mut workers, |_, _| {
        let seen = snapshot(&operator);
        let drained = seen.workers.iter().find(|it| it.worker == number).expect("it is there");
        drained.state.is_draining && drained.state.account.outstanding() == 0
    });
    assert!(change(&operator, number, WorkerChange::Drain(false)));
    // Another one has the place of one that has gone, and is heard by its own name.
    drop(workers.remove(0));
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 1);
    workers.push(worker_that(&[router.address], |config| config.bound = 2));
    until(&mut clients, &mut workers, |clients, _| clients[0].peers() == 2);
    call(&mut clients, &mut workers, 500);
    until(&mut clients, &mut workers, |_, workers| workers[1].endpoint.state().handled > 0);
    assert_eq!(snapshot(&operator).counts.wrong_counts, 0);
}
