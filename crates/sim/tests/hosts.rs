//! Pauses, crashes and restarts; a seed replays a run.

mod support;

use petasos_base::{Rng, Time};
use petasos_netio::PacketIo;
use petasos_netio::memory::MemoryConfig;
use petasos_sim::{
    Action, FaultProfile, LeafSpine, LinkConfig, Links, Topology, World, WorldConfig,
};
use support::{Node, bit_per_nano, nanos, settle, world};

fn small_inbox() -> WorldConfig {
    let memory = MemoryConfig { inbox_frames_max: 4, ..MemoryConfig::default() };
    WorldConfig { memory, turn_nanos: 1, ..WorldConfig::default() }
}

#[test]
fn a_paused_host_does_not_run_and_its_inbox_overflows() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(0)));
    world.run_until(nanos(10));
    world.apply(Action::Pause { host: 1, until: nanos(100_000) });
    world.with_host(0, |host, _| host.burst(1, 10, 100));
    world.run_until(nanos(99_999));
    assert!(world.host(1).received.is_empty());
    settle(&mut world);
    assert_eq!(world.host(1).times(), [100_000; 4]);
    assert_eq!(world.host(1).indices(), [0, 1, 2, 3], "the later ones found no room");
    assert_eq!(world.stats().dropped_inbox, 6);
    assert_eq!(world.host(1).port.stats().rx_overflows, 6);
}

#[test]
fn a_paused_host_misses_its_timer_and_catches_up() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(0)));
    world.with_host(0, |host, _| host.plan = vec![(nanos(500), 1, vec![0; 10])]);
    world.schedule(nanos(100), Action::Pause { host: 0, until: nanos(2000) });
    settle(&mut world);
    assert_eq!(world.host(0).ran_at, [0, 2000]);
    assert_eq!(world.host(1).received.len(), 1);
}

#[test]
fn a_later_pause_replaces_an_earlier_one() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(0)));
    world.run_until(nanos(1));
    world.apply(Action::Pause { host: 0, until: nanos(9000) });
    world.apply(Action::Pause { host: 0, until: nanos(3000) });
    settle(&mut world);
    assert_eq!(world.host(0).ran_at, [0, 3000]);
}

#[test]
fn a_crashed_host_never_runs_and_what_it_sent_still_arrives() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(1000)));
    world.with_host(0, |host, _| {
        host.burst(1, 2, 100);
        host.plan = vec![(nanos(5000), 1, vec![0; 10])];
    });
    world.run_until(nanos(1));
    world.apply(Action::Crash { host: 0 });
    world.apply(Action::Pause { host: 0, until: nanos(2000) });
    world.with_host(1, |host, _| host.burst(0, 3, 100));
    settle(&mut world);
    assert!(!world.is_alive(0) && world.is_alive(1));
    assert_eq!(world.host(0).ran_at, [0], "neither timer, packet nor pause wakes the dead");
    assert_eq!(world.host(1).indices(), [0, 1]);
    assert_eq!(world.stats().dropped_dead, 3);
}

#[test]
fn a_restarted_host_is_new_and_keeps_its_address() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(1000)));
    world.with_host(1, |host, _| host.burst(0, 1, 100));
    world.schedule(nanos(5000), Action::Crash { host: 0 });
    world.schedule(nanos(9000), Action::Restart { host: 0 });
    world.run_until(nanos(4000));
    assert_eq!(world.host(0).received.len(), 1);
    world.run_until(nanos(9000));
    assert!(world.is_alive(0) && world.restarts(0) == 1);
    assert_eq!(world.host(0).ran_at, [9000]);
    assert!(world.host(0).received.is_empty(), "it knows nothing of its former life");
    world.with_host(1, |host, _| host.burst(0, 2, 100));
    world.with_host(0, |host, _| host.burst(1, 2, 100));
    settle(&mut world);
    assert_eq!(world.host(0).indices(), [0, 1]);
    assert_eq!(world.host(1).indices(), [0, 1]);
}

