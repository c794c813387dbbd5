//! The journal on a disk that crashes at each operation, fails at each sync, and lies.
//!
//! A failure names the seed and the operation; both replay it.

mod model;
mod workload;

use petasos_base::Rng;
use petasos_journal::{Error, Files, IdentityError, Journal};
use petasos_sim::disk::{Crash, Lies, SimDisk, SimFiles};

use crate::workload::{CONFIG, End, OURS, Work, create, reopen};

/// Steps of a run before, and after, what happens to it.
const STEPS: usize = 40;

/// What is done to a disk in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Fault {
    crash_in: u64,
    fail_sync_in: u64,
    lies: Lies,
}

/// Ends the process, and starts it until that succeeds: it may crash again in the start, too.
fn restart(disk: &SimDisk, crash: Crash, work: Work<SimFiles>) -> Result<Work<SimFiles>, String> {
    let Work { mut rng, mut model, journal } = work;
    disk.crash(crash);
    drop(journal);
    let again = rng.chance(0.3);
    for attempt in 0.. {
        if again && attempt < 2 {
            disk.crash_in(1 + rng.below(20));
        }
        match reopen(disk.files(), rng.clone(), &mut model) {
            Ok(work) => {
                disk.crash_in(0);
                return Ok(work);
            }
            Err(End::Stopped) if attempt < 3 => disk.crash(Crash::Host),
            Err(End::Broken(_)) if disk.is_down() => disk.crash(Crash::Host),
            Err(End::Broken(broken)) => return Err(broken),
            Err(End::Stopped) => return Err("it does not start".to_owned()),
        }
    }
    unreachable!("attempts are counted")
}

/// A run in which something happens, and what follows. Gives how many operations and syncs there
/// were before.
fn run(seed: u64, fault: Fault) -> Result<(u64, u64), String> {
    let disk = SimDisk::new(seed ^ fault.crash_in << 32 ^ fault.fail_sync_in << 48);
    let mut work = create(disk.files(), seed);
    let before = disk.stats();
    disk.crash_in(fault.crash_in);
    disk.fail_sync_in(fault.fail_sync_in);
    disk.set_lies(fault.lies);
    let failed = match work.run(STEPS) {
        Err(End::Broken(broken)) => return Err(broken),
        run => run.is_err(),
    };
    let stats = disk.stats();
    if failed != (disk.is_down() || stats.failed_syncs > 0 && !fault.lies.failed_syncs) {
        return Err(format!("stopped: {failed}"));
    }
    let operations = stats.operations - before.operations;
    disk.crash_in(0);
    // If a sync has failed, the page cache lies to the next process.
    let crashes =
        if disk.is_down() { [Crash::Host; 3] } else { [Crash::Process, Crash::Host, Crash::Host] };
    for crash in crashes {
        work = restart(&disk, crash, work)?;
        if work.run(STEPS / 4).is_err() {
            return Err("it stops without a fault".to_owned());
        }
    }
    Ok((operations, stats.syncs - before.syncs))
}

fn sound(seed: u64, fault: Fault) -> (u64, u64) {
    run(seed, fault).unwrap_or_else(|broken| panic!("seed {seed}, {fault:?}: {broken}"))
}

#[test]
fn qr19_what_was_durable_survives_a_crash_at_each_operation() {
    let mut crashes = 0;
    for seed in 0..16 {
        let (operations, _) = sound(seed, Fault::default());
        for crash_in in 1..=operations {
            sound(seed, Fault { crash_in, ..Fault::default() });
        }
        crashes += operations;
    }
    assert!(crashes > 1500, "{crashes}");
}

#[test]
fn qr20_a_failed_sync_is_final_and_nothing_acknowledged_is_lost_after_it() {
    let mut failures = 0;
    for seed in 100..130 {
        let (_, syncs) = sound(seed, Fault::default());
        for fail_sync_in in 1..=syncs {
            sound(seed, Fault { fail_sync_in, ..Fault::default() });
        }
        failures += syncs;
    }
    assert!(failures > 800, "{failures}");
}

