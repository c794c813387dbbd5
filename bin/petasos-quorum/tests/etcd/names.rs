//! Petasos' own channels find servers whose addresses are in a group, as in etcd.

use std::time::Duration;

use petasos::{Request, Server, block_on};
use petasos_etcd::Registration;
use petasos_health::{HealthCheckRequest, HealthClient};

use crate::servers::{Member, until};

#[test]
fn servers_are_found_while_they_are_registered() {
    let member = Member::start(10, 1, &["--in-memory", "--init", "--keeps", "etcd"]);
    let target = format!("etcd://{}/guides", member.port);
    let (reporter, service) = petasos_health::service();
    let server = Server::builder().add(service).listen("127.0.0.1:0").start().unwrap();
    let address = server.local_address().unwrap();
    let channel = petasos_etcd::channel(&target).unwrap().wait_for_ready(true);
    let client = HealthClient::new(channel.connect_lazily().unwrap());
    let check = || {
        let check = Request::new(HealthCheckRequest::new());
        block_on(client.check(check.with_timeout(Duration::from_secs(20))))
    };
    // The lease is renewed: the address is there for longer than it would live without that.
    let life = Duration::from_secs(2);
    let registration = block_on(Registration::new(&target, address, life)).unwrap();
    for _ in 0..15 {
        assert!(check().is_ok());
        std::thread::sleep(life / 10);
    }
    // One that is registered no more is not found by others.
    block_on(registration.end());
    until(|| {
        let fresh = petasos_etcd::channel(&target).unwrap().timeout(Duration::from_millis(200));
        let fresh = HealthClient::new(fresh.connect_lazily().unwrap());
        block_on(fresh.check(HealthCheckRequest::new())).is_err()
    });
    drop(reporter);
}
