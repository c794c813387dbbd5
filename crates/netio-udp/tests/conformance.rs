//! The UDP backend passes the suite, with and without the kernel's help.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;

use petasos_netio_conformance::{BackendFactory, conformance_tests, run_all};
use petasos_netio_udp::{UdpConfig, UdpIo};

struct Loopback {
    ip: IpAddr,
    config: UdpConfig,
}

impl BackendFactory for Loopback {
    type Io = UdpIo;

    fn ports(&self, count: usize) -> Vec<UdpIo> {
        let bind = |_| UdpIo::bind(SocketAddr::new(own_address(self.ip), 0), self.config);
        (0..count).map(bind).collect::<Result<_, _>>().expect("loopback has free ports")
    }

    fn foreign_address(&self) -> SocketAddr {
        let other: IpAddr = match self.ip {
            IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
        };
        SocketAddr::new(other, 9)
    }
}

/// An address that no other port of this process gets, where there is more than one: the port
/// number of a peer that is gone is soon another's.
fn own_address(ip: IpAddr) -> IpAddr {
    static PORTS: Mutex<u16> = Mutex::new(0);
    if ip.is_ipv6() {
        return ip;
    }
    let mut ports = PORTS.lock().expect("nobody panics with the lock");
    *ports = ports.wrapping_add(1);
    let [high, low] = ports.to_be_bytes();
    // Not the network that everything else on the host uses.
    let process = 1 + (std::process::id() % 250) as u8;
    IpAddr::from([127, process, high, low])
}

fn config(gso: bool, gro: bool) -> UdpConfig {
    UdpConfig { gso, gro, ..UdpConfig::default() }
}

fn v4(config: UdpConfig) -> Option<Loopback> {
    Some(Loopback { ip: Ipv4Addr::LOCALHOST.into(), config })
}

/// Hosts without IPv6 exist.
fn v6(config: UdpConfig) -> Option<Loopback> {
    let ip = Ipv6Addr::LOCALHOST;
    if let Err(error) = UdpSocket::bind((ip, 0)) {
        petasos_skips::skip("ipv6", format!("cannot bind ::1: {error}"));
        return None;
    }
    Some(Loopback { ip: ip.into(), config })
}

mod v4_gso_gro {
    use super::*;
    conformance_tests!(v4(config(true, true)));
}

mod v4_gso_only {
    use super::*;
    conformance_tests!(v4(config(true, false)));
}

mod v4_gro_only {
    use super::*;
    conformance_tests!(v4(config(false, true)));
}

mod v4_plain {
    use super::*;
    conformance_tests!(v4(config(false, false)));
}

mod v6_gso_gro {
    use super::*;
    conformance_tests!(v6(config(true, true)));
}

mod v6_plain {
    use super::*;
    conformance_tests!(v6(config(false, false)));
}

#[test]
fn long_datagrams_pass_the_suite() {
    // Beyond Ethernet's MTU, and long enough that bytes and not segments limit a train.
    let config = UdpConfig { datagram_bytes_max: 4096, ..UdpConfig::default() };
    run_all(&Loopback { ip: Ipv4Addr::LOCALHOST.into(), config });
}
