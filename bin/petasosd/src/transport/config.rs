//! How other hosts are reached.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use clap::ValueEnum;
use petasos::config::{Switch, TcpConfig};
use petasos::{PacketTransport, Security};
use petasos_service::ListenerId;
use serde::Deserialize;

use crate::security::SecurityOptions;

/// What carries calls between hosts, besides gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// UDP, and shared memory to Petasos processes of this host that attach to no service.
    #[default]
    Datagrams,
    /// TCP connections.
    Tcp,
    /// libfabric's datagram endpoints, so RDMA NICs. Needs the cargo feature `fabric`.
    Fabric,
}

impl Carrier {
    /// What `--transport` calls it.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

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
    pub carrier: Carrier,
    /// How, if that is TCP.
    pub tcp: TcpConfig,
    /// How, if that is a fabric.
    pub fabric: Option<PacketTransport>,
    /// The address of the fabric's NIC, if it is not that of `listen`.
    pub nic: Option<IpAddr>,
    /// How packets and connections are secured.
    pub security: Security,
    /// The hosts that it knows by name.
    pub peers: Peers,
    /// Applications that have a transport of their own. Their names have to be ones that are
    /// proved: others get nothing of it.
    pub applications: Vec<ApplicationTransport>,
    /// What is under way by a transport of an application has so long to end when another one takes
    /// its place.
    pub drain: Duration,
}

/// How other hosts reach one application, and it them, apart from all others (ADR 21).
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationTransport {
    /// Its name.
    pub application: String,
    /// Where other hosts call it, and no other application.
    pub listen: Option<SocketAddr>,
    /// Where gRPC clients do.
    pub listen_grpc: Option<SocketAddr>,
    /// What carries its calls; none if it is what carries the service's.
    pub carrier: Option<Carrier>,
    /// Its certificate; none if it has the service's.
    pub certificate: Option<Certificate>,
}

/// A certificate, and whose others are taken.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// What was configured.
    pub options: SecurityOptions,
    /// What that means.
    pub security: Security,
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Certificate) -> bool {
        self.options == other.options
    }
}

impl ApplicationTransport {
    /// Whether others call it at addresses of its own.
    pub fn has_address(&self) -> bool {
        self.listen.is_some() || self.listen_grpc.is_some()
    }

    /// How its packets and connections are secured, if not as the service's are.
    pub fn security(&self) -> Option<&Security> {
        self.certificate.as_ref().map(|certificate| &certificate.security)
    }
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
    /// What a carrier means here.
    ///
    /// # Errors
    /// An application cannot have it.
    pub fn packets(&self, carrier: Carrier) -> Result<PacketTransport, String> {
        match carrier {
            Carrier::Datagrams => Ok(PacketTransport::Datagrams),
            Carrier::Tcp => Ok(PacketTransport::Tcp(self.tcp.clone())),
            Carrier::Fabric => self.fabric.clone().ok_or_else(|| {
                "`transport = \"fabric\"` is for services that have --transport fabric".to_owned()
            }),
        }
    }

    /// What carries packets, and its switches.
    pub fn carried(&self) -> Carried {
        let its = self.applications.iter().filter_map(|its| its.carrier);
        let has_tcp = its.chain([self.carrier]).any(|carrier| carrier == Carrier::Tcp);
        let fusing = match &self.fabric {
            #[cfg(feature = "fabric")]
            Some(PacketTransport::Fabric(fabric)) => Some(fabric.fusing.clone()),
            _ => None,
        };
        let gathering = has_tcp.then(|| self.tcp.gathering.clone());
        Carried { by: self.carrier, gathering, fusing }
    }
}

/// What carries packets between hosts, and what of it can be changed while it does.
#[derive(Clone, Debug)]
pub struct Carried {
    /// What carries those of the service.
    pub by: Carrier,
    /// Of TCP, if that carries anything: whether a batch of packets is sent in one system call.
    pub gathering: Option<Switch>,
    /// Of a fabric: whether packets of a batch share messages.
    pub fusing: Option<Switch>,
}

/// What makes a transport.
pub struct One<'a> {
    /// Where other hosts call applications of this one.
    pub listen: Option<SocketAddr>,
    /// Where gRPC clients do.
    pub listen_grpc: Option<SocketAddr>,
    pub grpc_message_bytes: Option<usize>,
    pub packets: PacketTransport,
    pub nic: Option<IpAddr>,
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
