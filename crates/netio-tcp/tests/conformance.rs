//! The TCP backend passes the suite, gathering and not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use petasos_netio::Switch;
use petasos_netio_conformance::{BackendFactory, conformance_tests, run_all};
use petasos_netio_tcp::{TcpConfig, TcpIo};

/// The longest datagrams that the suite can send 64 of to a port that does not receive: they must
/// fit the kernel's buffers.
const DATAGRAM_BYTES_MAX: usize = 1500;

struct Connections {
    ip: IpAddr,
    config: TcpConfig,
}

impl BackendFactory for Connections {
    type Io = TcpIo;

    fn ports(&self, count: usize) -> Vec<TcpIo> {
        let bind = |_| TcpIo::bind(SocketAddr::new(self.ip, 0), self.config.clone());
        (0..count).map(bind).collect::<Result<_, _>>().expect("there are ports")
    }

    fn foreign_address(&self) -> SocketAddr {
        let other: IpAddr = match self.ip {
            IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
        };
        SocketAddr::new(other, 9)
    }
}

fn config() -> TcpConfig {
    TcpConfig { datagram_bytes_max: DATAGRAM_BYTES_MAX, ..TcpConfig::default() }
}

fn v4(config: TcpConfig) -> Connections {
    Connections { ip: Ipv4Addr::LOCALHOST.into(), config }
}

mod gathered {
    use super::*;
    conformance_tests!(Some(v4(config())));
}

#[test]
fn piece_by_piece_passes_the_suite() {
    run_all(&v4(TcpConfig { gathering: Switch::new(false), ..config() }));
}

#[test]
fn ipv6_passes_the_suite() {
    if TcpIo::bind(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0), config()).is_err() {
        return petasos_skips::skip("ipv6", "cannot listen at ::1");
    }
    run_all(&Connections { ip: Ipv6Addr::LOCALHOST.into(), config: config() });
}
