//! Configuration.

use petasos_netio_shm::ShmConfig;
use petasos_netio_udp::UdpConfig;

/// When packets to processes of the same host go through shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalPolicy {
    /// Whenever both ends can: same host, same user, same network, mount and user namespace.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// Settings of a [`crate::LocalIo`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalConfig {
    /// Settings of the socket.
    pub udp: UdpConfig,
    /// Settings of the rings.
    pub shm: ShmConfig,
    /// When to use the rings.
    pub local: LocalPolicy,
}
