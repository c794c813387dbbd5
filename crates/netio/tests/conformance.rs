//! The in-memory backend passes the suite.

use std::net::{Ipv6Addr, SocketAddr};

use petasos_netio::memory::{Hub, MemoryConfig, MemoryIo};
use petasos_netio_conformance::{BackendFactory, conformance_tests};

struct Direct;

impl BackendFactory for Direct {
    type Io = MemoryIo;

    fn ports(&self, count: usize) -> Vec<MemoryIo> {
        let hub = Hub::direct(MemoryConfig::default());
        (0..count).map(|_| hub.port()).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 1))
    }

    /// It has no addresses that anybody could forge.
    fn tells_origins(&self) -> bool {
        false
    }
}

conformance_tests!(Some(Direct));