#[test]
fn qr19_a_journal_survives_many_crashes_in_a_row() {
    for seed in 1000..1060 {
        let disk = SimDisk::new(seed);
        let mut work = create(disk.files(), seed);
        for crash in 0..25 {
            let steps = work.rng.below(30) as usize;
            if work.rng.chance(0.5) {
                disk.crash_in(1 + work.rng.below(40));
            }
            if let Err(End::Broken(broken)) = work.run(steps) {
                panic!("seed {seed}, crash {crash}: {broken}");
            }
            let kind = if work.rng.chance(0.3) { Crash::Process } else { Crash::Host };
            work = restart(&disk, kind, work)
                .unwrap_or_else(|broken| panic!("seed {seed}, crash {crash}: {broken}"));
        }
    }
}

#[test]
fn qr17_a_journal_is_made_as_a_whole_or_not_at_all() {
    let make = |files: SimFiles| Journal::create(files, OURS, CONFIG);
    let disk = SimDisk::new(0);
    make(disk.files()).map(drop).expect("the disk has no faults");
    for crash_in in 1..=disk.stats().operations {
        for seed in 0..20 {
            let disk = SimDisk::new(seed << 8 | crash_in);
            disk.crash_in(crash_in);
            assert!(make(disk.files()).is_err());
            disk.crash(Crash::Host);
            match Journal::open(disk.files(), OURS, CONFIG) {
                Ok(journal) => assert_eq!(journal.next_place(), 1),
                Err(Error::Identity(IdentityError::None)) => {
                    let made = make(disk.files());
                    assert!(made.is_ok(), "{crash_in}, {seed}: {:?}", made.err());
                }
                Err(error) => panic!("{crash_in}, {seed}: {error}"),
            }
        }
    }
}

/// A bug is found if one of some hundred runs breaks a promise.
fn finds(lies: Lies) -> bool {
    (0..400).any(|seed| {
        let crash_in = Rng::new(seed).below(150);
        let fails = lies.failed_syncs;
        let fault = Fault {
            crash_in: if fails { 0 } else { crash_in },
            fail_sync_in: if fails { 1 + crash_in / 3 } else { 0 },
            lies,
        };
        run(seed, fault).is_err()
    })
}

#[test]
fn bugs_that_are_planted_are_found() {
    assert!(!finds(Lies::default()), "without one, nothing is");
    let of = |part| Lies { syncs_of: Some(part), ..Lies::default() };
    assert!(finds(of("log-")), "records are acknowledged before they are synced");
    assert!(finds(of("state")), "the hard state is");
    assert!(finds(of("spare-")), "a segment has its name before it is whole");
    assert!(finds(of("snapshot-")), "a snapshot is renamed before it is synced");
    assert!(finds(of("receipt-")), "a received one is");
    assert!(finds(Lies { directory_syncs: true, ..Lies::default() }), "names are not synced");
    assert!(finds(Lies { failed_syncs: true, ..Lies::default() }), "a failed sync is tried again");
}

/// Files whose durable marks are not written.
#[test]
fn cutting_damage_as_if_it_were_torn_is_found() {
    let mut found = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let mut work = create(disk.files(), seed);
        work.run(STEPS).expect("the disk has no faults");
        work.journal.settle().expect("the disk has no faults");
        work.model.durable = work.model.next() - 1;
        let Work { rng, mut model, journal } = work;
        let name = last_segment(&disk);
        let used = journal.next_place() > journal.first_place();
        drop(journal);
        disk.crash(Crash::Process);
        disk.flip(&name, 8 * 4100);
        let honest = reopen(disk.files(), rng.clone(), &mut model);
        let refused = matches!(honest, Err(End::Broken(ref said)) if said.contains("damaged"));
        drop(honest);
        // The bug: there is no mark, so everything that is wrong is a torn tail.
        disk.edit(&name, 512, &[0; 1024]);
        if let Err(End::Broken(broken)) = reopen(disk.files(), rng, &mut model) {
            found += usize::from(used && refused && broken.contains("the log ends before"));
        }
    }
    assert!(found > 10, "{found}");
}

fn last_segment(disk: &SimDisk) -> String {
    let names = disk.files().list().expect("the disk has no faults");
    names.into_iter().filter(|name| name.starts_with("log-")).max().expect("there is one")
}
