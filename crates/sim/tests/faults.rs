//! Loss, copies, damage, reordering and cuts: how often, when, and that every packet is counted.

mod support;

use petasos_base::Rng;
use petasos_sim::{
    Action, FaultProfile, Framing, LinkConfig, Links, Node as End, Topology, World, WorldConfig,
};
use support::{Node, bit_per_nano, nanos, settle, world};

const PACKETS: u32 = 20_000;

fn after_burst(seed: u64, faults: FaultProfile) -> World<Node> {
    let config = WorldConfig {
        seed,
        memory: petasos_netio::memory::MemoryConfig {
            inbox_frames_max: 1 << 20,
            ..Default::default()
        },
        ..WorldConfig::default()
    };
    let link = LinkConfig { faults, ..LinkConfig::new(10, 1000) };
    let mut world = world(config, Topology::mesh(2, link));
    world.with_host(0, |host, _| host.burst(1, PACKETS, 200));
    settle(&mut world);
    world
}

/// Whether `count` of `of` is within five standard deviations of `probability`.
fn near(count: u64, of: u64, probability: f64) -> bool {
    let (of, count) = (of as f64, count as f64);
    let deviation = (of * probability * (1.0 - probability)).sqrt();
    (count - of * probability).abs() <= 5.0 * deviation
}

#[test]
fn a_clean_link_keeps_everything_in_order() {
    let world = after_burst(1, FaultProfile::clean());
    assert_eq!(world.host(1).indices(), (0..PACKETS).collect::<Vec<_>>());
}

#[test]
fn loss_strikes_at_its_rate_and_keeps_the_order() {
    let world = after_burst(2, FaultProfile { loss: 0.05, ..FaultProfile::clean() });
    let indices = world.host(1).indices();
    let lost = u64::from(PACKETS) - indices.len() as u64;
    assert!(near(lost, u64::from(PACKETS), 0.05), "{lost} lost");
    assert_eq!(world.stats().dropped_loss, lost);
    assert!(indices.is_sorted_by(|a, b| a < b));
}

#[test]
fn copies_are_made_at_their_rate_and_equal_the_original() {
    let world = after_burst(3, FaultProfile { duplicate: 0.05, ..FaultProfile::clean() });
    let copies = world.stats().duplicated;
    assert!(near(copies, u64::from(PACKETS), 0.05), "{copies} copies");
    let mut indices = world.host(1).indices();
    assert_eq!(indices.len() as u64, u64::from(PACKETS) + copies);
    assert!(!indices.is_sorted(), "copies come later than their originals");
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), PACKETS as usize);
    let mut by_index = world.host(1).received.clone();
    by_index.sort_by_key(|packet| packet.bytes[1..5].to_vec());
    by_index.dedup_by(|a, b| a.bytes == b.bytes);
    assert_eq!(by_index.len(), PACKETS as usize);
}

#[test]
fn reordering_delays_some_within_bounds_and_loses_none() {
    let world = after_burst(4, FaultProfile { reorder: 0.05, ..FaultProfile::clean() });
    let held = world.stats().reordered;
    assert!(near(held, u64::from(PACKETS), 0.05), "{held} held back");
    let mut indices = world.host(1).indices();
    let overtaken = indices.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
    assert!(overtaken > held / 2 && overtaken <= held, "{overtaken} overtaken");
    indices.sort_unstable();
    assert_eq!(indices, (0..PACKETS).collect::<Vec<_>>());
}

#[test]
fn the_checksum_catches_damage() {
    let world = after_burst(5, FaultProfile { corrupt: 0.05, ..FaultProfile::clean() });
    let stats = world.stats();
    assert!(near(stats.corrupted, u64::from(PACKETS), 0.05), "{} damaged", stats.corrupted);
    assert_eq!(stats.dropped_checksum, stats.corrupted);
    let intact = |bytes: &[u8]| bytes[0] == 0 && bytes[5..].iter().all(|&byte| byte == 0);
    assert!(world.host(1).received.iter().all(|packet| intact(&packet.bytes)));
}

#[test]
fn the_checksum_misses_damage_at_its_rate() {
    let faults = FaultProfile { corrupt: 0.2, undetected: 0.25, ..FaultProfile::clean() };
    let stats = after_burst(6, faults).stats();
    assert!(near(stats.delivered_damaged, stats.corrupted, 0.25), "{stats:?}");
    assert_eq!(stats.delivered_damaged + stats.dropped_checksum, stats.corrupted);
}

