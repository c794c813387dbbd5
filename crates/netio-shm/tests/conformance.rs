//! The shared-memory backend passes the suite, with rings of several sizes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use petasos_netio_conformance::{BackendFactory, conformance_tests, run_all};
use petasos_netio_shm::{ShmConfig, ShmIo};
use petasos_shm::RingShape;

struct Rings {
    ip: IpAddr,
    config: ShmConfig,
}

impl BackendFactory for Rings {
    type Io = ShmIo;

    fn ports(&self, count: usize) -> Vec<ShmIo> {
        let bind = |_| ShmIo::bind(SocketAddr::new(self.ip, 0), self.config);
        (0..count).map(bind).collect::<Result<_, _>>().expect("names are free")
    }

    fn foreign_address(&self) -> SocketAddr {
        let other: IpAddr = match self.ip {
            IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
        };
        SocketAddr::new(other, 9)
    }
}

fn v4(config: ShmConfig) -> Rings {
    Rings { ip: Ipv4Addr::LOCALHOST.into(), config }
}

mod as_configured_by_default {
    use super::*;
    conformance_tests!(Some(v4(ShmConfig::default())));
}

/// The suite keeps 65 packets in flight; these have hardly room for more.
#[test]
fn small_rings_pass_the_suite() {
    let rings = RingShape { slots: 256, data_bytes: 1 << 17, record_bytes_max: 1984 };
    run_all(&v4(ShmConfig { rings, datagram_bytes_max: 1500, ..ShmConfig::default() }));
}

/// Records that hold several datagrams, and a length that is no multiple of anything.
#[test]
fn long_records_pass_the_suite() {
    let rings = RingShape { slots: 256, data_bytes: 1 << 19, record_bytes_max: 65_536 };
    run_all(&v4(ShmConfig { rings, datagram_bytes_max: 4099, ..ShmConfig::default() }));
}

#[test]
fn ipv6_names_pass_the_suite() {
    let rings = RingShape { slots: 256, data_bytes: 1 << 18, record_bytes_max: 3000 };
    let config = ShmConfig { rings, datagram_bytes_max: 2000, ..ShmConfig::default() };
    run_all(&Rings { ip: Ipv6Addr::LOCALHOST.into(), config });
}
