//! The backend passes the suite over libfabric's software provider for datagrams.
#![cfg(feature = "fabric")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;

use petasos_netio::Switch;
use petasos_netio_conformance::{BackendFactory, conformance_tests, run_all};
use petasos_netio_fabric::{FabricConfig, FabricIo};

struct Loopback {
    ip: IpAddr,
    config: FabricConfig,
}

impl BackendFactory for Loopback {
    type Io = FabricIo;

    fn ports(&self, count: usize) -> Vec<FabricIo> {
        let bind = |_| FabricIo::bind(SocketAddr::new(own_address(self.ip), 0), &self.config);
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

/// An address that no other port of this process gets, if the host has several. Otherwise another
/// port could soon get the port number of a peer that is gone.
fn own_address(ip: IpAddr) -> IpAddr {
    static PORTS: Mutex<u16> = Mutex::new(0);
    if ip.is_ipv6() {
        return ip;
    }
    let mut ports = PORTS.lock().expect("nobody panics with the lock");
    *ports = ports.wrapping_add(1);
    let [high, low] = ports.to_be_bytes();
    // Not the loopback network that everything else on the host uses.
    let process = 1 + (std::process::id() % 250) as u8;
    IpAddr::from([127, process, high, low])
}

fn udp() -> FabricConfig {
    FabricConfig { provider: Some("udp".to_owned()), ..FabricConfig::default() }
}

fn v4(config: FabricConfig) -> Option<Loopback> {
    Some(Loopback { ip: Ipv4Addr::LOCALHOST.into(), config })
}

/// Some hosts have no IPv6.
fn v6(config: FabricConfig) -> Option<Loopback> {
    let ip = Ipv6Addr::LOCALHOST;
    if let Err(error) = UdpSocket::bind((ip, 0)) {
        petasos_skips::skip("ipv6", format!("cannot bind ::1: {error}"));
        return None;
    }
    Some(Loopback { ip: ip.into(), config })
}

mod v4_injected {
    use super::*;
    conformance_tests!(v4(udp()));
}

mod v4_from_memory {
    use super::*;
    conformance_tests!(v4(FabricConfig { inject_bytes_max: 0, wakeups: false, ..udp() }));
}

mod v4_each_packet_by_itself {
    use super::*;
    conformance_tests!(v4(FabricConfig { fusing: Switch::new(false), ..udp() }));
}

mod v6_mixed {
    use super::*;
    conformance_tests!(v6(FabricConfig { inject_bytes_max: 512, tx_slots: 4, ..udp() }));
}

#[test]
fn few_slots_pass_the_suite() {
    // The kernel's socket buffers what the slots cannot hold.
    for fused in [true, false] {
        let fusing = Switch::new(fused);
        let few = FabricConfig { rx_slots: 4, tx_slots: 1, inject_bytes_max: 0, fusing, ..udp() };
        run_all(&v4(few).expect("there is loopback"));
    }
}
