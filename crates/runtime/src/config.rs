//! Configuration of loops, and their errors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use petasos_call::ServiceError;
use petasos_endpoint::{
    AttachError, Backend, EndpointConfig, GroupOpenError, LocalConfig, LocalIo, NodeConfig,
    NodeError, SessionConfig, TcpConfig, TcpIo, TlsConfig, UdpConfig,
};
#[cfg(feature = "fabric")]
use petasos_endpoint::{FabricConfig, FabricIo};
use petasos_managed::{ConfigError, ServiceConfig};

/// How datagrams to and from other processes are secured. Shared memory is only used between
/// processes of one user, and is not sealed.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Plaintext, on loopback only. Everything else is refused.
    #[default]
    Loopback,
    /// Plaintext, over any network. For networks in which everyone is trusted.
    Plaintext,
    /// TLS 1.3 with certificates at both ends, and sealed packets (ADR 12).
    Tls(TlsConfig),
}

/// What carries the packets of a loop's sessions. Both ends must have chosen the same.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum PacketTransport {
    /// UDP, and shared memory between processes of one host: [`LoopConfig::io`].
    #[default]
    Datagrams,
    /// TCP connections, one per pair of loops: for networks that let nothing else through, or whose
    /// own congestion control is wanted (ADR 28). Processes of one host use TCP as well.
    Tcp(TcpConfig),
    /// libfabric's datagram endpoints, so RDMA NICs (ADR 7); with the cargo feature `fabric`. The
    /// loop needs the address of one NIC, in [`LoopConfig::ip`] or [`LoopConfig::listen`].
    /// Processes of one host use the fabric as well.
    #[cfg(feature = "fabric")]
    Fabric(FabricConfig),
}

/// Whether a loop's calls go through the managed service of its host.
#[derive(Clone, Debug, Default)]
pub enum ServiceChoice {
    /// They do if the environment variable `PETASOS_SERVICE` names a service, as `unix:PATH`.
    #[default]
    Environment,
    /// They do not.
    Direct,
    /// They go through this one.
    Managed(ServiceConfig),
}

impl ServiceChoice {
    /// The service, if calls go through one.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn resolve(&self) -> Result<Option<ServiceConfig>, ConfigError> {
        match self {
            ServiceChoice::Environment => ServiceConfig::from_env(),
            ServiceChoice::Direct => Ok(None),
            ServiceChoice::Managed(config) => Ok(Some(config.clone())),
        }
    }
}

/// Settings of a loop.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// The TCP address at which other processes ask for sessions; `None` if the loop only makes
    /// calls.
    pub listen: Option<SocketAddr>,
    /// The IP address of the packet sockets. `None` means that of `listen`, or else any IPv4
    /// address, or `127.0.0.1` with [`Security::Loopback`], whose sockets stay on this host in any
    /// case. The unspecified IPv6 address `::` reaches IPv4 as well.
    pub ip: Option<IpAddr>,
    /// How all its sessions are secured.
    pub security: Security,
    /// What carries the packets of its sessions.
    pub transport: PacketTransport,
    /// Whether calls go through the managed service of this host. Then the loop opens no sockets:
    /// `ip`, `security`, `transport` and `io` are the service's concern, and `listen` is the name
    /// under which the loop serves there. A loop that would spin before it sleeps gives up its
    /// processor meanwhile, since the service may need it.
    pub service: ServiceChoice,
    /// Settings of the endpoint.
    pub endpoint: EndpointConfig,
    /// Settings of sockets and rings.
    pub io: LocalConfig,
}

/// The most concurrent calls of a session by default: as many as the protocol allows.
const SLOTS: u32 = 64;

impl Default for LoopConfig {
    fn default() -> LoopConfig {
        let session = SessionConfig { slots: SLOTS, ..SessionConfig::default() };
        let endpoint = EndpointConfig { session, ..EndpointConfig::default() };
        let (security, io) = (Security::default(), LocalConfig::default());
        let (service, transport) = (ServiceChoice::default(), PacketTransport::default());
        LoopConfig { listen: None, ip: None, security, transport, service, endpoint, io }
    }
}

impl LoopConfig {
    /// The configuration of the loop's node.
    #[doc(hidden)]
    pub fn node(&self) -> NodeConfig {
        let (tls, plaintext) = match &self.security {
            Security::Loopback => (None, false),
            Security::Plaintext => (None, true),
            Security::Tls(tls) => (Some(tls.clone()), false),
        };
        NodeConfig { listen: self.listen, tls, plaintext, ..NodeConfig::default() }
    }

    /// Opens the sockets and rings.
    #[doc(hidden)]
    pub fn open(&self) -> Result<Backend, LoopError> {
        let address = SocketAddr::new(self.own_ip(), 0);
        let io = match &self.transport {
            PacketTransport::Datagrams => {
                let io = LocalConfig { udp: self.udp(), ..self.io };
                LocalIo::bind(address, &io).map(Backend::from)
            }
            PacketTransport::Tcp(tcp) => TcpIo::bind(address, self.tcp(tcp)).map(Backend::from),
            #[cfg(feature = "fabric")]
            PacketTransport::Fabric(fabric) => return self.open_fabric(address, fabric),
        };
        io.map_err(|error| LoopError::Sockets(Box::new(error)))
    }

