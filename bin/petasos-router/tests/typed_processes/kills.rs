//! Workers and routers are killed.

use std::path::Path;

use crate::callers::{Place, call_at, worker_at};
use crate::certificates::{self, Folder};
use crate::support::{Process, router};
use crate::typed::{SERVICE, check, target};

fn worker(group: &str) -> Process {
    worker_at(group, &Place::default())
}

fn of_folder(folder: &Path) -> Place {
    Place { folder: Some(folder.to_owned()), ..Place::default() }
}

#[test]
fn rt15_a_killed_worker_costs_no_call_that_may_run_twice_and_nothing_runs_twice() {
    workers_are_killed(&["--listen", "127.0.0.1:0"]);
}

#[test]
fn rt15_the_same_holds_where_a_thread_of_its_own_hears_feedback() {
    workers_are_killed(&["--listen", "127.0.0.1:0", "--feedback", "127.0.0.1:0"]);
}

fn workers_are_killed(options: &[&str]) {
    const KILLS: usize = 4;
    let (_router, address) = router(&[options, &SERVICE].concat());
    let group = target(&[address]);
    let mut workers = vec![worker(&group), worker(&group)];
    let seen = call_at(&group, &Place::default(), |until_more| {
        for kill in 0..KILLS {
            until_more(100);
            workers[kill].kill();
            until_more(100);
            workers.push(worker(&group));
        }
        until_more(100);
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
    let worker = || worker_at(&group, &of_folder(of_worker.path()));
    let mut workers = vec![worker(), worker()];
    let seen = call_at(&group, &of_folder(of_client.path()), |until_more| {
        for kill in 0..KILLS {
            until_more(100);
            workers[kill].kill();
            until_more(100);
            workers.push(worker());
        }
        until_more(100);
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
    let seen = call_at(&group, &Place::default(), |until_more| {
        until_more(200);
        active.kill();
        until_more(200);
        let back = [&["--listen", &again][..], &SERVICE].concat();
        active = router(&back).0;
        until_more(200);
        // Wherever calls go by now: the other router is there in any case.
        active.kill();
        until_more(200);
    });
    // What a router has given goes on, and what it has not is asked of the other one.
    check(&seen, workers, 0);
}
