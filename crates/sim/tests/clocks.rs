//! Clocks that drift and jump, and worlds in which they do not.

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use petasos_base::Time;
use petasos_sim::{Action, HostSeat, Topology, World, WorldConfig};
use support::{bit_per_nano, nanos};

/// What a host has read when it ran: its number, the counting clock, and the clock of day.
type Readings = Rc<RefCell<Vec<(u32, u64, u64)>>>;

/// Hosts that run each millisecond by their own clocks.
fn ticking(own_clocks: bool) -> (World<impl FnMut(Time) -> Time>, Readings) {
    let readings = Readings::default();
    let notes = readings.clone();
    let host = move |seat: HostSeat| {
        let notes = notes.clone();
        move |now: Time| {
            assert_eq!(seat.clock.now(), now);
            notes.borrow_mut().push((seat.number, now.as_nanos(), seat.day.unix_nanos()));
            now.plus_nanos(1_000_000)
        }
    };
    let config = WorldConfig { own_clocks, ..WorldConfig::default() };
    (World::new(config, Topology::mesh(2, bit_per_nano(1000)), host), readings)
}

fn of(readings: &Readings, host: u32) -> Vec<(u64, u64)> {
    let readings = readings.borrow();
    readings.iter().filter(|(number, ..)| *number == host).map(|(_, a, b)| (*a, *b)).collect()
}

#[test]
fn a_fast_clock_runs_its_host_more_often_and_a_slow_one_less() {
    let (mut world, readings) = ticking(true);
    world.apply(Action::Drift { host: 0, ppm: 100_000 });
    world.apply(Action::Drift { host: 1, ppm: -100_000 });
    world.run_until(nanos(1_000_000_000));
    let (fast, slow) = (of(&readings, 0), of(&readings, 1));
    assert!((1099..=1101).contains(&fast.len()), "{}", fast.len());
    assert!((899..=901).contains(&slow.len()), "{}", slow.len());
    assert!(fast.last().is_some_and(|(at, _)| (1_099_000_000..=1_100_000_000).contains(at)));
    assert!(fast.windows(2).all(|pair| pair[0].0 < pair[1].0), "it never runs backwards");
}

#[test]
fn a_clock_that_is_set_right_stays_off_and_goes_on_through_a_restart() {
    let (mut world, readings) = ticking(true);
    world.apply(Action::Drift { host: 0, ppm: 500_000 });
    world.run_until(nanos(10_000_000));
    world.apply(Action::Restart { host: 0 });
    world.run_until(nanos(20_000_000));
    world.apply(Action::Drift { host: 0, ppm: 0 });
    world.run_until(nanos(30_000_000));
    let last = *of(&readings, 0).last().expect("it runs");
    assert!((39_000_000..=40_000_000).contains(&last.0), "{last:?}");
    assert!(of(&readings, 0).windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(of(&readings, 1).len(), 31, "the other host's is exact");
}

#[test]
fn the_clock_of_day_jumps_and_the_counting_one_does_not() {
    let (mut world, readings) = ticking(false);
    world.schedule(nanos(5_500_000), Action::JumpDay { host: 0, by_nanos: -3_600_000_000_000 });
    world.run_until(nanos(10_000_000));
    let read = of(&readings, 0);
    let counted: Vec<u64> = read.iter().map(|(at, _)| *at).collect();
    assert_eq!(counted, (0..=10).map(|tick| tick * 1_000_000).collect::<Vec<_>>());
    let start = read[0].1;
    assert_eq!(read[5].1, start + 5_000_000);
    assert_eq!(read[6].1, start + 6_000_000 - 3_600_000_000_000);
    assert_eq!(of(&readings, 1)[6].1, start + 6_000_000);
}

#[test]
fn clocks_of_hosts_that_do_not_drift_change_nothing() {
    let [(mut shared, a), (mut own, b)] = [ticking(false), ticking(true)];
    shared.run_until(nanos(50_000_000));
    own.run_until(nanos(50_000_000));
    assert_eq!(a.borrow().len(), 102);
    assert_eq!(*a.borrow(), *b.borrow());
    assert_eq!(shared.trace_hash(), own.trace_hash());
}

#[test]
#[should_panic(expected = "a world whose clocks drift has `own_clocks`")]
fn the_worlds_own_clock_does_not_drift() {
    ticking(false).0.apply(Action::Drift { host: 0, ppm: 1 });
}
