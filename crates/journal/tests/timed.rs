//! A disk that takes time: what it has said to be done by then is there after a crash (QR19).
//!
//! In simulation a call returns at once, and what it promises holds from
//! [`petasos_sim::disk::SimDisk::done_at`] on.

mod support;

use petasos_base::{Rng, Time};
use petasos_journal::{HardState, Journal};
use petasos_sim::disk::{Crash, DiskTiming, SimDisk};
use support::{CONFIG, OURS, append, check_all};

const TIMING: DiskTiming = DiskTiming {
    write_nanos: 2_000,
    sync_nanos: 100_000,
    sync_jitter_nanos: 400_000,
    kib_nanos: 1000,
};

/// Promises, and from when on they hold.
type Promises = Vec<(Time, u64)>;

fn held(promises: &Promises, now: Time) -> u64 {
    promises.iter().filter(|(at, _)| *at <= now).map(|(_, what)| *what).max().unwrap_or(0)
}

#[test]
fn qr19_what_was_done_when_the_host_or_process_went_down_is_there() {
    let mut cut_short = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        drop(Journal::create(disk.files(), OURS, CONFIG).expect("the disk is empty"));
        disk.set_timing(TIMING);
        let (mut now, mut records, mut votes) = (Time::ZERO, 0, 0);
        for _ in 0..6 {
            let opened = Journal::open(disk.files(), OURS, CONFIG);
            let mut journal = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = (journal.durable_place(), journal.hard_state().since);
            assert!(found.0 >= records && found.1 >= votes, "seed {seed}: {found:?}");
            check_all(&journal).expect("nothing is damaged");
            let opened_at = disk.done_at();
            let mut appended: Promises = vec![(opened_at, found.0)];
            let mut voted: Promises = vec![(opened_at, found.1)];
            for _ in 0..rng.below(12) {
                let next = journal.next_place();
                append(&mut journal, next..=next + rng.below(8)).expect("there is space");
                let upto = journal.sync().expect("it does not fail");
                appended.push((disk.done_at(), upto));
                if rng.chance(0.3) {
                    let hard = HardState { fields: [1; 4], since: upto };
                    journal.set_hard_state(hard).expect("it does not fail");
                    voted.push((disk.done_at(), upto));
                }
                now = now.plus_nanos(rng.below(300_000));
                disk.set_now(now);
            }
            cut_short += u64::from(disk.done_at() > now);
            (records, votes) = (records.max(held(&appended, now)), votes.max(held(&voted, now)));
            disk.crash(if rng.chance(0.5) { Crash::Host } else { Crash::Process });
        }
    }
    assert!(cut_short > 300, "{cut_short} crashes while something was under way");
}
