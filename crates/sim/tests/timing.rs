//! Rates and delays, to the nanosecond of virtual time.

mod support;

use petasos_base::Time;
use petasos_sim::{
    BufferConfig, Forwarding, Framing, LeafSpine, LinkConfig, Node as End, Stop, SwitchConfig,
    Topology, TopologyBuilder, WorldConfig,
};
use support::{bit_per_nano, nanos, settle, world};

fn bare() -> WorldConfig {
    WorldConfig { framing: Framing::NONE, turn_nanos: 1, ..WorldConfig::default() }
}

fn switch(latency_nanos: u64, forwarding: Forwarding) -> SwitchConfig {
    SwitchConfig { latency_nanos, forwarding, buffer: BufferConfig::plain(1_000_000) }
}

#[test]
fn one_link_takes_serialisation_plus_propagation() {
    let mut world = world(bare(), Topology::mesh(2, bit_per_nano(1000)));
    world.with_host(0, |host, _| host.burst(1, 3, 100));
    settle(&mut world);
    assert_eq!(world.host(1).times(), [1800, 2600, 3400]);
    assert_eq!(world.host(1).indices(), [0, 1, 2]);
    assert_eq!(world.stats().delivered_bytes, 300);
}

#[test]
fn framing_occupies_the_wire() {
    let config = WorldConfig { framing: Framing::default(), ..bare() };
    let mut world = world(config, Topology::mesh(2, bit_per_nano(0)));
    world.with_host(0, |host, _| host.burst(1, 1, 1472));
    world.with_host(0, |host, _| host.burst(1, 1, 5));
    settle(&mut world);
    let first = (1472 + 46 + 20) * 8;
    assert_eq!(world.host(1).times(), [first, first + (64 + 20) * 8]);
}

#[test]
fn fractions_of_a_nanosecond_do_not_add_up() {
    let config = WorldConfig { framing: Framing::default(), ..bare() };
    let mut world = world(config, Topology::mesh(2, LinkConfig::new(25, 0)));
    world.with_host(0, |host, _| host.burst(1, 1000, 1472));
    settle(&mut world);
    assert_eq!(*world.host(1).times().last().unwrap(), 492_160, "1538 B x 1000 at 25 Gbit/s");
}

#[test]
fn an_idle_link_starts_at_once_and_a_busy_one_makes_wait() {
    let mut world = world(bare(), Topology::mesh(2, bit_per_nano(0)));
    for at in [0, 100, 5000] {
        world.run_until(nanos(at));
        world.with_host(0, |host, _| host.burst(1, 1, 100));
    }
    settle(&mut world);
    assert_eq!(world.host(1).times(), [800, 1600, 5800]);
}

#[test]
fn store_and_forward_serialises_at_every_hop() {
    let switch = switch(300, Forwarding::StoreAndForward);
    let mut world = world(bare(), Topology::star(2, bit_per_nano(50), switch));
    world.with_host(0, |host, _| host.burst(1, 2, 1000));
    settle(&mut world);
    let first = 8000 + 50 + 300 + 8000 + 50;
    assert_eq!(world.host(1).times(), [first, first + 8000]);
}

#[test]
fn cut_through_waits_for_sixty_four_bytes_only() {
    let switch = switch(300, Forwarding::CutThrough);
    let mut world = world(bare(), Topology::star(2, bit_per_nano(50), switch));
    world.with_host(0, |host, _| host.burst(1, 2, 1000));
    world.with_host(1, |host, _| host.burst(0, 1, 20));
    settle(&mut world);
    let first = 64 * 8 + 50 + 300 + 8000 + 50;
    assert_eq!(world.host(1).times(), [first, first + 8000]);
    assert_eq!(world.host(0).times(), [2 * 20 * 8 + 50 + 300 + 50]);
}

#[test]
fn cut_through_does_not_outrun_a_slower_way_in() {
    let mut builder = TopologyBuilder::new(2);
    let centre = builder.switch(switch(300, Forwarding::CutThrough));
    builder.connect(End::Host(0), centre, bit_per_nano(50));
    builder.connect(centre, End::Host(1), LinkConfig::new(10, 50));
    let mut world = world(bare(), builder.finish());
    world.with_host(0, |host, _| host.burst(1, 1, 1000));
    settle(&mut world);
    assert_eq!(world.host(1).times(), [8000 + 50 + 300 + 800 + 50]);
}

