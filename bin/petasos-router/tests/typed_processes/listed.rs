//! Routers that are listed in etcd, and workers and clients that follow the list.

use std::net::{SocketAddr, TcpListener};

use petasos::{Channel, Request, block_on};
use petasos_etcd::api::{KVClient, RangeRequest};
use rustix::process::{Pid, Signal, kill_process};

use crate::callers::{Place, call_at, worker_at};
use crate::cluster::Etcd;
use crate::generated::{GreeterClient, Name};
use crate::support::{Process, router};
use crate::typed::{PATIENCE, SERVICE, channel, check, joined, server, target};
use crate::until::until;

const PREFIX: &str = "groups/greeter";

fn group(etcd: &Etcd) -> String {
    format!("router+{}", etcd.target(PREFIX))
}

fn listed_router(group: &str) -> (Process, SocketAddr) {
    let options = ["--listen", "127.0.0.1:0", "--drain-s", "1", "--etcd", group];
    router(&[&options[..], &SERVICE].concat())
}

fn worker(group: &str) -> Process {
    worker_at(group, &Place::default())
}

/// The keys under the group's prefix, without that.
fn keys(etcd: &Etcd) -> Vec<String> {
    let (begin, end) = (format!("{PREFIX}/"), format!("{PREFIX}0"));
    let mut range = RangeRequest::new();
    range.edit().set_key(begin.as_bytes()).set_range_end(end.as_bytes());
    let read = async {
        let channel = Channel::connect(&format!("grpc://{}", etcd.address)).await.ok()?;
        KVClient::new(channel).range(range).await.ok()
    };
    let Some(answer) = block_on(read) else { return Vec::new() };
    let keys = answer.kvs().iter().map(|pair| String::from_utf8_lossy(pair.key()).into_owned());
    keys.map(|key| key[begin.len()..].to_owned()).collect()
}

/// Waits until exactly these routers are listed.
fn until_listed(etcd: &Etcd, routers: &[SocketAddr]) {
    let mut expected: Vec<_> = routers.iter().map(SocketAddr::to_string).collect();
    expected.sort();
    until(|| keys(etcd) == expected);
}

/// Waits until a group answers by way of the one router with this address.
fn until_it_routes(router: SocketAddr) {
    until(|| {
        let Ok(channel) = block_on(Channel::connect(&target(&[router]))) else { return false };
        let greet = Request::new(Name::new()).with_timeout(PATIENCE);
        block_on(GreeterClient::new(channel).greet(greet)).is_ok()
    });
}

fn greet(group: &str) {
    let client = channel(group).connect_lazily().expect("it is a target");
    let greet = Request::new(Name::new()).with_timeout(PATIENCE);
    block_on(GreeterClient::new(client).greet(greet)).expect("it waits for a router");
}

fn terminate(process: &mut Process) {
    let pid = Pid::from_child(&process.child);
    kill_process(pid, Signal::TERM).expect("it is our child");
    assert!(process.child.wait().expect("it is our child").success());
}

#[test]
fn rt38_members_follow_routers_that_come_end_and_are_killed() {
    let Some(etcd) = Etcd::start("routers") else { return };
    let group = group(&etcd);
    let (mut first, at_first) = listed_router(&group);
    let workers = vec![worker(&group), worker(&group)];
    let mut others = Vec::new();
    let seen = call_at(&group, &Place::default(), |until_more| {
        until_more(30);
        let (mut second, at_second) = listed_router(&group);
        until_it_routes(at_second);
        until_listed(&etcd, &[at_first, at_second]);
        until_more(30);
        // One that ends takes its address away itself.
        terminate(&mut first);
        until_listed(&etcd, &[at_second]);
        until_more(30);
        let (third, at_third) = listed_router(&group);
        until_it_routes(at_third);
        until_listed(&etcd, &[at_second, at_third]);
        until_more(30);
        // That of one that is killed goes with its lease.
        second.kill();
        until_more(30);
        until_listed(&etcd, &[at_third]);
        until_more(30);
        others.push(third);
    });
    // Each of three threads has one call under way when a router goes.
    check(&seen, workers, 2 * 3);
}

#[test]
fn a_router_serves_without_etcd_and_is_listed_when_that_is_there() {
    let Some(mut etcd) = Etcd::start("late") else { return };
    let group = group(&etcd);
    etcd.stop();
    let (mut first, at_first) = listed_router(&group);
    // Who knows its address needs no etcd.
    let _worker = worker(&target(&[at_first]));
    until_it_routes(at_first);
    assert!(etcd.run());
    until_listed(&etcd, &[at_first]);
    greet(&group);
    // A worker that was started before any router is there.
    terminate(&mut first);
    until_listed(&etcd, &[]);
    let early = server().listen("127.0.0.1:0").join(joined(&group)).start();
    let early = early.expect("it waits for nobody");
    assert!(early.routers().is_empty());
    let (_second, at_second) = listed_router(&group);
    until(|| early.routers().iter().any(|at| at.is_member && at.router == at_second));
    greet(&group);
}

#[test]
fn what_is_no_router_is_passed_over() {
    let Some(etcd) = Etcd::start("wrong") else { return };
    let group = group(&etcd);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let silent = listener.local_addr().expect("it is bound").to_string();
    for (key, value) in [
        ("a", "nowhere"),
        ("b", "{\"Op\":0,\"Addr\":[]}"),
        ("c", "router.invalid:7000"),
        ("d", &silent),
        ("e", "\u{1b}[2J:1"),
    ] {
        etcd.put(&format!("{PREFIX}/{key}"), value);
    }
    // More than a group has, after the right one.
    for number in 1..20 {
        etcd.put(&format!("{PREFIX}/x{number}"), &format!("127.0.0.1:{number}"));
    }
    let (_router, _) = listed_router(&group);
    let _worker = worker(&group);
    greet(&group);
}
