use petasos_netio_conformance::{BackendFactory, conformance_tests};
use std::net::Ipv6Addr;

use super::*;
use crate::turns::UDP_PATIENCE;

fn open() -> LocalIo {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    LocalIo::bind(any, &LocalConfig::default()).expect("loopback has ports")
}

struct Network;

impl BackendFactory for Network {
    type Io = LocalIo;

    fn ports(&self, count: usize) -> Vec<LocalIo> {
        (0..count).map(|_| open()).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 9))
    }
}

/// The same, seen from its rings: routes lead to names.
struct Named(LocalIo);

impl PacketIo for Named {
    fn receive(&mut self) -> RxBatch<'_> {
        self.0.receive()
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        self.0.transmit(packets)
    }

    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        self.0.transmit_train(route, bytes, segment_bytes)
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        self.0.local_route(peer)
    }

    fn release_route(&mut self, route: Route) {
        self.0.release_route(route);
    }

    fn local_address(&self) -> SocketAddr {
        self.0.rings().expect("this host has shared memory").local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.0.datagram_bytes_max(route)
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.0.receive_buffer_bytes()
    }

    fn origin(&self, route: Route) -> Origin {
        self.0.origin(route)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }

    fn prepare_to_sleep(&mut self) -> bool {
        self.0.prepare_to_sleep()
    }

    fn stats(&self) -> IoStats {
        self.0.stats()
    }
}

struct Rings;

impl BackendFactory for Rings {
    type Io = Named;

    fn ports(&self, count: usize) -> Vec<Named> {
        (0..count).map(|_| Named(open())).collect()
    }

    fn foreign_address(&self) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 9))
    }
}

mod over_the_network {
    use super::*;
    conformance_tests!(Some(Network));
}

mod by_rings {
    use super::*;
    conformance_tests!(Some(Rings));
}

/// Turns until a packet that waits in the socket has come, while the rings bring `ring_bytes`
/// in every turn; and how often the socket was asked.
fn turns_to_udp(ring_bytes: usize) -> (u32, u64) {
    let (mut near, mut far) = (open(), open());
    let name = near.rings().expect("this host has shared memory").local_address();
    let ring = far.local_route(name).expect("it listens");
    let udp = far.route(near.local_address()).expect("loopback leads there");
    let full = vec![1; ring_bytes];
    // The rings become busy, and UDP has shown nothing for long.
    for _ in 0..2000 {
        far.transmit(&[TxPacket { route: ring, head: &full, body: &[] }]);
        near.receive();
    }
    let asked = near.udp.stats().rx_syscalls;
    assert_eq!(far.transmit(&[TxPacket { route: udp, head: b"udp", body: &[] }]), 1);
    for turn in 1..10_000 {
        far.transmit(&[TxPacket { route: ring, head: &full, body: &[] }]);
        if near.receive().frames().any(|frame| frame.bytes == b"udp") {
            return (turn, near.udp.stats().rx_syscalls - asked);
        }
    }
    panic!("UDP starves");
}

#[test]
fn busy_rings_neither_starve_udp_nor_ask_it_in_every_turn() {
    let (turns, asked) = turns_to_udp(64);
    assert!(turns <= UDP_PATIENCE + 1 && asked <= 2, "{turns} turns, asked {asked} times");
    let (turns, asked) = turns_to_udp(16_000);
    assert!(turns <= UDP_PATIENCE / 8 + 2 && asked <= 2, "{turns} turns, asked {asked} times");
}

#[test]
fn idle_rings_leave_udp_every_turn() {
    let mut near = open();
    (0..100).for_each(|_| assert!(near.receive().chunks.is_empty()));
    assert_eq!(near.udp.stats().rx_syscalls, 100);
}

#[test]
fn without_rings_it_is_a_socket() {
    let config = LocalConfig { local: LocalPolicy::Never, ..LocalConfig::default() };
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut io = LocalIo::bind(any, &config).expect("loopback has ports");
    assert!(!io.has_rings() && io.rings().is_none());
    assert!(matches!(io.local_route(any), Err(RouteError::Unreachable(_))));
    let route = io.route(io.local_address()).expect("loopback leads there");
    assert_eq!(io.transmit(&[TxPacket { route, head: b"x", body: b"y" }]), 1);
    while !io.receive().frames().any(|frame| frame.bytes == b"xy") {}
    io.release_route(route);
}