    /// No socket option keeps a fabric's packets on this host.
    #[cfg(feature = "fabric")]
    fn open_fabric(
        &self,
        address: SocketAddr,
        fabric: &FabricConfig,
    ) -> Result<Backend, LoopError> {
        if matches!(self.security, Security::Loopback) && !address.ip().is_loopback() {
            let text = format!("plaintext packets stay on loopback, and {} does not", address.ip());
            return Err(LoopError::Sockets(text.into()));
        }
        let io = FabricIo::bind(address, fabric).map(Backend::from);
        io.map_err(|error| LoopError::Sockets(Box::new(error)))
    }

    /// The IP address of the packet sockets.
    fn own_ip(&self) -> IpAddr {
        let listens_at = self.listen.map(|listen| listen.ip());
        let any = match self.security {
            Security::Loopback => Ipv4Addr::LOCALHOST,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        self.ip.or(listens_at).unwrap_or(IpAddr::V4(any))
    }

    fn udp(&self) -> UdpConfig {
        let mut udp = self.io.udp;
        udp.dual_stack |= self.is_dual_stack();
        udp.loopback_only |= self.stays_on_loopback();
        udp
    }

    fn tcp(&self, tcp: &TcpConfig) -> TcpConfig {
        let mut tcp = tcp.clone();
        tcp.dual_stack |= self.is_dual_stack();
        tcp.loopback_only |= self.stays_on_loopback();
        tcp
    }

    fn is_dual_stack(&self) -> bool {
        self.own_ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }

    /// Whether sockets must refuse other hosts: all peers are on this host, and no address of one
    /// family reaches both families.
    fn stays_on_loopback(&self) -> bool {
        matches!(self.security, Security::Loopback) && self.own_ip().is_unspecified()
    }
}

/// Why a loop could not be started, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// The thread already has a loop. The program's fault.
    #[error("this thread has a loop already")]
    AnotherHere,
    /// The sockets could not be opened.
    #[error("cannot open the loop's sockets: {0}")]
    Sockets(Box<dyn std::error::Error + Send + Sync>),
    /// The node could not be started.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The endpoint could not join its node.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The loop cannot join a group.
    #[error("cannot join the group: {0}")]
    Join(#[from] GroupOpenError),
    /// The loop's thread has failed.
    #[error("the loop's thread has failed")]
    Panicked,
    /// The managed service is not configured right. The fault of whoever set it.
    #[error(transparent)]
    Service(#[from] ConfigError),
    /// The managed service does not let the loop serve; the text says why.
    #[error("the managed service does not let this process serve: {0}")]
    NotServed(String),
    /// The system could not start a thread.
    #[error("cannot start the loop's thread: {0}")]
    Thread(io::Error),
    /// The system has no file descriptor left.
    #[error("cannot get a file descriptor for the loop: {0}")]
    Descriptor(#[from] io::Error),
}

impl LoopError {
    /// Whether the settings are at fault, so that trying again is of no use.
    pub fn is_of_settings(&self) -> bool {
        match self {
            LoopError::Service(_) => true,
            LoopError::Node(error) => error.is_of_settings(),
            _ => false,
        }
    }
}

/// Why a service could not be added. The program's fault; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The call came from a handler or a spawned future, while the loop turns.
    #[error("services cannot be added while the loop turns")]
    Turning,
    /// The service's methods differ from those of its description.
    #[error("the service's methods differ from those of its description")]
    Methods,
    /// The service conflicts with another one.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use petasos_netio::PacketIo;

    use super::*;

    #[test]
    fn sockets_of_loops_on_loopback_stay_there() {
        let config = LoopConfig::default();
        let io = config.open().expect("loopback has ports");
        assert!(io.local_address().ip().is_loopback(), "{}", io.local_address());
        let open = LoopConfig { security: Security::Plaintext, ..LoopConfig::default() };
        let io = open.open().expect("there are ports");
        assert!(io.local_address().ip().is_unspecified(), "it may have peers anywhere");
        let both = LoopConfig { ip: Some(Ipv6Addr::UNSPECIFIED.into()), ..LoopConfig::default() };
        assert!(both.udp().loopback_only && both.udp().dual_stack);
        let tcp = both.tcp(&TcpConfig::default());
        assert!(tcp.loopback_only && tcp.dual_stack);
        let transport = PacketTransport::Tcp(TcpConfig::default());
        let io = LoopConfig { transport, ..LoopConfig::default() }.open();
        let io = io.expect("loopback has ports");
        assert!(matches!(io, Backend::Tcp(_)) && io.local_address().ip().is_loopback());
    }

    #[test]
    #[cfg(feature = "fabric")]
    fn a_fabric_is_opened_at_the_address_of_one_nic() {
        let fabric = FabricConfig { provider: Some("udp".to_owned()), ..FabricConfig::default() };
        let transport = PacketTransport::Fabric(fabric);
        let config = LoopConfig { transport, ..LoopConfig::default() };
        let io = config.open().expect("loopback has ports");
        assert!(matches!(io, Backend::Fabric(_)) && io.local_address().ip().is_loopback());
        let refusal = |config: LoopConfig| config.open().err().expect("no address").to_string();
        let refused = refusal(LoopConfig { security: Security::Plaintext, ..config.clone() });
        assert!(refused.contains("no single interface"), "{refused}");
        let ip = Some(Ipv4Addr::new(192, 0, 2, 1).into());
        let refused = refusal(LoopConfig { ip, ..config });
        assert!(refused.contains("stay on loopback"), "{refused}");
    }
}
