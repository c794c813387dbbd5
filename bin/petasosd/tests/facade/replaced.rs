//! The daemon is replaced while calls run (ADR 20).

mod audited;
pub mod chain;
mod hostile;
mod hosts;
mod states;
pub mod traffic;

use std::process::Command;
use std::time::Duration;

use petasos::{Channel, Code, Loop, LoopConfig, ServiceChoice, ServiceConfig, block_on};

use crate::support::*;
use chain::Chain;
use traffic::{Counting, Load};

/// Where the process of its own calls, if there is one.
const TARGET: &str = "PETASOS_TEST_TARGET";
const SOCKET: &str = "PETASOS_TEST_SOCKET";

#[test]
fn fifty_replacements_lose_and_repeat_nothing() {
    let mut chain = Chain::start("fifty", &[]);
    let (counts, server) = Counting::serve(&chain.daemon);
    let unary = Load::unary(&chain.daemon, &server, "unary", 0);
    let streams = Load::streams(&chain.daemon, &server, "streams", 1 << 40);
    for _ in 0..50 {
        chain.replace(&[]);
        chain.await_former();
    }
    let (unary, streams) = (unary.stop(), streams.stop());
    for done in [&unary, &streams] {
        assert_eq!(done.failed, Vec::<String>::new());
        assert!(done.ids.len() > 50, "{} is too few", done.ids.len());
        println!("{} went through, the longest pause was {:?}", done.ids.len(), done.gap);
    }
    let counts = counts.lock().unwrap();
    assert_eq!(counts.len(), unary.ids.len() + streams.ids.len(), "all have run");
    assert!(counts.values().all(|count| *count == 1), "and none twice");
    assert!(unary.ids.iter().chain(&streams.ids).all(|id| counts.contains_key(id)));
}

#[test]
fn a_successor_that_fails_before_it_serves_changes_nothing() {
    let policies = r#"[{"application": "client", "kind": "access", "configuration": {
        "default": "allow",
        "rules": [{"name": "no", "action": "deny", "methods": ["managed.Work/Fail"]}]
    }}]"#;
    // The client does not move while its loop does not turn.
    let options = ["--drain-timeout", "3"];
    let mut chain = Chain::start_with_policies("before", policies, &options);
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let client = client(&event_loop, &server);
    let works = |number| {
        event_loop.block_on(async {
            assert_eq!(client.echo(item("x", number)).await.unwrap().number(), number);
            let denied = client.fail(item("x", 9)).await.unwrap_err();
            assert_eq!(denied.code(), Code::PermissionDenied);
        });
    };
    works(1);
    let why = chain.fail_to_replace(&["--audit", "/nowhere/audit"]);
    assert!(why.contains("audit log"), "{why}");
    // One that is killed when it has everything and has not said that it serves.
    let socket = hostile::connect(&chain);
    hostile::say(&socket, &hostile::HELLO);
    assert!(hostile::hear(&socket) > 0, "it gets the offer");
    drop(socket);
    works(2);
    // The next one has the policies that are in force.
    chain.replace(&[]);
    works(3);
    chain.await_former();
    works(4);
}

#[test]
fn a_successor_that_dies_when_it_serves_is_a_crash() {
    let mut chain = Chain::start("after", &["--drain-timeout", "5"]);
    let (counts, server) = Counting::serve(&chain.daemon);
    let unary = Load::unary(&chain.daemon, &server, "unary", 0);
    for _ in 0..2 {
        chain.replace(&[]);
        chain.kill();
        chain.restart();
        // Calls go on when all have attached again.
        unary.await_more();
        chain.await_former();
        unary.await_more();
    }
    let done = unary.stop();
    println!("{} went through, {} failed", done.ids.len(), done.failed.len());
    for failed in &done.failed {
        assert!(failed.contains("Unavailable"), "{failed}");
    }
    let counts = counts.lock().unwrap();
    assert!(counts.values().all(|count| *count == 1), "none ran twice");
    assert!(done.ids.iter().all(|id| counts.contains_key(id)), "what was answered has run");
}

