//! Shared buffers, tail drop and marks, exact to the byte.

mod support;

use petasos_netio::Ecn;
use petasos_sim::{
    BufferConfig, Forwarding, Framing, LinkConfig, Node as End, Stats, SwitchConfig, Topology,
    TopologyBuilder, World, WorldConfig,
};
use support::{Node, bit_per_nano, nanos, settle, world};

const HOSTS: u32 = 11;
const BURST: u32 = 100;
const BYTES: u64 = 1000;

/// Ten hosts send a hundred packets of 1000 B each to host 0, all at once: while ten packets
/// come in, one goes out.
fn incast(buffer: BufferConfig, ecn: Ecn) -> World<Node> {
    let switch = SwitchConfig { latency_nanos: 0, forwarding: Forwarding::StoreAndForward, buffer };
    let config = WorldConfig { framing: Framing::NONE, ecn, ..WorldConfig::default() };
    let mut world = world(config, Topology::star(HOSTS, bit_per_nano(0), switch));
    for sender in 1..HOSTS {
        world.with_host(sender, |host, _| host.burst(0, BURST, BYTES as usize));
    }
    settle(&mut world);
    world
}

/// What fluid arithmetic expects: packets arrive in rounds of ten, and between two rounds the
/// port sends one. Returns drops and the longest queue in packets, for room for `room` packets.
fn expected(room: u64) -> (u64, u64) {
    let (mut queue, mut drops, mut longest) = (0u64, 0, 0);
    for _ in 0..BURST {
        let taken = (room - queue).min(10);
        drops += 10 - taken;
        queue += taken;
        longest = longest.max(queue);
        queue -= 1;
    }
    (drops, longest)
}

fn check(world: &World<Node>, room: u64) {
    let (drops, longest) = expected(room);
    let out = world.topology().link(End::Switch(0), End::Host(0)).expect("a star has it");
    let port = world.port_stats(out);
    assert_eq!(port.queue_bytes_max, longest * BYTES);
    // A packet that leaves in the same nanosecond as a round comes in may go before or after.
    assert!(port.drops.abs_diff(drops) <= 1, "{} drops, expected {drops}", port.drops);
    assert_eq!(world.stats().dropped_buffer, port.drops);
    assert_eq!(port.packets, 1000 - port.drops);
    assert_eq!(world.buffered_bytes(End::Switch(0)), 0);
}

#[test]
fn incast_fits_a_large_buffer() {
    let world = incast(BufferConfig::plain(1_000_000), Ecn::NotCapable);
    assert_eq!(expected(1000), (0, 901));
    check(&world, 1000);
    assert_eq!(world.host(0).received.len(), 1000);
}

#[test]
fn incast_fills_the_pool_and_drops_the_rest() {
    check(&incast(BufferConfig::plain(200_000), Ecn::NotCapable), 200);
}

#[test]
fn incast_stops_at_the_dynamic_threshold() {
    // One hot port may hold alpha / (1 + alpha) of the pool.
    let buffer = BufferConfig { alpha: 1.0, ..BufferConfig::plain(400_000) };
    let world = incast(buffer, Ecn::NotCapable);
    check(&world, 200);
}

#[test]
fn incast_stops_at_the_limit_of_its_port() {
    let buffer = BufferConfig { port_bytes_max: Some(50_500), ..BufferConfig::plain(400_000) };
    check(&incast(buffer, Ecn::NotCapable), 50);
}

fn marked(world: &World<Node>) -> usize {
    let packets = &world.host(0).received;
    packets.iter().filter(|packet| packet.ecn == Ecn::CongestionExperienced).count()
}

#[test]
fn capable_packets_are_marked_above_the_threshold_only() {
    let buffer = BufferConfig { mark_above_bytes: Some(100_000), ..BufferConfig::plain(1_000_000) };
    let world = incast(buffer, Ecn::Capable0);
    let out = world.topology().link(End::Switch(0), End::Host(0)).expect("a star has it");
    // The queue grows by nine packets in a round of ten and passes 100 in the eleventh round:
    // 91 and 10 make 101. From then on all are marked but those that find the queue below.
    let unmarked = 1000 - marked(&world) as u64;
    assert!((109..=110).contains(&unmarked), "{unmarked} unmarked");
    assert_eq!(world.port_stats(out).marks, 1000 - unmarked);
    assert_eq!(world.stats().marked, 1000 - unmarked);
}

#[test]
fn packets_that_are_not_capable_are_never_marked() {
    let buffer = BufferConfig { mark_above_bytes: Some(0), ..BufferConfig::plain(1_000_000) };
    let world = incast(buffer, Ecn::NotCapable);
    assert_eq!((marked(&world), world.stats().marked), (0, 0));
}

#[test]
fn a_short_queue_is_not_marked() {
    let buffer = BufferConfig { mark_above_bytes: Some(901_000), ..BufferConfig::plain(1_000_000) };
    let world = incast(buffer, Ecn::Capable1);
    assert_eq!(marked(&world), 0);
    assert!(world.host(0).received.iter().all(|packet| packet.ecn == Ecn::Capable1));
}

#[test]
fn a_network_card_drops_what_it_cannot_hold() {
    let mut builder = TopologyBuilder::new(2);
    builder.connect(End::Host(0), End::Host(1), LinkConfig::new(1, 0));
    builder.nic_buffer(BufferConfig::plain(10_000));
    let config = WorldConfig { framing: Framing::NONE, ..WorldConfig::default() };
    let mut world = world(config, builder.finish());
    world.with_host(0, |host, _| host.burst(1, 15, 1000));
    settle(&mut world);
    assert_eq!(world.host(1).received.len(), 10);
    assert_eq!(world.stats().dropped_buffer, 5);
}

#[test]
fn packets_in_flight_are_bounded() {
    let config = WorldConfig { packets_max: 8, ..WorldConfig::default() };
    let mut world = world(config, Topology::mesh(2, bit_per_nano(1000)));
    world.with_host(0, |host, _| host.burst(1, 20, 100));
    assert_eq!(world.in_flight(), 8);
    world.run_until(nanos(1_000_000));
    let Stats { delivered, dropped_in_flight_max, .. } = world.stats();
    assert_eq!((delivered, dropped_in_flight_max), (8, 12));
}
