//! Generated stubs, unchanged, through the managed service.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod acting;
mod buffers;
#[path = "../../../../crates/endpoint/tests/certificates/mod.rs"]
mod certificates;
mod described;
mod flow;
mod kept;
mod killed;
mod limits;
#[path = "../objects/mod.rs"]
mod objects;
mod replaced;
mod retries;
mod runtimes;
mod support;
mod untyped;
mod users;
mod without_types;

use std::time::Duration;

use petasos::config::TcpConfig;
use petasos::{
    Code, Loop, LoopConfig, PacketTransport, Request, Server, ServiceChoice, ServiceConfig, Status,
    block_on,
};

use support::managed::WorkClient;
use support::*;

#[test]
fn unary_calls_go_through_the_service_in_loops_and_outside() {
    let daemon = Daemon::start("unary", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let here = client(&event_loop, &server);
    event_loop.block_on(async {
        for number in 0..100 {
            let echoed = here.echo(item("here", number)).await.unwrap();
            assert_eq!((echoed.text(), echoed.number()), ("here", number));
        }
    });
    // Channels of this thread would be that loop's.
    drop((here, event_loop));
    block_on(async {
        let there = client_elsewhere(&daemon, &server).await;
        let echoed = there.echo(item("elsewhere", 7)).await.unwrap();
        assert_eq!(echoed.text(), "elsewhere");
    });
}

#[test]
fn messages_of_all_lengths_arrive_whole() {
    let daemon = Daemon::start("lengths", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        for bytes in [0, 1, 500, 4096, 70_000, 1 << 20, 5 << 20] {
            let mut message = item("long", bytes as i64);
            let blob: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
            message.set_blob(&blob);
            let echoed = client.echo(message).await.unwrap();
            assert!(echoed.blob() == blob, "{bytes} bytes");
        }
    });
}

#[test]
fn many_calls_at_once_all_end() {
    let daemon = Daemon::start("many", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let calls: Vec<_> = (0..3000).map(|number| client.echo(item("all", number))).collect();
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().number(), number as i64);
        }
    });
}

#[test]
fn statuses_metadata_and_deadlines_go_along() {
    let daemon = Daemon::start("parts", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let mut request = Request::new(item("x", 0));
        request.metadata_mut().append("asked", "politely").unwrap();
        // Not an application's to say.
        request.metadata_mut().append("petasos-caller", "somebody else").unwrap();
        let echoed = client.echo(request).await.unwrap();
        assert_eq!(echoed.metadata().get("seen"), Some("politely"));
        let failed = client.fail(item("not today", 9)).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not today"));
        let request = Request::new(item("late", 1)).with_timeout(Duration::from_millis(30));
        let late = client.hold(request).await.unwrap_err();
        assert_eq!(late.code(), Code::DeadlineExceeded);
        // A call that is dropped is cancelled, and the next one is not harmed.
        drop(client.hold(item("dropped", 1)));
        assert_eq!(client.echo(item("next", 1)).await.unwrap().number(), 1);
    });
}

#[test]
fn streams_of_all_kinds_go_through_the_service() {
    let daemon = Daemon::start("streams", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        let mut counted = client.count(item("n", 500)).await.unwrap();
        for number in 0..500 {
            assert_eq!(counted.message().await.unwrap().unwrap().number(), number);
        }
        assert!(counted.message().await.unwrap().is_none());

        let mut items = client.sum();
        for number in 0..500 {
            items.send(item("n", number)).await.unwrap();
        }
        assert_eq!(items.finish().await.unwrap().number(), 499 * 500 / 2);

        let (mut out, mut back) = client.chat().await.unwrap();
        for number in 0..300 {
            out.send(item("ping", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
        }
        out.close();
        assert!(back.message().await.unwrap().is_none());
    });
}

#[test]
fn policies_of_both_sides_see_the_calls() {
    let policies = r#"[
        {"application": "server", "kind": "access", "configuration": {
            "default": "allow",
            "rules": [{
                "name": "no eve", "action": "deny", "methods": ["managed.Work/Echo"],
                "fields": [{"path": "text", "is": {"equals": "eve"}}]
            }]
        }}
    ]"#;
    let daemon = Daemon::start("access", Some(policies));
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        assert!(client.echo(item("ann", 1)).await.is_ok());
        let refused = client.echo(item("eve", 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        assert!(client.echo(item("bob", 3)).await.is_ok());
    });
}

