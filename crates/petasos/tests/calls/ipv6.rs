//! Servers of IPv6, alone and among servers of IPv4.

use std::net::UdpSocket;

use crate::greeter::generated::GreeterClient;
use crate::greeter::{Service, blob, name};
use crate::servers::{builder, connect, start, until};
use petasos::{Balance, Channel, Security, Server, block_on};

/// A server at `::1`; none, with a message, if the host has no IPv6.
fn start_ipv6(service: &Service) -> Option<Server> {
    if UdpSocket::bind("[::1]:0").is_err() {
        petasos_skips::skip("ipv6", "there is no IPv6");
        return None;
    }
    Some(builder(service).listen("[::1]:0").start().expect("loopback has ports"))
}

fn check(client: &GreeterClient) {
    assert_eq!(block_on(client.greet(name("x"))).expect("it answers").text(), "hello, x");
    let bytes = vec![7; 100_000];
    assert!(block_on(client.echo(blob(&bytes))).expect("it answers").bytes() == bytes);
}

#[test]
fn a_server_of_ipv6_answers() {
    let Some(server) = start_ipv6(&Service::default()) else { return };
    let address = server.local_address().expect("it listens");
    assert!(address.is_ipv6());
    check(&GreeterClient::new(connect(&format!("petasos://{address}"))));
    // As one of several names, which are looked up.
    check(&GreeterClient::new(connect(&format!("petasos://{address},localhost:{}", 1))));
}

#[test]
fn both_families_are_in_one_list() {
    let services = [Service::default(), Service::default()];
    let Some(six) = start_ipv6(&services[0]) else { return };
    let four = start(&services[1]);
    let addresses = [&six, &four].map(|server| server.local_address().expect("it listens"));
    for (first, second) in [(0, 1), (1, 0)] {
        let target = format!("petasos://{},{}", addresses[first], addresses[second]);
        let channel = Channel::builder(&target).balance(Balance::RoundRobin).connect();
        let client = GreeterClient::new(block_on(channel).expect("the servers are up"));
        let before = services.each_ref().map(|service| service.seen().begun);
        check(&client);
        until(|| {
            assert!(block_on(client.greet(name("x"))).is_ok());
            let begun = services.each_ref().map(|service| service.seen().begun);
            begun.iter().zip(&before).all(|(begun, before)| begun > before)
        });
    }
}

#[test]
fn a_server_at_any_address_answers_both_families() {
    let service = Service::default();
    if start_ipv6(&service).is_none() {
        return;
    }
    let server = builder(&service).listen("[::]:0").security(Security::Plaintext);
    let server = server.start().expect("there is IPv6");
    let port = server.local_address().expect("it listens").port();
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        check(&GreeterClient::new(connect(&format!("petasos://{host}:{port}"))));
    }
}

#[cfg(feature = "grpc")]
#[test]
fn likewise_over_grpc() {
    let service = Service::default();
    if start_ipv6(&service).is_none() {
        return;
    }
    let server = petasos::Server::builder()
        .add(crate::greeter::generated::GreeterServer::new(service))
        .grpc("[::1]:0", petasos::grpc::GrpcConfig::default());
    let server = server.start().expect("loopback has ports");
    let address = server.grpc_address().expect("it has a gRPC port");
    check(&GreeterClient::new(connect(&format!("grpc://{address}"))));
}
