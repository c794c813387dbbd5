//! Servers that are listed in etcd: an etcd server is started, if the host has one.

mod cluster;
#[path = "../../petasos/tests/greeter/mod.rs"]
mod greeter;
#[path = "etcd/key.rs"]
mod key;
#[path = "../../petasos/tests/servers/mod.rs"]
mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use cluster::{Etcd, free_address};
use greeter::generated::GreeterClient;
use greeter::{Service, name};
use petasos::{Balance, Channel, Code, ConnectError, Request, TargetError, block_on};
use petasos_etcd::{RegisterError, Registration};
use servers::{PATIENCE, start, until};

const LIFE: Duration = Duration::from_secs(3);

fn register(etcd: &Etcd, prefix: &str, address: SocketAddr) -> Registration {
    let mut registration = None;
    // It may have to choose a leader first.
    until(|| {
        registration = block_on(Registration::new(&etcd.target(prefix), address, LIFE)).ok();
        registration.is_some()
    });
    registration.expect("it was just made")
}

fn client(etcd: &Etcd, prefix: &str) -> GreeterClient {
    let channel = petasos_etcd::channel(&etcd.target(prefix))
        .expect("it is a target")
        .balance(Balance::RoundRobin);
    let channel = channel.wait_for_ready(true).timeout(PATIENCE / 2).connect_lazily();
    GreeterClient::new(channel.expect("the target is one"))
}

/// Calls until each of these has taken one more.
fn reach(client: &GreeterClient, services: &[&Service]) {
    let begun = || services.iter().map(|service| service.seen().begun).collect::<Vec<_>>();
    let before = begun();
    until(|| {
        let _may_find_one_gone = block_on(client.greet(name("x")));
        begun().iter().zip(&before).all(|(begun, before)| begun > before)
    });
}

#[test]
fn servers_come_and_go() {
    let Some(mut etcd) = Etcd::start("come") else { return };
    let services = [Service::default(), Service::default(), Service::default()];
    let servers = services.each_ref().map(start);
    let addresses = servers.each_ref().map(|server| server.local_address().expect("it listens"));
    let client = client(&etcd, "test/guide");
    // The channel waits for the first.
    let waiting = client.greet(name("patient"));
    let first = register(&etcd, "test/guide", addresses[0]);
    assert!(block_on(waiting).is_ok());
    let _second = register(&etcd, "test/guide", addresses[1]);
    reach(&client, &[&services[0], &services[1]]);
    // What is beside the prefix, or no address, is passed over.
    etcd.put("test/guide2/x", &addresses[2].to_string());
    etcd.put("test/guide/broken", "nowhere");
    block_on(first.end());
    let mut rest = 0;
    until(|| {
        let before = services[0].seen().begun;
        assert!(block_on(client.greet(name("x"))).is_ok());
        rest = if services[0].seen().begun == before { rest + 1 } else { 0 };
        rest == 20
    });
    // Without etcd, the servers that are known go on.
    etcd.stop();
    for _ in 0..20 {
        assert!(block_on(client.greet(name("x"))).is_ok());
    }
    assert!(etcd.run());
    let _third = register(&etcd, "test/guide", addresses[2]);
    reach(&client, &[&services[1], &services[2]]);
}

#[test]
fn plain_values_and_names_are_addresses() {
    let Some(etcd) = Etcd::start("plain") else { return };
    let service = Service::default();
    let server = start(&service);
    let port = server.local_address().expect("it listens").port();
    until(|| {
        let channel = block_on(Channel::connect(&format!("grpc://{}", etcd.address)));
        channel.is_ok()
    });
    etcd.put("plain/a", &format!("localhost:{port}"));
    reach(&client(&etcd, "plain"), &[&service]);
}

#[test]
fn without_etcd_calls_say_so() {
    let address = free_address();
    let target = format!("etcd://{address}/x");
    let channel = petasos_etcd::channel(&target)
        .expect("it is a target")
        .connect_lazily()
        .expect("the target is one");
    let request = Request::new(name("x")).with_timeout(PATIENCE / 2);
    let status = block_on(GreeterClient::new(channel).greet(request)).expect_err("nobody listens");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let registered = block_on(Registration::new(&target, address, LIFE));
    assert!(matches!(registered, Err(RegisterError::Etcd(_))));
    for broken in ["etcd://", "etcd://a:1", "etcd://a:1/", "etcd://a/x"] {
        let error = petasos_etcd::channel(broken).expect_err("it leads nowhere");
        assert!(matches!(error, ConnectError::Target(TargetError::Form(_))), "{error}");
    }
}
