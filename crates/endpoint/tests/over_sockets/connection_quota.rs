//! Over TLS, connections and handshakes count for the names that peers have proved.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};

use petasos_endpoint::{Credentials, Node, NodeConfig, Pem, TlsConfig};
use petasos_tls::PeerTls;

use crate::certificates::{Authority, secured_node};
use crate::common::*;

const GREEDY: &str = "spiffe://test/greedy";
const OTHER: &str = "spiffe://test/other";
const LOCALHOST: [u8; 4] = [127, 0, 0, 1];

/// A node that serves, and its authority.
fn server(change: impl FnOnce(&mut NodeConfig)) -> (Node, Server, Authority) {
    let authority = Authority::new("one");
    let credentials = Credentials::Pem(authority.pem("server.test"));
    let mut config = NodeConfig {
        listen: Some(SocketAddr::new(localhost(), 0)),
        tls: Some(TlsConfig { credentials, allow: None }),
        ..NodeConfig::default()
    };
    change(&mut config);
    let node = Node::start(config).expect("the certificate is good");
    let server = Server::start(&node, localhost());
    (node, server, authority)
}

fn address(node: &Node) -> SocketAddr {
    node.local_address().expect("it listens")
}

/// A connection from an address of this host that has proved a name, and says nothing more.
fn proven(from: [u8; 4], pem: &Pem, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
    bind(&socket, &SocketAddr::from((from, 0))).expect("all of 127.0.0.0/8 is this host");
    connect(&socket, &to).expect("the node listens");
    let mut stream = TcpStream::from(socket);
    let tls = PeerTls::from_pem(pem, b"petasos-control/1", None).expect("the certificate is good");
    // A connection that is closed at once shows when it is read.
    let _ = tls.dial(to.ip()).complete_io(&mut stream);
    stream
}

/// Waits until the other end has closed the connection.
fn is_closed(mut stream: TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

fn is_served(pem: Pem, server: SocketAddr) {
    let node = secured_node(false, pem, None);
    let mut client = client(&node, localhost());
    let session = client.connect_and_wait(server, PATIENCE).expect("there is room for others");
    echoes(&mut client, session);
}

/// Issue 10: behind one address (a NAT, a host of many containers) one name took the connections
/// of all.
#[test]
fn issue_10_names_behind_one_address_have_connections_each() {
    let _watchdog = watchdog("connections of names");
    let (node, _server, authority) = server(|config| {
        (config.connections_per_address_max, config.connections_per_name_max) = (8, 8);
    });
    let greedy = authority.pem(GREEDY);
    let _held: Vec<_> = (0..8).map(|_| proven(LOCALHOST, &greedy, address(&node))).collect();
    is_closed(proven(LOCALHOST, &greedy, address(&node)));
    is_served(authority.pem(OTHER), address(&node));
}

/// Issue 10: one name had as many connections as it had addresses.
#[test]
fn issue_10_one_name_leaves_connections_to_others_wherever_it_calls_from() {
    let _watchdog = watchdog("connections of one name");
    let (node, _server, authority) = server(|config| {
        (config.connections_max, config.connections_per_name_max) = (4, 2);
    });
    let greedy = authority.pem(GREEDY);
    let held: Vec<_> =
        (2..4).map(|host| proven([127, 0, 0, host], &greedy, address(&node))).collect();
    for host in 4..10 {
        is_closed(proven([127, 0, 0, host], &greedy, address(&node)));
    }
    assert_eq!(node.stats().name_connections_refused, 6);
    is_served(authority.pem(OTHER), address(&node));
    drop(held);
}

/// A name that has all its connections took handshakes of its address for each further one.
#[test]
fn a_full_name_leaves_handshakes_to_others_behind_its_address() {
    let _watchdog = watchdog("handshakes beside a full name");
    let (node, _server, authority) = server(|config| {
        (config.handshakes_per_second, config.connections_per_name_max) = (8, 1);
    });
    let names = [GREEDY, "spiffe://test/too"].map(|name| authority.pem(name));
    let held = names.each_ref().map(|pem| proven(LOCALHOST, pem, address(&node)));
    for pem in &names {
        (0..6).for_each(|_| is_closed(proven(LOCALHOST, pem, address(&node))));
    }
    assert_eq!(node.stats().name_connections_refused, 12);
    is_served(authority.pem(OTHER), address(&node));
    assert_eq!(node.stats().handshakes_refused, 0);
    drop(held);
}

/// Issue 10: the handshakes of all names behind an address counted together.
#[test]
fn issue_10_names_behind_one_address_begin_handshakes_each() {
    let _watchdog = watchdog("handshakes of names");
    let (node, _server, authority) = server(|config| config.handshakes_per_second = 2);
    for number in 0..8 {
        is_served(authority.pem(&format!("spiffe://test/{number}")), address(&node));
    }
    assert_eq!(node.stats().handshakes_refused, 0);
}
