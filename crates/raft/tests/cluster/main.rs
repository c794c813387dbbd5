//! Groups that are broken at random, under a time of their own: members crash, stop for a while and
//! come back, directions of the network are cut, messages are lost, doubled and overtake each
//! other, disks are slow and lose what they had not written, clocks run apart, members change. What
//! a group has acknowledged stays, and reads see it (QR1, QR2); when all is mended, it goes on.
//!
//! Each run is decided by its seed, and faults that are planted are found.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod disk;
mod faults;
mod node;
mod world;

use faults::Trial;
use node::Plants;
use petasos_raft::{MemberId, Settings};
use world::World;

/// How many trials of a kind there are. `PETASOS_TRIALS` has more of them for a soak.
fn trials() -> u64 {
    std::env::var("PETASOS_TRIALS").ok().and_then(|count| count.parse().ok()).unwrap_or(80)
}

/// Runs trials, from a first seed on. Writes and reads that have ended.
fn run(first: u64, trial: impl Fn(u64) -> Trial) -> (u64, u64) {
    let mut ended = (0, 0);
    for seed in first..first + trials() {
        let (writes, reads) = trial(seed).run(seed).unwrap_or_else(|violation| {
            panic!("seed {seed}: {}", violation.0);
        });
        ended = (ended.0 + writes, ended.1 + reads);
    }
    ended
}

/// The number of voters: mostly three.
fn voters(seed: u64) -> usize {
    [3, 3, 5, 3, 2, 3, 1, 3][usize::try_from(seed % 8).unwrap()]
}

/// QR1, QR2, QR5, QR6, QR14.
#[test]
fn a_broken_group_keeps_what_it_has_acknowledged() {
    let (writes, reads) = run(0, |seed| Trial::new(voters(seed)));
    assert!(writes > 50_000 && reads > 50_000, "{writes} writes and {reads} reads");
}

/// QR7, QR8.
#[test]
fn so_does_one_whose_members_change() {
    let trial = |seed| Trial { is_changing: true, ..Trial::new(voters(seed)) };
    let (writes, reads) = run(1_000_000, trial);
    assert!(writes > 40_000 && reads > 40_000, "{writes} writes and {reads} reads");
}

/// Clocks that run apart by as much as was said do not break reads by lease (QR15).
#[test]
fn leases_hold_while_clocks_run_apart_as_said() {
    let trial = |seed| {
        let plain = Trial::new(voters(seed));
        let settings = Settings { lease_drift: Some(100), ..plain.settings };
        Trial { settings, drift: 45, is_changing: seed % 2 == 0, ..plain }
    };
    let (writes, reads) = run(2_000_000, trial);
    assert!(writes > 40_000 && reads > 40_000, "{writes} writes and {reads} reads");
}

/// Some of so many trials breaks a promise.
fn is_found(trial: &Trial) -> bool {
    (0..300).any(|seed| trial.run(seed).is_err())
}

fn planted(plants: Plants) -> Trial {
    Trial { plants, ..Trial::new(3) }
}

/// QR5: a crash loses what counted as written.
#[test]
fn entries_that_count_before_they_are_durable_are_found() {
    assert!(is_found(&planted(Plants { durable_early: true, ..Plants::default() })));
}

#[test]
fn commands_that_are_acknowledged_before_a_majority_has_them_are_found() {
    assert!(is_found(&planted(Plants { acknowledges_unasked: true, ..Plants::default() })));
}

/// QR14: a leader that was deposed does not know it yet.
#[test]
fn reads_at_a_deposed_leader_are_found() {
    assert!(is_found(&planted(Plants { reads_unasked: true, ..Plants::default() })));
}

/// QR19: damage is not cut off.
#[test]
fn damage_that_is_cut_off_is_found() {
    assert!(is_found(&planted(Plants { truncates_damage: true, ..Plants::default() })));
}

/// A leader with a slow clock is cut off from two followers with fast ones, which elect another
/// one. Whether somebody reads what is no longer so.
fn reads_old_state(drift: u64, seed: u64) -> bool {
    let settings = Settings { lease_drift: Some(drift), ..Trial::new(3).settings };
    let mut world = World::new(seed, 3, &settings);
    world.clients(5);
    world.run_until(1_000_000);
    let leader = world.leader().expect("a leader has been found");
    for id in (1..=3).map(MemberId) {
        world.set_rate(id, if id == leader { 700 } else { 1300 });
    }
    world.run_until(1_100_000);
    world.isolate(leader);
    world.run_until(3_000_000);
    world.violation.is_some()
}

/// QR15: clocks that run further apart than was said.
#[test]
fn leases_without_a_bound_for_drift_are_found() {
    assert!((0..40).any(|seed| reads_old_state(0, seed)));
    assert!(!(0..40).any(|seed| reads_old_state(500, seed)));
}
