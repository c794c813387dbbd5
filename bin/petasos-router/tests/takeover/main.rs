//! Two routers with a virtual address, on hosts of a segment that the tests make: they are killed,
//! cut off, set apart and restarted while typed calls run, whose group is named by the virtual
//! address only.

#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
#[path = "../../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
mod routers;
#[path = "../../../../crates/netlink/tests/segment/mod.rs"]
mod segment;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/typed.rs"]
mod typed;

use std::time::Duration;

use petasos_netlink::VirtualAddress;
use rustix::process::{Pid, Signal, kill_process};

use certificates::{Authority, Folder};
use routers::{Site, VIRTUAL};
use segment::until;
use typed::{check, run_worker};

/// How often routers are killed, instead of a few times.
const KILLS: &str = "PETASOS_TEST_KILLS";

/// Not a test of its own: what a worker's process runs.
#[test]
fn child_worker() {
    run_worker();
}

#[test]
fn rt38_killed_active_routers_cost_no_call_and_nothing_runs_twice() {
    let kills = std::env::var(KILLS).map_or(3, |kills| kills.parse().expect("a number"));
    let Some(mut site) = Site::new() else { return };
    let (workers, mut recoveries) = (site.workers(), Vec::new());
    let seen = site.call_while(|calls, site| {
        for _ in 0..kills {
            site.until_both_know(2);
            calls.until_more(20);
            let active = site.active();
            calls.longest();
            site.kill(active);
            until("the other one is active", || site.is_active(site.other(active)));
            calls.until_more(20);
            recoveries.push(calls.longest());
            site.start(active);
        }
    });
    recoveries.sort_unstable();
    let (median, p90) = (recoveries[kills / 2], recoveries[kills * 9 / 10]);
    println!("{kills} kills: the longest call beside one took {median:?}, p90 {p90:?}");
    check(&seen, workers, 0);
}

#[test]
fn no_call_fails_while_routers_and_workers_are_restarted_in_turn() {
    let Some(mut site) = Site::new() else { return };
    let (mut workers, mut leaving) = (site.workers(), 0);
    let seen = site.call_while(|calls, site| {
        for _ in 0..2 {
            site.until_both_know(2);
            calls.until_more(20);
            let active = site.active();
            site.terminate(active);
            until("the other one has taken over", || site.is_active(site.other(active)));
            calls.until_more(20);
            site.start(active);
            site.until_both_know(2);
            site.until_one_has_the_address();
            // And a worker drains, leaves and comes back.
            let worker = &mut workers[leaving];
            let pid = Pid::from_child(&worker.child);
            kill_process(pid, Signal::TERM).expect("it is our child");
            assert!(worker.child.wait().expect("it is our child").success());
            calls.until_more(20);
            // What it has run counts still.
            leaving = workers.len();
            workers.push(site.worker(3));
        }
    });
    check(&seen, workers, 0);
}

#[test]
fn rt38_an_active_router_that_is_cut_off_is_replaced_and_stands_by_when_it_is_back() {
    let Some(mut site) = Site::new() else { return };
    let workers = site.workers();
    let seen = site.call_while(|calls, site| {
        for _ in 0..2 {
            site.until_both_know(2);
            calls.until_more(20);
            let active = site.active();
            site.segment.plug(active, false);
            until("the other one is active", || site.is_active(site.other(active)));
            calls.until_more(50);
            assert!(site.is_active(active), "nobody has told it");
            site.segment.plug(active, true);
            site.until_one_has_the_address();
            calls.until_more(20);
        }
    });
    check(&seen, workers, 0);
}

#[test]
fn rt38_two_active_routers_do_no_harm() {
    let Some(mut site) = Site::new() else { return };
    let workers = site.workers();
    let seen = site.call_while(|calls, site| {
        site.until_both_know(2);
        [1, 2].into_iter().for_each(|router| site.segment.set_apart(router, true));
        until("both are active", || site.is_active(1) && site.is_active(2));
        calls.until_more(300);
        assert!(site.is_active(1) && site.is_active(2));
        [1, 2].into_iter().for_each(|router| site.segment.set_apart(router, false));
        site.until_one_has_the_address();
        calls.until_more(50);
    });
    check(&seen, workers, 0);
}

#[test]
fn a_host_that_announces_the_address_stops_no_call_of_who_is_attached() {
    let Some(mut site) = Site::new() else { return };
    let workers = site.workers();
    let seen = site.call_while(|calls, site| {
        site.until_both_know(2);
        let stolen = VirtualAddress::new("v0", VIRTUAL, 24).expect("it is right");
        site.segment.hosts[5].run(|| {
            stolen.take(Duration::from_secs(600)).expect("root may");
            stolen.announce().expect("root may");
        });
        calls.until_more(100);
        let active = site.active();
        site.kill(active);
        until("the other one is active", || site.is_active(site.other(active)));
        calls.until_more(100);
    });
    check(&seen, workers, 0);
}

#[test]
fn a_stranger_at_the_address_of_the_other_router_is_not_heard() {
    let Some(mut site) = Site::without_routers() else { return };
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let start = |site: &mut Site, number: u8, authority: &Authority| {
        let folder = Folder::new(&format!("takeover-{number}"));
        folder.write(&authority.pem("router.test"));
        let file = |name| folder.path().join(name).to_str().expect("it is text").to_owned();
        let [cert, key, ca] = ["certificate", "key", "authorities"].map(file);
        let files = ["--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &ca];
        // The certificates do not name the routers' addresses.
        site.start_with(number, &[&files[..], &["--allow", "router.test"]].concat());
        folder
    };
    let _stranger = start(&mut site, 2, &others);
    until("it says that it is active", || site.is_active(2));
    let folder = start(&mut site, 1, &ours);
    until("a router that does not hear it is active as well", || site.is_active(1));
    // With a certificate of the same authority it is heard.
    site.kill(1);
    drop(folder);
    let _ours = start(&mut site, 1, &others);
    until("the routers know each other", || site.knows_the_other(1));
    site.until_one_has_the_address();
}
