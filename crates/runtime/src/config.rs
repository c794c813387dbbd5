//! What loops can be told, and what can go wrong with them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use petasos_call::ServiceError;
use petasos_endpoint::{
    AttachError, EndpointConfig, LocalConfig, LocalIo, NodeConfig, NodeError, SessionConfig,
    TlsConfig, UdpConfig,
};

/// How other processes are spoken with over datagrams. Shared memory is between processes of one
/// user, and is not sealed.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// In the clear, and on loopback only: everything else is refused.
    #[default]
    Loopback,
    /// In the clear, wherever it may be: for networks in which everybody is trusted.
    Plaintext,
    /// Over TLS 1.3, where both ends have certificates, and with sealed packets (ADR 12).
    Tls(TlsConfig),
}

/// Settings of a loop.
#[derive(Clone, Debug)]
pub struct LoopConfig {
    /// Where other processes ask for sessions, over TCP; `None` if the loop only calls.
    pub listen: Option<SocketAddr>,
    /// Where packets leave from; `None` for the address above, or any of IPv4, or `127.0.0.1` with
    /// [`Security::Loopback`], whose sockets stay on this host in any case. Any of IPv6, `::`,
    /// reaches IPv4 as well.
    pub ip: Option<IpAddr>,
    /// Of all its sessions.
    pub security: Security,
    /// Of the endpoint.
    pub endpoint: EndpointConfig,
    /// Of its sockets and rings.
    pub io: LocalConfig,
}

/// Concurrent calls of a session at most, unless told otherwise: as many as there can be.
const SLOTS: u32 = 64;

impl Default for LoopConfig {
    fn default() -> LoopConfig {
        let session = SessionConfig { slots: SLOTS, ..SessionConfig::default() };
        let endpoint = EndpointConfig { session, ..EndpointConfig::default() };
        let (security, io) = (Security::default(), LocalConfig::default());
        LoopConfig { listen: None, ip: None, security, endpoint, io }
    }
}

impl LoopConfig {
    /// What the loop's node is told.
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
    pub fn open(&self) -> Result<LocalIo, LoopError> {
        let (ip, io) = (self.own_ip(), LocalConfig { udp: self.udp(), ..self.io });
        let io = LocalIo::bind(SocketAddr::new(ip, 0), &io);
        io.map_err(|error| LoopError::Sockets(Box::new(error)))
    }

    /// Where packets leave from.
    fn own_ip(&self) -> IpAddr {
        let listens_at = self.listen.map(|listen| listen.ip());
        let any = match self.security {
            Security::Loopback => Ipv4Addr::LOCALHOST,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        self.ip.or(listens_at).unwrap_or(IpAddr::V4(any))
    }

    fn udp(&self) -> UdpConfig {
        let (ip, mut udp) = (self.own_ip(), self.io.udp);
        udp.dual_stack |= ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        // All its peers are on this host, and no address of one family reaches both.
        udp.loopback_only |= matches!(self.security, Security::Loopback) && ip.is_unspecified();
        udp
    }
}

/// Why there is no loop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// The thread has a loop already. The program's fault.
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
    /// The loop's thread has failed.
    #[error("the loop's thread has failed")]
    Panicked,
    /// The system gave no thread.
    #[error("cannot start the loop's thread: {0}")]
    Thread(io::Error),
    /// The system gave no descriptor.
    #[error("the system gave no file descriptor for the loop: {0}")]
    Descriptor(#[from] io::Error),
}

/// Why a service is not served. The program's fault; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// In a handler or a spawned future: the loop turns.
    #[error("services cannot be added while the loop turns")]
    Turning,
    /// The service's methods are not those of its description.
    #[error("the service's methods are not those of its description")]
    Methods,
    /// The service does not fit with the others.
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
    }
}
