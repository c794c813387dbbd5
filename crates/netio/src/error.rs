//! Errors of backends.

use core::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why a peer's address could not become a [`Route`](crate::Route).
#[derive(Debug)]
#[non_exhaustive]
pub enum RouteError {
    /// The backend cannot reach addresses of this family (an IPv6 peer from an IPv4 socket).
    /// The caller's fault; a retry fails again.
    WrongFamily(SocketAddr),
    /// The operating system knows no route to the peer. A retry may succeed once the network is up.
    Unreachable(io::Error),
    /// The route table is full. Closing sessions makes room.
    TableFull,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::WrongFamily(address) => {
                write!(f, "{address} is of another address family than the local socket")
            }
            RouteError::Unreachable(error) => write!(f, "no route to the peer: {error}"),
            RouteError::TableFull => write!(f, "the route table is full"),
        }
    }
}

impl std::error::Error for RouteError {}

/// Why a backend could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The address is in use by another socket. Choose another port.
    AddressInUse(SocketAddr),
    /// The address is not one of this host's.
    AddressNotLocal(SocketAddr),
    /// The operating system refused for another reason.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::AddressInUse(address) => write!(f, "{address} is already in use"),
            SetupError::AddressNotLocal(address) => {
                write!(f, "{address} is not an address of this host")
            }
            SetupError::System { attempt, error } => write!(f, "cannot {attempt}: {error}"),
        }
    }
}

impl std::error::Error for SetupError {}

/// Whether a backend at `local` can have a route to `peer`: both addresses must be of one family,
/// and the peer must have a port.
///
/// # Errors
/// [`RouteError::WrongFamily`] or [`RouteError::Unreachable`].
pub fn check_peer(local: SocketAddr, peer: SocketAddr) -> Result<(), RouteError> {
    match is_of_family(local, peer) {
        false => Err(RouteError::WrongFamily(peer)),
        true if peer.port() == 0 => {
            Err(RouteError::Unreachable(io::ErrorKind::InvalidInput.into()))
        }
        true => Ok(()),
    }
}

/// Whether both addresses are of one family. An IPv4-mapped IPv6 address belongs to neither.
fn is_of_family(local: SocketAddr, peer: SocketAddr) -> bool {
    match (local.ip(), peer.ip()) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(_), IpAddr::V6(ip)) => ip.to_ipv4_mapped().is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_of_the_same_family_and_has_a_port() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("it is an address");
        let check = |local, peer| check_peer(address(local), address(peer));
        let (v4, v6) = ("127.0.0.1:1", "[::1]:1");
        assert!(check(v4, v4).is_ok() && check(v6, v6).is_ok());
        for (local, peer) in [(v4, v6), (v6, v4), (v6, "[::ffff:127.0.0.1]:1")] {
            assert!(matches!(check(local, peer), Err(RouteError::WrongFamily(_))), "{peer}");
        }
        assert!(matches!(check(v4, "127.0.0.1:0"), Err(RouteError::Unreachable(_))));
    }
}
