//! The interface between the suite and a backend's tests.

use std::net::SocketAddr;

use petasos_netio::PacketIo;

/// Makes ports of the backend under test.
pub trait BackendFactory {
    /// The backend.
    type Io: PacketIo;

    /// `count` fresh ports, which reach each other at their [`PacketIo::local_address`].
    fn ports(&self, count: usize) -> Vec<Self::Io>;

    /// An address of a family that the ports cannot reach.
    fn foreign_address(&self) -> SocketAddr;

    /// Whether the ports report where frames come from (W32). A backend that does not must say why
    /// here, and must tell its users in its documentation.
    fn tells_origins(&self) -> bool {
        true
    }
}
