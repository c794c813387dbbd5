//! What a backend's tests bring.

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

    /// Whether the ports tell where frames come from (W32). Those that do not say why here, and
    /// users in the documentation of the backend.
    fn tells_origins(&self) -> bool {
        true
    }
}
