//! Channels over several servers, and over servers that come and go.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;
use petasos::{Balance, Channel, Code, ConnectError, Server, block_on};

/// An address where nobody listens.
fn free_address() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound")
}

fn three() -> (Vec<Service>, Vec<Server>, String) {
    let services: Vec<Service> = (0..3).map(|_| Service::default()).collect();
    let servers: Vec<Server> = services.iter().map(start).collect();
    let addresses = servers.iter().map(|server| server.local_address().expect("it listens"));
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    (services, servers, format!("petasos://{}", addresses.join(",")))
}

fn begun(services: &[Service]) -> Vec<u64> {
    services.iter().map(|service| service.seen().begun).collect()
}

/// Calls until each server but those that are `gone` has had its first, then 90 times more.
fn spread(balance: Balance) -> (Vec<u64>, GreeterClient, Vec<Service>, Vec<Server>) {
    let (services, servers, target) = three();
    let channel = Channel::builder(&target).balance(balance);
    let client = GreeterClient::new(block_on(channel.connect()).expect("the servers are up"));
    if balance != Balance::PickFirst {
        until(|| {
            assert!(block_on(client.greet(name("x"))).is_ok());
            begun(&services).iter().all(|begun| *begun > 0)
        });
    }
    let before = begun(&services);
    for _ in 0..90 {
        assert!(block_on(client.greet(name("x"))).is_ok());
    }
    let after = begun(&services);
    let each = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    (each, client, services, servers)
}

#[test]
fn the_first_server_takes_all_calls_unless_told_otherwise() {
    let (each, ..) = spread(Balance::PickFirst);
    assert_eq!(each, [90, 0, 0]);
}

#[test]
fn servers_take_turns() {
    let (each, client, services, mut servers) = spread(Balance::RoundRobin);
    assert_eq!(each, [30, 30, 30]);
    // One of them ends: the others go on, and no call is lost once that is known.
    drop(servers.remove(0));
    until(|| block_on(client.greet(name("x"))).is_ok());
    let before = begun(&services);
    for _ in 0..60 {
        let _may_find_it_gone = block_on(client.greet(name("x")));
    }
    let after = begun(&services);
    assert!(after[1] > before[1] && after[2] > before[2], "{before:?} {after:?}");
    assert!((0..30).all(|_| block_on(client.greet(name("x"))).is_ok()));
}

#[test]
fn calls_under_way_and_reports_spread_calls() {
    for balance in [Balance::PowerOfTwo, Balance::Prequal] {
        let (each, ..) = spread(balance);
        assert_eq!(each.iter().sum::<u64>(), 90);
        assert!(each.iter().all(|calls| *calls > 0), "{balance:?}: {each:?}");
    }
}

#[test]
fn what_cannot_be_reached_fails_the_connect() {
    let target = format!("petasos://{}", free_address());
    let error = block_on(Channel::connect(&target)).expect_err("nobody listens");
    assert!(matches!(&error, ConnectError::Unreachable(status) if
        status.code() == Code::Unavailable && status.message().contains("nothing listens")));
    let error = block_on(Channel::connect("petasos://nowhere")).expect_err("it has no port");
    assert!(matches!(error, ConnectError::Target(_)));
    let lazily = Channel::builder(&target).connect_lazily().expect("it is not connected yet");
    let refused = block_on(GreeterClient::new(lazily).greet(name("x")));
    assert_eq!(refused.expect_err("nobody listens").code(), Code::Unavailable);
}

#[test]
fn a_listener_that_says_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let target = format!("petasos://{}", silent.local_addr().expect("it is bound"));
    let channel = Channel::builder(&target).connect_timeout(Duration::from_millis(50));
    let error = block_on(channel.connect()).expect_err("nobody answers");
    let ConnectError::Unreachable(status) = error else { panic!("{error}") };
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

#[test]
fn calls_wait_for_a_server_if_told_to() {
    let address = free_address();
    let channel = Channel::builder(&format!("petasos://{address}")).wait_for_ready(true);
    let client = GreeterClient::new(channel.connect_lazily().expect("it is not connected yet"));
    let waiting = client.greet(name("patient"));
    let given_up = client.greet(name("hold"));
    let service = Service::default();
    let server = builder(&service).listen(address).start().expect("the port is free");
    assert_eq!(block_on(waiting).expect("it waits").text(), "hello, patient");
    drop(given_up);
    until(|| {
        let seen = service.seen();
        seen.dropped + 1 == seen.begun
    });
    drop(server);
}

#[test]
fn names_are_looked_up() {
    let service = Service::default();
    let server = start(&service);
    let port = server.local_address().expect("it listens").port();
    let client = GreeterClient::new(connect(&format!("petasos://localhost:{port}")));
    assert!(block_on(client.greet(name("x"))).is_ok());
    let error = block_on(Channel::connect("petasos://no-such-host.invalid:1"));
    let error = error.expect_err("nobody has that name");
    assert!(matches!(error, ConnectError::Unreachable(_)), "{error:?}");
}

#[test]
fn a_server_that_is_started_anew_is_found_again() {
    let service = Service::default();
    let server = start(&service);
    let address = server.local_address().expect("it listens");
    let client = client(&server);
    let held = client.greet(name("hold"));
    until(|| service.seen().begun == 1);
    assert_eq!(block_on(server.shut_down()).calls, 1);
    assert_eq!(block_on(held).expect_err("its server is gone").code(), Code::Unavailable);
    let again = Service::default();
    let server = builder(&again).listen(address).start().expect("the port is free again");
    until(|| block_on(client.greet(name("again"))).is_ok());
    assert!(again.seen().begun > 0);
    drop(server);
}

const CHILD: &str = "PETASOS_TEST_SERVES_AT";

/// Not a test of its own: the server process of the next one.
#[test]
fn child_process() {
    let Ok(address) = std::env::var(CHILD) else { return };
    let server = builder(&Service::default()).listen(address).start();
    let _server = server.expect("the port is free");
    std::thread::sleep(PATIENCE);
}

struct Process(Child);

impl Process {
    fn start(address: std::net::SocketAddr) -> Process {
        let program = std::env::current_exe().expect("a test knows itself");
        let mut command = Command::new(program);
        command.args(["--exact", "channels::child_process"]).env(CHILD, address.to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Process(child.expect("the program can be started"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already need not be ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_is_killed_fails_its_calls_and_is_found_again() {
    let address = free_address();
    let process = Process::start(address);
    let channel = Channel::builder(&format!("petasos://{address}")).wait_for_ready(true);
    let client = GreeterClient::new(channel.connect_lazily().expect("it is not connected yet"));
    assert!(block_on(client.greet(name("x"))).is_ok());
    let held = client.greet(name("hold"));
    drop(process);
    assert_eq!(block_on(held).expect_err("its server is gone").code(), Code::Unavailable);
    let _process = Process::start(address);
    until(|| block_on(client.greet(name("again"))).is_ok());
}