#[test]
fn leaf_and_spine_ways_have_two_or_four_hops() {
    let shape = LeafSpine::hundred_hosts();
    assert_eq!(shape.oversubscription(), 2.0);
    let topology = Topology::leaf_spine(&shape);
    assert_eq!(topology.hosts(), 100);
    assert_eq!(topology.links().count(), 2 * (100 + 25));
    let mut world = world(WorldConfig::default(), topology);
    world.with_host(0, |host, _| host.burst(19, 1, 1472));
    world.with_host(99, |host, _| host.burst(20, 1, 1472));
    settle(&mut world);
    // 84 B of preamble and head, 1538 B of all; the spine is fed at 25 and sends at 50 Gbit/s,
    // so the leaf stores, the spine cuts through, and the last leaf cuts through again.
    let near = 26.88 + 500.0 + 300.0 + 492.16 + 500.0;
    let far =
        492.16 + 500.0 + 300.0 + 13.44 + 500.0 + 300.0 + 13.44 + 500.0 + 300.0 + 492.16 + 500.0;
    assert!((world.host(19).times()[0] as f64 - near).abs() <= 3.0);
    assert!((world.host(20).times()[0] as f64 - far).abs() <= 6.0);
}

#[test]
fn flows_spread_over_all_spines_evenly() {
    let shape = LeafSpine { leaves: 2, hosts_per_leaf: 40, ..LeafSpine::hundred_hosts() };
    let mut world = world(WorldConfig::default(), Topology::leaf_spine(&shape));
    for host in 0..40 {
        (40..80).for_each(|to| world.with_host(host, |host, _| host.burst(to, 1, 5)));
    }
    settle(&mut world);
    for spine in 2..7 {
        let up = world.topology().link(End::Switch(0), End::Switch(spine)).unwrap();
        let packets = world.port_stats(up).packets;
        assert!((256..=384).contains(&packets), "{packets} of 1600 flows on spine {spine}");
    }
}

#[test]
fn a_packet_to_oneself_arrives_at_once_and_one_to_nobody_is_counted() {
    let mut world = world(bare(), Topology::mesh(2, bit_per_nano(1000)));
    world.run_until(nanos(500));
    world.with_host(0, |host, _| {
        host.burst(0, 1, 10);
        host.burst(7, 1, 10);
    });
    settle(&mut world);
    assert_eq!(world.host(0).times(), [500]);
    assert_eq!(world.stats().dropped_unroutable, 1);
}

#[test]
fn a_host_runs_when_it_asked_to_and_no_oftener_than_a_turn_takes() {
    let config = WorldConfig { turn_nanos: 300, ..bare() };
    let mut world = world(config, Topology::mesh(2, bit_per_nano(0)));
    world.with_host(0, |host, _| {
        host.plan = vec![(nanos(1000), 1, vec![1; 10]), (nanos(1100), 1, vec![2; 10])];
    });
    settle(&mut world);
    assert_eq!(world.host(0).ran_at, [0, 1000, 1300]);
    assert_eq!(world.host(1).times(), [1080, 1380]);
}

#[test]
fn a_host_sees_all_that_arrived_by_then_in_one_turn() {
    let mut world = world(bare(), Topology::mesh(3, bit_per_nano(0)));
    world.with_host(0, |host, _| host.burst(2, 1, 10));
    world.with_host(1, |host, _| host.burst(2, 1, 10));
    settle(&mut world);
    assert_eq!(world.host(2).times(), [80, 80]);
    assert_eq!(world.host(2).ran_at, [0, 80]);
}

#[test]
fn a_run_stops_for_its_condition_its_limit_or_for_good() {
    let mut world = world(bare(), Topology::mesh(2, bit_per_nano(0)));
    world.with_host(1, |host, _| host.echo = true);
    world.with_host(0, |host, _| host.burst(1, 1, 100));
    assert_eq!(world.run_while(|w| w.host(1).received.is_empty(), nanos(700)), Stop::Limit);
    assert_eq!(world.now(), nanos(700));
    assert_eq!(world.run_while(|w| w.host(1).received.is_empty(), nanos(9000)), Stop::Condition);
    assert_eq!(world.now(), nanos(800));
    assert_eq!(world.run_while(|_| true, Time::NEVER), Stop::Idle);
    assert_eq!((world.now(), world.host(0).times()), (nanos(1600), vec![1600]));
}
