//! The plane passes its suite in memory and over sockets (AF_XDP: `petasos-netio-xdp`), and what an
//! operator changes holds.

mod operate;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use petasos_base::sync::{AtomicU64, Ordering};
use petasos_netio::memory::{Hub, MemoryIo};
use petasos_netio_udp::{UdpConfig, UdpIo};
use petasos_router_conformance::{BackendFactory, PlaneFactory, plane_tests};
use petasos_router_plane::{Plane, PlaneConfig, PlaneConfigError};

/// Ports in memory, which do not tell where frames come from.
struct Memory;

impl BackendFactory for Memory {
    type Io = MemoryIo;

    fn ports(&self, count: usize) -> Vec<MemoryIo> {
        let hub = Hub::direct(Default::default());
        (0..count).map(|_| hub.port()).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from(([0; 16], 9))
    }

    fn tells_origins(&self) -> bool {
        false
    }
}

struct Sockets(UdpConfig);

impl BackendFactory for Sockets {
    type Io = UdpIo;

    /// Each at an address of its own, so that no late packet of another test arrives.
    fn ports(&self, count: usize) -> Vec<UdpIo> {
        static PORTS: AtomicU64 = AtomicU64::new(0);
        let process = 1 + (std::process::id() % 250) as u8;
        let port = |_| {
            let [high, low] = (PORTS.fetch_add(1, Ordering::Relaxed) as u16).to_be_bytes();
            let ip = IpAddr::V4(Ipv4Addr::new(127, process, high, low));
            UdpIo::bind(SocketAddr::new(ip, 0), self.0).expect("loopback has ports")
        };
        (0..count).map(port).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from(([0; 16], 9))
    }
}

/// The same, with a loop of its own for feedback.
struct Split<F>(F);

impl<F: BackendFactory> BackendFactory for Split<F> {
    type Io = F::Io;

    fn ports(&self, count: usize) -> Vec<F::Io> {
        self.0.ports(count)
    }

    fn foreign_address(&self) -> SocketAddr {
        self.0.foreign_address()
    }

    fn tells_origins(&self) -> bool {
        self.0.tells_origins()
    }
}

impl<F: BackendFactory> PlaneFactory for Split<F> {
    fn is_split(&self) -> bool {
        true
    }
}

impl PlaneFactory for Memory {}

impl PlaneFactory for Sockets {}

mod memory {
    use super::*;
    plane_tests!(Some(Memory));
}

mod udp {
    use super::*;
    plane_tests!(Some(Sockets(UdpConfig::default())));
}

mod split_memory {
    use super::*;
    plane_tests!(Some(Split(Memory)));
}

mod split_udp {
    use super::*;
    plane_tests!(Some(Split(Sockets(UdpConfig::default()))));
}

mod udp_without_trains {
    use super::*;
    plane_tests!(Some(Sockets(UdpConfig { gso: false, gro: false, ..UdpConfig::default() })));
}

#[test]
fn what_cannot_be_is_refused() {
    let right = PlaneConfig::default();
    let wrong = [
        (PlaneConfig { payload_bytes: 1023, ..right.clone() }, PlaneConfigError::Payload),
        (PlaneConfig { payload_bytes: 65_001, ..right.clone() }, PlaneConfigError::Payload),
        (PlaneConfig { clients_max: 0, ..right.clone() }, PlaneConfigError::Clients),
        (PlaneConfig { clients_max: (1 << 19) + 1, ..right }, PlaneConfigError::Clients),
    ];
    for (config, why) in wrong {
        assert_eq!(Plane::new(&config, 1).err(), Some(why));
    }
}