#[test]
fn a_service_that_is_killed_and_comes_back_is_used_again() {
    let mut daemon = Daemon::start("killed", None);
    let server = daemon.server("server");
    let event_loop = daemon.event_loop("client");
    let client = client(&event_loop, &server);
    event_loop.block_on(async {
        assert!(client.echo(item("before", 1)).await.is_ok());
        let lost = client.hold(item("lost", 1));
        // It is on its way.
        assert!(client.echo(item("behind it", 1)).await.is_ok());
        daemon.kill();
        let status: Status = lost.await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        daemon.restart();
        for _ in 0..2000 {
            if let Ok(echoed) = client.echo(item("again", 2)).await {
                assert_eq!(echoed.number(), 2);
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the service is back, and so is its server");
    });
}

#[test]
fn without_a_service_calls_fail_with_advice() {
    let daemon = Daemon::start("gone", None);
    let event_loop = daemon.event_loop("client");
    let server = daemon.server("server");
    let client = client(&event_loop, &server);
    drop(daemon);
    let status = event_loop.block_on(client.echo(item("x", 1))).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("petasosd"), "{}", status.message());
}

#[test]
fn an_address_is_served_by_one_application_of_this_host_only() {
    let daemon = Daemon::start("addresses", None);
    let server = daemon.server("server");
    let address = server.local_address().unwrap();
    // Its calls are not another's, nor those of another host.
    for (stolen, why) in [(address, "in use"), ("192.0.2.1:7000".parse().unwrap(), "this host")] {
        let config = LoopConfig {
            service: daemon.service("thief"),
            listen: Some(stolen),
            ..LoopConfig::default()
        };
        let error = Loop::new(config).err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    block_on(server.shut_down());
    // It is free again, as soon as the service has noticed.
    let again = || Server::builder().listen(address).service(daemon.service("server")).start();
    let started = (0..2000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        again().ok()
    });
    assert_eq!(started.unwrap().local_address(), Some(address));
}

#[test]
fn without_a_service_a_server_does_not_start() {
    let service = ServiceConfig::new("unix:/nonexistent/petasosd.sock").unwrap();
    let server = Server::builder().listen("127.0.0.1:0").service(ServiceChoice::Managed(service));
    let error = server.start().err().unwrap().to_string();
    assert!(error.contains("is petasosd running"), "{error}");
}

/// A call and streams of a client.
async fn check_all(client: &WorkClient) {
    let mut request = Request::new(item("typed", 7));
    request.metadata_mut().append("petasos-caller", "somebody else").unwrap();
    let echoed = client.echo(request).await.unwrap();
    assert_eq!((echoed.text(), echoed.number()), ("typed", 7));
    let refused = client.fail(item("as asked", i64::from(Code::Aborted as u8))).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Aborted, "as asked"));
    let mut counted = client.count(item("n", 300)).await.unwrap();
    for number in 0..300 {
        assert_eq!(counted.message().await.unwrap().unwrap().number(), number);
    }
    assert!(counted.message().await.unwrap().is_none());
    let (mut out, mut back) = client.chat().await.unwrap();
    for number in 0..10 {
        out.send(item("chat", number)).await.unwrap();
        assert_eq!(back.message().await.unwrap().unwrap().number(), number);
    }
    out.close();
    assert!(back.message().await.unwrap().is_none());
}

#[test]
fn stubs_reach_other_hosts_with_and_without_services_there() {
    let (here, _) = Daemon::start_reached("hosts-here", "127.0.0.1:0");
    let (there, address) = Daemon::start_reached("hosts-there", "127.0.0.2:0");
    let (_managed, plain) = (there.server("server"), plain_server());
    let event_loop = here.event_loop("client");
    let at = |address| WorkClient::new(event_loop.channel(address));
    let managed_there = at(address);
    let plain_there = at(plain.local_address().unwrap());
    event_loop.block_on(async {
        check_all(&managed_there).await;
        check_all(&plain_there).await;
    });
    drop((managed_there, plain_there, event_loop));
    // A client without a service, whose messages are native where they can be.
    let config = LoopConfig { service: ServiceChoice::Direct, ..LoopConfig::default() };
    let event_loop = Loop::new(config).unwrap();
    let client = WorkClient::new(event_loop.channel(address));
    event_loop.block_on(check_all(&client));
}

#[test]
fn stubs_reach_other_hosts_over_tcp() {
    let (here, _) = Daemon::start_over_tcp("tcp-here", "127.0.0.1:0");
    let (there, address) = Daemon::start_over_tcp("tcp-there", "127.0.0.2:0");
    let _managed = there.server("server");
    let event_loop = here.event_loop("client");
    let client = WorkClient::new(event_loop.channel(address));
    event_loop.block_on(check_all(&client));
    drop((client, event_loop));
    // A client without a service, which chooses TCP by itself; and one that does not.
    let transport = PacketTransport::Tcp(TcpConfig::default());
    let direct = LoopConfig { service: ServiceChoice::Direct, ..LoopConfig::default() };
    let event_loop = Loop::new(LoopConfig { transport, ..direct.clone() }).unwrap();
    let client = WorkClient::new(event_loop.channel(address));
    event_loop.block_on(check_all(&client));
    drop((client, event_loop));
    let event_loop = Loop::new(direct).unwrap();
    let client = WorkClient::new(event_loop.channel(address));
    let refused = event_loop.block_on(client.echo(item("over UDP", 1))).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
}

#[test]
fn a_loop_that_another_executor_drives_hears_of_memory_and_bindings() {
    let daemon = Daemon::start("driven", None);
    let server = daemon.server("server");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let event_loop = daemon.event_loop("client");
        let client = client(&event_loop, &server);
        tokio::task::spawn_local(event_loop.drive());
        // The first message already needs more memory than there is at first.
        for bytes in [3 << 20, 10, 6 << 20] {
            let mut message = item("driven", 1);
            message.set_blob(vec![7; bytes]);
            let echoed = tokio::time::timeout(Duration::from_secs(30), client.echo(message)).await;
            assert_eq!(echoed.unwrap().unwrap().blob().len(), bytes);
        }
    });
}
