//! A loop as a task of a current-thread Tokio runtime, over sockets.
#![cfg(feature = "tokio")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::greeter::generated::{GreeterClient, GreeterServer};
use crate::greeter::*;
use petasos::{Code, Loop, LoopConfig, Request};

const PATIENCE: Duration = Duration::from_secs(50);

fn loopback() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
}

#[test]
fn a_runtime_drives_both_ends() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let tasks = tokio::task::LocalSet::new();
    let all = tasks.run_until(async {
        let config = LoopConfig { listen: Some(loopback()), ..LoopConfig::default() };
        let event_loop = Loop::new(config).expect("loopback has ports");
        let service = Service::default();
        event_loop.serve(GreeterServer::new(service.clone())).expect("it is the only service");
        tokio::task::spawn_local(event_loop.drive());
        let client =
            GreeterClient::new(event_loop.channel(event_loop.local_address().expect("it listens")));
        for n in 0..100 {
            let greeting = client.greet(name(&n.to_string())).await.expect("the handler answers");
            assert_eq!(greeting.text(), format!("hello, {n}"));
        }
        // Several at once, and one that the runtime's own timer lets go on.
        let (a, b) = (client.greet(name("a")), client.greet(name("hold")));
        assert!(a.await.is_ok());
        tokio::time::sleep(Duration::from_millis(2)).await;
        let held = {
            let mut seen = service.seen();
            seen.release = true;
            std::mem::take(&mut seen.held)
        };
        held.into_iter().for_each(std::task::Waker::wake);
        assert_eq!(b.await.expect("the handler answers").text(), "hello, held");
        // A deadline comes without packets.
        service.seen().release = false;
        let request = Request::new(name("hold")).with_timeout(Duration::from_millis(20));
        let late = client.greet(request).await.expect_err("it is held");
        assert_eq!(late.code(), Code::DeadlineExceeded);
        // Nobody listens there.
        let nobody = std::net::UdpSocket::bind(loopback()).expect("loopback has ports");
        let nobody = nobody.local_addr().expect("it is bound");
        let nobody = GreeterClient::new(event_loop.channel(nobody));
        let refused = nobody.greet(name("x")).await.expect_err("nobody listens");
        assert_eq!(refused.code(), Code::Unavailable);
    });
    let in_time = runtime.block_on(async { tokio::time::timeout(PATIENCE, all).await });
    in_time.expect("it does not hang");
}
