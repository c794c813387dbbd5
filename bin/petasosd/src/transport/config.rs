//! How other hosts are reached.

use std::net::{SocketAddr, TcpListener};

use petasos::config::Gathering;
use petasos::{PacketTransport, Security};
use petasos_service::ListenerId;

/// Where calls come in, and where they go.
#[derive(Clone, Debug, Default)]
pub struct TransportConfig {
    /// Where other hosts call applications of this one.
    pub listen: Option<SocketAddr>,
    /// Where gRPC clients do.
    pub listen_grpc: Option<SocketAddr>,
    /// The longest message of theirs, in bytes, if it is not gRPC's usual length.
    pub grpc_message_bytes: Option<usize>,
    /// What carries calls that are not gRPC's.
    pub packets: PacketTransport,
    /// How packets and connections are secured.
    pub security: Security,
    /// The hosts that it knows by name.
    pub peers: Peers,
    /// Applications that have a transport of their own. Their names have to be ones that are
    /// proved: others get nothing of it.
    pub applications: Vec<ApplicationTransport>,
}

/// How other hosts reach one application, and it them, apart from all others (ADR 21).
#[derive(Clone, Debug)]
pub struct ApplicationTransport {
    /// Its name.
    pub application: String,
    /// Where other hosts call it, and no other application.
    pub listen: Option<SocketAddr>,
    /// Where gRPC clients do.
    pub listen_grpc: Option<SocketAddr>,
    /// Its certificate; none if it has the service's.
    pub security: Option<Security>,
}

/// Other hosts, as an operator names them. They may change while calls run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Names that applications call, and the targets (`petasos://HOST:PORT`, `grpc://HOST:PORT`)
    /// that they stand for.
    pub peers: Vec<(String, String)>,
    /// The names of services that are believed about which application calls.
    pub believed: Vec<String>,
}

impl TransportConfig {
    /// The switch that TCP has.
    pub fn gathering(&self) -> Option<Gathering> {
        match &self.packets {
            PacketTransport::Tcp(tcp) => Some(tcp.gathering.clone()),
            PacketTransport::Datagrams => None,
        }
    }
}

/// What makes a transport.
pub struct One<'a> {
    /// Where other hosts call applications of this one.
    pub listen: Option<SocketAddr>,
    /// Where gRPC clients do.
    pub listen_grpc: Option<SocketAddr>,
    pub grpc_message_bytes: Option<usize>,
    pub packets: PacketTransport,
    pub security: Security,
    pub peers: &'a Peers,
    /// As what the hub knows its addresses.
    pub listener: ListenerId,
    /// Whether it tells other services which application calls: its certificate does not.
    pub vouches: bool,
}

/// Sockets of a process that this one takes over from, at which others than this host's connect: of
/// one transport.
#[derive(Default)]
pub struct Listeners {
    /// Other hosts.
    pub hosts: Option<TcpListener>,
    /// gRPC clients.
    pub grpc: Option<TcpListener>,
}