#[test]
fn missed_damage_changes_bytes_but_not_the_length() {
    let faults = FaultProfile { corrupt: 1.0, undetected: 1.0, ..FaultProfile::clean() };
    let world = after_burst(7, faults);
    assert_eq!(world.host(1).received.len(), PACKETS as usize);
    for (index, packet) in world.host(1).received.iter().enumerate() {
        let mut sent = vec![0; 200];
        sent[1..5].copy_from_slice(&(index as u32).to_be_bytes());
        let changed = packet.bytes.iter().zip(&sent).filter(|(a, b)| a != b).count();
        assert!(packet.bytes.len() == 200 && (1..=4).contains(&changed));
    }
}

#[test]
fn every_packet_is_accounted_for_under_any_profile() {
    let mut rng = Rng::new(8);
    for seed in 0..20 {
        let faults = FaultProfile::random(&mut rng);
        let stats = after_burst(seed, faults).stats();
        assert_eq!(stats.sent, u64::from(PACKETS), "{faults:?}");
        assert_eq!(stats.sent + stats.duplicated, stats.delivered + stats.dropped());
    }
}

#[test]
fn faults_follow_the_schedule_and_calm_ends_them() {
    let config = WorldConfig { framing: Framing::NONE, ..WorldConfig::default() };
    let mut world = world(config, Topology::mesh(2, bit_per_nano(0)));
    let profile = FaultProfile { loss: 1.0, ..FaultProfile::clean() };
    world.schedule(nanos(10_000), Action::Faults { links: Links::All, profile });
    world.schedule(nanos(20_000), Action::Cut(Links::All));
    world.schedule(nanos(20_000), Action::Partition(vec![0, 1]));
    world.schedule(nanos(30_000), Action::Calm);
    for at in (0..40).map(|i| i * 1000 + 500) {
        world.run_until(nanos(at));
        world.with_host(0, |host, _| host.burst(1, 1, 10));
    }
    settle(&mut world);
    let expected = (0..10).chain(30..40).map(|i| i * 1000 + 580);
    assert_eq!(world.host(1).times(), expected.collect::<Vec<_>>());
    assert_eq!((world.stats().dropped_loss, world.stats().dropped_partition), (10, 10));
}

#[test]
fn a_cut_link_swallows_what_is_put_on_it_one_way_only() {
    let mut world = world(WorldConfig::default(), Topology::mesh(2, bit_per_nano(100_000)));
    let link = world.topology().link(End::Host(0), End::Host(1)).unwrap();
    world.with_host(0, |host, _| host.burst(1, 1, 10));
    world.apply(Action::Cut(Links::One(link)));
    world.with_host(0, |host, _| host.burst(1, 5, 10));
    world.with_host(1, |host, _| host.burst(0, 3, 10));
    world.run_until(nanos(50_000));
    assert_eq!(world.stats().dropped_cut, 5);
    world.apply(Action::Mend(Links::One(link)));
    world.with_host(0, |host, _| host.burst(1, 2, 10));
    settle(&mut world);
    assert_eq!(world.host(1).indices(), [0, 0, 1], "sent before the cut, and after the mending");
    assert_eq!(world.host(0).indices(), [0, 1, 2]);
}

#[test]
fn the_links_of_a_host_are_all_of_its_links() {
    let mut world = world(WorldConfig::default(), Topology::mesh(3, bit_per_nano(0)));
    world.apply(Action::Cut(Links::OfHost(1)));
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] {
        world.with_host(from, |host, _| host.burst(to, 1, 10));
    }
    settle(&mut world);
    assert_eq!(world.stats().dropped_cut, 4);
    assert_eq!(world.stats().delivered, 2);
}

#[test]
fn a_partition_separates_groups_until_it_heals() {
    let mut world = world(WorldConfig::default(), Topology::mesh(4, bit_per_nano(0)));
    world.apply(Action::Partition(vec![0, 0, 1, 1]));
    let all_to_all = |world: &mut World<Node>| {
        for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
            world.with_host(from, |host, _| host.burst(to, 1, 10));
        }
    };
    all_to_all(&mut world);
    settle(&mut world);
    assert_eq!((world.stats().delivered, world.stats().dropped_partition), (8, 8));
    world.apply(Action::Heal);
    all_to_all(&mut world);
    settle(&mut world);
    assert_eq!((world.stats().delivered, world.stats().dropped_partition), (24, 8));
}