#[test]
fn a_stream_that_does_not_end_is_ended_with_the_process() {
    let mut chain = Chain::start("drain", &["--drain-timeout", "1"]);
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.unwrap();
        out.send(item("before", 1)).await.unwrap();
        assert_eq!(back.message().await.unwrap().unwrap().number(), 1);
        chain.replace(&[]);
        // It goes on where it has begun, and new ones begin at the successor.
        out.send(item("meanwhile", 2)).await.unwrap();
        assert_eq!(back.message().await.unwrap().unwrap().number(), 2);
        assert_eq!(client.echo(item("new", 3)).await.unwrap().number(), 3);
        let ended = back.message().await.unwrap_err();
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        assert_eq!(client.echo(item("new", 4)).await.unwrap().number(), 4);
    });
    chain.await_former();
    event_loop.block_on(async {
        assert_eq!(client.echo(item("new", 5)).await.unwrap().number(), 5);
    });
}

#[test]
fn who_comes_during_a_replacement_finds_the_servers() {
    let mut chain = Chain::start("comes", &[]);
    let server = chain.daemon.server("server");
    for number in 0..5 {
        chain.replace(&[]);
        let mut caller = Command::new(std::env::current_exe().unwrap());
        caller.args(["--exact", "replaced::a_process_of_its_own_calls"]);
        caller.env(TARGET, server.local_address().unwrap().to_string());
        caller.env(SOCKET, chain.folder().join("socket"));
        let output = caller.output().unwrap();
        assert!(output.status.success(), "{number}: {}", String::from_utf8_lossy(&output.stdout));
        chain.await_former();
    }
}

#[test]
fn what_a_process_attaches_besides_during_a_replacement_finds_the_servers() {
    let mut chain = Chain::start("besides", &[]);
    let (service, listen) = (chain.daemon.service("server"), "127.0.0.1:0".parse().unwrap());
    let config = LoopConfig { service, listen: Some(listen), ..LoopConfig::default() };
    let event_loop = Loop::new(config).unwrap();
    event_loop.serve(managed::WorkServer::new(Worker)).unwrap();
    event_loop.block_on(event_loop.served()).unwrap();
    let target = format!("petasos://{}", event_loop.local_address().unwrap());
    // The server does not move as long as its loop does not turn.
    chain.replace(&[]);
    let service = chain.daemon.service("besides");
    let (tell, told) = tokio::sync::oneshot::channel();
    let caller = std::thread::spawn(move || {
        let echoed = block_on(async {
            let channel = Channel::builder(&target).service(service).connect().await.unwrap();
            managed::WorkClient::new(channel).echo(item("besides", 1)).await
        });
        let _ = tell.send(());
        echoed.map(|item| item.number())
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!caller.is_finished(), "{:?}", caller.join());
    event_loop.block_on(told).unwrap();
    assert_eq!(caller.join().unwrap().unwrap(), 1);
    chain.await_former();
}

/// What `who_comes_during_a_replacement_finds_the_servers` does in another process; without one,
/// nothing.
#[test]
fn a_process_of_its_own_calls() {
    let (Ok(target), Ok(socket)) = (std::env::var(TARGET), std::env::var(SOCKET)) else { return };
    let config = ServiceConfig::new(&format!("unix:{socket}")).unwrap();
    let service = ServiceChoice::Managed(config.application("late").unwrap());
    block_on(async {
        let channel = Channel::builder(&format!("petasos://{target}")).service(service);
        let client = managed::WorkClient::new(channel.connect().await.unwrap());
        assert_eq!(client.echo(item("new", 1)).await.unwrap().number(), 1);
    });
}

#[test]
fn one_that_cannot_reach_other_hosts_does_not_get_to_serve() {
    let mut chain = Chain::start("cannot-reach", &[]);
    let why = chain.fail_to_replace(&["--peer", "there=http://h:1"]);
    assert!(why.contains("http://h:1"), "{why}");
    goes_on(&chain);
    chain.replace(&[]);
    chain.await_former();
    goes_on(&chain);
}

fn goes_on(chain: &Chain) {
    let server = chain.daemon.server("server");
    let event_loop = chain.daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        assert_eq!(client.echo(item("on", 1)).await.unwrap().number(), 1);
    });
}
