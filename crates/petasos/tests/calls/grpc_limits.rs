//! The limits of a gRPC port.
#![cfg(feature = "grpc")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::greeter::Service;
use crate::greeter::generated::GreeterServer;
use petasos::Server;
use petasos::grpc::GrpcConfig;

/// A connection that the server has greeted; `None` if it has closed it.
fn greeted(address: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).expect("the port listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sockets have timeouts");
    // It may be closed already.
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    matches!(stream.read(&mut [0]), Ok(1)).then_some(stream)
}

#[test]
fn issue_10_threads_of_a_grpc_port_share_its_limits() {
    let mut config = GrpcConfig::default();
    config.connections_per_address_max = 3;
    let server = Server::builder().add(GreeterServer::new(Service::default()));
    let server = server.grpc("127.0.0.1:0", config).grpc_threads(3).start().expect("it starts");
    let address = server.grpc_address().expect("it has a gRPC port");
    let held: Vec<_> = (0..12).filter_map(|_| greeted(address)).collect();
    assert_eq!(held.len(), 3, "the address's limit holds for all threads together");
    let stats = server.grpc_stats().expect("it has a gRPC port");
    assert_eq!(stats.address_connections_refused, 9);
}
