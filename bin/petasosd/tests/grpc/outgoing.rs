//! Applications behind the service call servers of tonic.

use std::time::Duration;

use petasos::{Balance, Channel, Code, Request, block_on};

use crate::facade::managed::WorkClient;
use crate::facade::{Daemon, item};
use crate::support::{NO_EVE, client};
use crate::tonic_work::{Told, TonicServer};

/// A service that lets calls out.
fn daemon(name: &str, policies: Option<&str>) -> Daemon {
    let arguments = ["--listen", "127.0.0.1:0"];
    Daemon::start_saying(name, policies, &arguments, "at petasos://").0
}

fn tonic() -> (TonicServer, String) {
    let server = TonicServer::start("127.0.0.1:0", None);
    let target = format!("grpc://{}", server.address);
    (server, target)
}

#[test]
fn calls_of_all_kinds_leave() {
    let daemon = daemon("out-kinds", None);
    let (_server, target) = tonic();
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        let failed = client.fail(item("not today", 9)).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (Code::FailedPrecondition, "not today"));
        assert_eq!(failed.metadata().get("why"), Some("asked"));

        let mut counted = client.count(item("n", 300)).await.unwrap();
        assert_eq!(counted.head().await.unwrap().get("counts"), Some("on"));
        for number in 0..300 {
            assert_eq!(counted.message().await.unwrap().unwrap().number(), number);
        }
        assert!(counted.message().await.unwrap().is_none());

        let mut items = client.sum();
        for number in 0..300 {
            items.send(item("n", number)).await.unwrap();
        }
        assert_eq!(items.finish().await.unwrap().number(), 299 * 300 / 2);

        let (mut out, mut back) = client.chat().await.unwrap();
        for number in 0..100 {
            out.send(item("ping", number)).await.unwrap();
            assert_eq!(back.message().await.unwrap().unwrap().number(), number);
        }
        out.close();
        assert!(back.message().await.unwrap().is_none());
    });
}

#[test]
fn metadata_and_long_messages_go_along() {
    let daemon = daemon("out-metadata", None);
    let (_server, target) = tonic();
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        let mut message = item("x", 1);
        // tonic compresses the answer.
        message.set_blob(vec![7; 1 << 20]);
        let mut request = Request::new(message);
        request.metadata_mut().append("asked", "politely").unwrap();
        request.metadata_mut().append_bin("raw-bin", &[0, 255, 1]).unwrap();
        let echoed = client.echo(request).await.unwrap();
        assert_eq!(echoed.metadata().get("seen"), Some("politely"));
        assert_eq!(echoed.metadata().get_bin("seen-bin"), Some(&[0, 255, 1][..]));
        assert_eq!(echoed.blob(), vec![7; 1 << 20]);
    });
}

#[test]
fn policies_of_the_application_see_the_calls_before_they_leave() {
    let daemon = daemon("out-policies", Some(NO_EVE));
    let (server, target) = tonic();
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        assert_eq!(client.echo(item("ann", 1)).await.unwrap().text(), "ann");
        let refused = client.echo(item("eve", 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert_eq!(client.echo(item("bob", 3)).await.unwrap().text(), "bob");
    });
    let echoed = ["ann", "bob"].map(|name| Told::Echoed(name.to_owned()));
    assert_eq!([server.next(), server.next()], echoed, "eve's call has not left");
}

#[test]
fn a_channel_without_a_loop_goes_through_the_service_too() {
    let daemon = daemon("out-elsewhere", Some(NO_EVE));
    let (_server, target) = tonic();
    block_on(async {
        let channel = Channel::builder(&target).service(daemon.service("elsewhere"));
        let client = WorkClient::new(channel.connect().await.unwrap());
        assert_eq!(client.echo(item("ann", 1)).await.unwrap().text(), "ann");
        let refused = client.echo(item("eve", 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    });
}

#[test]
fn deadlines_and_cancels_reach_the_server() {
    let daemon = daemon("out-deadline", None);
    let (server, target) = tonic();
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        let late = Request::new(item("late", 1)).with_timeout(Duration::from_millis(200));
        let late = client.hold(late).await.unwrap_err();
        // tonic's own timer calls it cancelled.
        let is_late = matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled);
        assert!(is_late, "{late}");
        assert_eq!([server.next(), server.next()], [Told::Holds(true), Told::Left]);
    });
    let mut held = client.hold(item("held", 1));
    event_loop.block_on(async {
        std::future::poll_fn(|cx| {
            assert!(std::pin::Pin::new(&mut held).poll(cx).is_pending());
            match server.told.try_recv() {
                Ok(told) => {
                    assert_eq!(told, Told::Holds(false));
                    std::task::Poll::Ready(())
                }
                Err(_) => {
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
            }
        })
        .await;
        drop(held);
        // The next call shows that the cancel has been sent.
        client.echo(item("next", 1)).await.unwrap();
    });
    let mut after = [server.next(), server.next()];
    after.sort_by_key(|told| *told == Told::Left);
    assert_eq!(after, [Told::Echoed("next".to_owned()), Told::Left]);
}

#[test]
fn a_server_that_is_killed_ends_its_streams_and_is_called_again() {
    let daemon = daemon("out-killed", None);
    let (server, target) = tonic();
    let address = server.address.to_string();
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        let (mut out, mut back) = client.chat().await.unwrap();
        out.send(item("ping", 1)).await.unwrap();
        assert_eq!(back.message().await.unwrap().unwrap().number(), 1);
        drop(server);
        let ended = back.message().await.unwrap_err();
        assert_eq!(ended.code(), Code::Unavailable, "{ended}");
        let unreachable = client.echo(item("x", 1)).await.unwrap_err();
        assert_eq!(unreachable.code(), Code::Unavailable, "{unreachable}");
        let _again = TonicServer::start(&address, None);
        for _ in 0..3000 {
            if let Ok(echoed) = client.echo(item("again", 2)).await {
                assert_eq!(echoed.number(), 2);
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server is back");
    });
}

#[test]
fn several_servers_of_a_target_are_tried_or_called_in_turn() {
    let daemon = daemon("out-several", None);
    let (server, _) = tonic();
    // Nobody is at the first address.
    let target = format!("grpc://127.0.0.1:1,{}", server.address);
    let (event_loop, client) = client(&daemon, &target);
    event_loop.block_on(async {
        for number in 0..20 {
            assert_eq!(client.echo(item("x", number)).await.unwrap().number(), number);
        }
    });
    drop((client, event_loop));
    // Otherwise the program balances: over both, in turn.
    let (other, _) = tonic();
    let event_loop = daemon.event_loop("balances");
    let target = format!("grpc://{},{}", server.address, other.address);
    let channel = Channel::builder(&target).balance(Balance::RoundRobin).connect_lazily();
    let client = WorkClient::new(channel.unwrap());
    let heard = || [&server, &other].map(|server| server.told.try_iter().count());
    event_loop.block_on(async {
        assert_eq!(heard(), [20, 0]);
        // Only servers that are connected have a turn.
        let mut connected = [false; 2];
        while connected != [true; 2] {
            client.echo(item("x", 1)).await.unwrap();
            let heard = heard();
            connected = [0, 1].map(|at| connected[at] || heard[at] > 0);
        }
        for number in 0..20 {
            assert_eq!(client.echo(item("x", number)).await.unwrap().number(), number);
        }
    });
    assert_eq!(heard(), [10, 10]);
}
