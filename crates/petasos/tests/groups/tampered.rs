//! Somebody between the router and its workers changes the time left of first packets, which is not
//! authenticated, as the router changes it, too (RT6, RT27).

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use petasos::{Code, Request, block_on};
use petasos_base::sync::{AtomicU64, Ordering};
use petasos_netio::{IoStats, Origin, PacketIo, Route, RouteError, RxBatch, TxPacket};
use petasos_netio_udp::UdpIo;

use crate::greeter::generated::GreeterClient;
use crate::greeter::*;
use crate::servers::*;

/// RT1: a first packet has the kind 5, behind the version, and 64 bytes before its message.
const ROUTED: u8 = 5;
const FIRST_BYTES: usize = 64;
/// RT2: where the routing block has `lifetime_us`.
const LIFETIME: core::ops::Range<usize> = 56..60;

/// A router's socket, behind which each first packet gets another time left.
struct Tampered {
    io: UdpIo,
    lifetime_us: u32,
    changed: Arc<AtomicU64>,
}

impl Tampered {
    fn change(&self, packet: &mut [u8]) {
        if packet.len() >= FIRST_BYTES && packet[0] >> 4 == ROUTED {
            packet[LIFETIME].copy_from_slice(&self.lifetime_us.to_le_bytes());
            self.changed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl PacketIo for Tampered {
    fn receive(&mut self) -> RxBatch<'_> {
        self.io.receive()
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> usize {
        self.io.transmit(packets)
    }

    fn transmit_train(&mut self, route: Route, bytes: &[u8], segment_bytes: usize) -> usize {
        let mut bytes = bytes.to_vec();
        bytes.chunks_mut(segment_bytes).for_each(|packet| self.change(packet));
        self.io.transmit_train(route, &bytes, segment_bytes)
    }

    fn begin_batch(&mut self) {
        self.io.begin_batch();
    }

    fn end_batch(&mut self) {
        self.io.end_batch();
    }

    fn route(&mut self, peer: SocketAddr) -> Result<Route, RouteError> {
        self.io.route(peer)
    }

    fn release_route(&mut self, route: Route) {
        self.io.release_route(route);
    }

    fn origin(&self, route: Route) -> Origin {
        self.io.origin(route)
    }

    fn local_address(&self) -> SocketAddr {
        self.io.local_address()
    }

    fn datagram_bytes_max(&self, route: Route) -> usize {
        self.io.datagram_bytes_max(route)
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.io.receive_buffer_bytes()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.io.descriptor()
    }

    fn stats(&self) -> IoStats {
        self.io.stats()
    }
}

fn tampered(lifetime_us: u32) -> (Router, Arc<AtomicU64>) {
    let changed = Arc::new(AtomicU64::new(0));
    let counted = changed.clone();
    let router = Router::over(|io| Tampered { io, lifetime_us, changed: counted });
    (router, changed)
}

#[test]
fn rt6_a_longer_time_left_does_not_outlast_the_one_in_the_request() {
    let (service, (router, changed)) = (Service::default(), tampered(u32::MAX));
    let _server = join(&service, &router);
    let client = GreeterClient::new(connect(&router.target()));
    let before = changed.load(Ordering::Relaxed);
    let hurried = Request::new(name("there")).with_timeout(Duration::from_secs(30));
    block_on(client.greet(hurried)).expect("there is time");
    assert!(changed.load(Ordering::Relaxed) > before);
    let left = service.seen().timeout.expect("it has a deadline");
    assert!(left <= Duration::from_secs(30), "{left:?}");
    // On a busy host the time may be over before it begins: then nothing is to be dropped.
    let before = service.seen().begun;
    while service.seen().begun == before {
        let late = Request::new(name("hold")).with_timeout(Duration::from_millis(300));
        let late = block_on(client.greet(late)).expect_err("nobody lets it go on");
        assert_eq!(late.code(), Code::DeadlineExceeded);
    }
    until(|| {
        let seen = service.seen();
        seen.dropped == seen.begun - before
    });
}

#[test]
fn rt6_a_shorter_time_left_ends_a_call_that_has_not_run() {
    let (service, (router, _)) = (Service::default(), tampered(0));
    let server = builder(&service, &router).start().expect("loopback has ports");
    until(|| server.routers().iter().all(|at| at.is_member));
    let client = GreeterClient::new(connect(&router.target()));
    let ended = block_on(client.greet(name("there"))).expect_err("it has no time");
    assert_eq!(ended.code(), Code::DeadlineExceeded);
    assert_eq!(service.seen().begun, 0);
}
