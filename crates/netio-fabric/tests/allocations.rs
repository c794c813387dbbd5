//! Moving packets allocates nothing, whether they share messages or not. There is one test, since
//! the counter counts the whole process.
#![cfg(feature = "fabric")]

use std::alloc::System;
use std::net::{Ipv4Addr, SocketAddr};

use petasos_netio::{PacketIo, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_fabric::{FabricConfig, FabricIo};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn moving_packets_allocates_nothing() {
    for inject_bytes_max in [0, usize::MAX] {
        let config = FabricConfig {
            provider: Some("udp".to_owned()),
            inject_bytes_max,
            ..FabricConfig::default()
        };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let port = || FabricIo::bind(any, &config).expect("loopback has free ports");
        let (mut from, mut to) = (port(), port());
        let route = from.route(to.local_address()).expect("it is on loopback");
        let bytes = [3; 1400];
        let lens = [56, 1400, 40, 300];
        let packet =
            |at: usize| TxPacket { route, head: &bytes[..24], body: &bytes[24..lens[at % 4]] };
        let packets: Vec<_> = (0..32).map(packet).collect();
        for fused in [true, false] {
            config.fusing.set(fused);
            (0..20).for_each(|_| round(&mut from, &mut to, &packets));
            let region = Region::new(ALLOCATOR);
            (0..100).for_each(|_| round(&mut from, &mut to, &packets));
            let change = region.change();
            assert_eq!(change.allocations + change.reallocations, 0, "{fused}: {change:?}");
        }
    }
}

/// Sends all packets, and receives them.
fn round(from: &mut FabricIo, to: &mut FabricIo, packets: &[TxPacket<'_>]) {
    assert_eq!(from.transmit(packets), packets.len());
    let mut received = 0;
    for _ in turns() {
        received += to.receive().frames().count();
        if received == packets.len() {
            return;
        }
    }
    panic!("{received} of {} packets arrived", packets.len());
}
