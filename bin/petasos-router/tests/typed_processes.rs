//! Typed calls while workers and routers, which are processes, are killed.

#[path = "../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
mod support;
#[path = "support/typed.rs"]
mod typed;

use certificates::Folder;
use support::router;
use typed::{
    SERVICE, call_while, call_with, check, run_worker, sealed_worker, security, target, worker,
};

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    run_worker();
}

#[test]
fn rt15_a_killed_worker_costs_no_call_that_may_run_twice_and_nothing_runs_twice() {
    const KILLS: usize = 4;
    let (_router, address) = router(&[&["--listen", "127.0.0.1:0"][..], &SERVICE].concat());
    let group = target(&[address]);
    let mut workers = vec![worker(&group), worker(&group)];
    let seen = call_while(&group, |calls| {
        for kill in 0..KILLS {
            calls.until_more(100);
            workers[kill].kill();
            calls.until_more(100);
            workers.push(worker(&group));
        }
        calls.until_more(100);
    });
    // Each of three threads has one call under way.
    check(&seen, workers, 3 * KILLS);
}

/// A group over TLS: what is sealed survives kills as well.
#[test]
fn rt28_kills_cost_no_more_in_a_sealed_group() {
    const KILLS: usize = 2;
    let authority = certificates::Authority::new("ours");
    let [of_router, of_worker, of_client] = ["router", "worker", "client"].map(|name| {
        let folder = Folder::new(&format!("sealed-{name}"));
        folder.write(&authority.pem(&format!("{name}.test")));
        folder
    });
    let files = ["certificate", "key", "authorities"].map(|name| of_router.path().join(name));
    let [certificate, key, authorities] = files.each_ref().map(|it| it.to_str().expect("text"));
    let tls = ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authorities];
    let named = ["--listen", "127.0.0.1:0", "--worker", "worker.test"];
    let (_router, address) = router(&[&named[..], &tls, &SERVICE].concat());
    let group = target(&[address]);
    let worker = || sealed_worker(&group, of_worker.path());
    let mut workers = vec![worker(), worker()];
    let seen = call_with(&group, security(Some(of_client.path())), |calls| {
        for kill in 0..KILLS {
            calls.until_more(100);
            workers[kill].kill();
            calls.until_more(100);
            workers.push(worker());
        }
        calls.until_more(100);
    });
    check(&seen, workers, 3 * KILLS);
}

#[test]
fn rt38_a_killed_router_costs_no_call_that_may_run_twice_and_nothing_runs_twice() {
    let listen = ["--listen", "127.0.0.1:0"];
    let (mut active, first) = router(&[&listen[..], &SERVICE].concat());
    let (_standby, second) = router(&[&listen[..], &SERVICE, &["--standby"]].concat());
    let group = target(&[first, second]);
    let workers = vec![worker(&group), worker(&group)];
    let again = first.to_string();
    let seen = call_while(&group, |calls| {
        calls.until_more(200);
        active.kill();
        calls.until_more(200);
        let back = [&["--listen", &again][..], &SERVICE].concat();
        active = router(&back).0;
        calls.until_more(200);
        // Wherever calls go by now: the other router is there in any case.
        active.kill();
        calls.until_more(200);
    });
    // What a router has given goes on, and what it has not is asked of the other one.
    check(&seen, workers, 0);
}