#[test]
fn the_port_of_a_dead_life_is_dead() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(1000)));
    world.apply(Action::Restart { host: 0 });
    let second_life = world.host(0).port.number();
    assert_eq!(second_life, 2);
    world.with_host(1, |host, _| host.burst(second_life, 1, 100));
    settle(&mut world);
    assert_eq!(world.host(0).received.len(), 1, "a life's own address works");
    world.with_host(1, |host, _| host.burst(second_life, 1, 100));
    world.apply(Action::Restart { host: 0 });
    settle(&mut world);
    assert!(world.host(0).received.is_empty());
    assert_eq!(world.stats().dropped_dead, 1);
}

#[test]
fn a_life_has_randomness_of_its_own() {
    let seeds = |seed: u64| {
        let config = WorldConfig { seed, ..WorldConfig::default() };
        let topology = Topology::mesh(3, bit_per_nano(0));
        let mut world: World<SeedOnly> = World::new(config, topology, |seat| SeedOnly(seat.seed));
        let first: Vec<u64> = world.hosts().map(|host| host.0).collect();
        world.apply(Action::Restart { host: 2 });
        [first, vec![world.host(2).0]].concat()
    };
    let mut all = [seeds(1), seeds(2)].concat();
    assert_eq!(seeds(1), all[..4]);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8);
}

struct SeedOnly(u64);

impl petasos_sim::Host for SeedOnly {
    fn run(&mut self, _now: Time) -> Time {
        Time::NEVER
    }
}

#[test]
fn closures_are_hosts() {
    let topology = Topology::mesh(1, bit_per_nano(0));
    let mut world = World::new(WorldConfig::default(), topology, |_| {
        let mut runs = 0;
        move |now: Time| {
            runs += 1;
            if runs < 5 { now.plus_nanos(1000) } else { Time::NEVER }
        }
    });
    world.run_until(nanos(1_000_000));
    assert_eq!(world.stats().host_runs, 5);
}

#[test]
#[should_panic(expected = "host 0 is dead")]
fn a_dead_host_cannot_be_driven() {
    let mut world = world(small_inbox(), Topology::mesh(2, bit_per_nano(0)));
    world.apply(Action::Crash { host: 0 });
    world.with_host(0, |host, _| host.burst(1, 1, 10));
}

/// Everything at once: random faults, pauses, crashes and restarts on a two-tier network.
fn storm(seed: u64) -> (u64, u64) {
    let shape = LeafSpine {
        leaves: 3,
        hosts_per_leaf: 4,
        spines: 2,
        spine_link: LinkConfig { jitter_nanos: 300, ..LinkConfig::new(25, 500) },
        ..LeafSpine::hundred_hosts()
    };
    let config = WorldConfig { seed, ..WorldConfig::default() };
    let mut world = World::new(config, Topology::leaf_spine(&shape), |seat| {
        let mut node = Node::new(seat);
        node.echo = true;
        node
    });
    let mut script = Rng::new(seed);
    world.apply(Action::Faults { links: Links::All, profile: FaultProfile::hostile() });
    for at in (0..50).map(|i| nanos(i * 10_000)) {
        let host = script.below(12) as u32;
        world.schedule(
            at,
            match script.below(3) {
                0 => Action::Pause { host, until: at.plus_nanos(30_000) },
                1 => Action::Crash { host },
                _ => Action::Restart { host },
            },
        );
    }
    for from in 0..12 {
        world.with_host(from, |host, _| host.burst((from + 5) % 12, 20, 300));
    }
    world.run_until(nanos(600_000));
    assert_eq!(world.stats().unaccounted(), world.in_flight() as u64, "seed {seed}");
    (world.trace_hash(), world.stats().delivered)
}

#[test]
fn a_seed_replays_and_another_differs() {
    let runs: Vec<_> = (0..10).map(storm).collect();
    assert!(runs.iter().all(|&(_, delivered)| delivered > 100), "{runs:?}");
    assert_eq!(runs, (0..10).map(storm).collect::<Vec<_>>());
    let mut hashes: Vec<u64> = runs.iter().map(|&(hash, _)| hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 10);
}
