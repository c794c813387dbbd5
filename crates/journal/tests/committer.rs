//! Group commit: the journal's thread, over a simulated disk.

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use petasos_journal::{
    Committer, Config, Error, Event, HardState, Journal, NotTaken, OwnedRecord, QueueLimits, Record,
};
use petasos_sim::disk::{Crash, SimDisk, SimFiles};
use support::{OURS, check_all, record};

const CONFIG: Config = Config { segment_bytes: 64 << 10, snapshots_kept: 2 };

/// Longer than anything takes, if it does not hang.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A token at whose event the thread waits until it is let go.
const HOLD: u64 = u64::MAX;

/// The gate is dropped first, so that a test that fails ends.
struct Rig {
    go: Sender<()>,
    committer: Committer<SimFiles>,
    events: Receiver<Event>,
}

impl Rig {
    fn start(disk: &SimDisk, limits: QueueLimits) -> Rig {
        let journal = Journal::create(disk.files(), OURS, CONFIG).expect("the disk is empty");
        let ((tell, events), (go, gate)) = (channel(), channel());
        let committer = Committer::start(journal, limits, move |event| {
            let holds = matches!(event, Event::Done { token: HOLD, .. });
            // At the end of a test, nobody listens.
            let _ = tell.send(event);
            if holds {
                let _ = gate.recv();
            }
        });
        Rig { committer: committer.expect("there are threads"), events, go }
    }

    /// The thread waits from now on.
    fn hold(&self) {
        self.committer.set_hard_state(HOLD, HardState::default()).expect("there is room");
        self.until(|event| matches!(event, Event::Done { token: HOLD, .. }));
    }

    fn append(&self, place: u64) -> Result<(), NotTaken> {
        self.committer.append(&[record(place).borrow()])
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(WATCHDOG).expect("something happens")
    }

    /// All events up to this one.
    fn until(&self, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = vec![self.next()];
        while !is_last(events.last().expect("there is one")) {
            events.push(self.next());
        }
        events
    }
}

fn durable(event: &Event) -> Option<u64> {
    match event {
        Event::Durable { upto } => Some(*upto),
        _ => None,
    }
}

#[test]
fn qr18_one_sync_makes_durable_what_has_come_meanwhile() {
    let disk = SimDisk::new(1);
    let rig = Rig::start(&disk, QueueLimits::default());
    rig.append(1).expect("there is room");
    rig.until(|event| durable(event) == Some(1));
    rig.hold();
    let before = disk.stats();
    (2..=100).for_each(|place| rig.append(place).expect("there is room"));
    rig.go.send(()).expect("the thread waits");
    assert_eq!(rig.next(), Event::Durable { upto: 100 });
    let after = disk.stats();
    // One for 99 records. A segment may be being made at the same time, and marks be settled.
    assert!(after.syncs - before.syncs < 10, "{} syncs", after.syncs - before.syncs);
    rig.committer.close().expect("it is durable");
    disk.crash(Crash::Host);
    let journal = Journal::open(disk.files(), OURS, CONFIG).expect("it is whole");
    assert_eq!(journal.next_place(), 101);
    check_all(&journal).expect("nothing is damaged");
}

#[test]
fn commands_are_done_in_order_and_each_has_its_end() {
    let disk = SimDisk::new(1);
    let rig = Rig::start(&disk, QueueLimits::default());
    rig.hold();
    (1..=10).for_each(|place| rig.append(place).expect("there is room"));
    rig.committer.read(1, 3, 0).expect("there is room");
    rig.committer.truncate(2, 6).expect("there is room");
    rig.append(6).expect("there is room");
    rig.committer.truncate(3, 60).expect("there is room");
    rig.committer.compact(4, 3).expect("there is room");
    rig.committer.reset(5, 9).expect("there is room");
    let hard = HardState { fields: [1, 2, 3, 4], since: 5 };
    rig.committer.set_hard_state(6, hard).expect("there is room");
    rig.append(8).expect("there is room");
    rig.append(7).expect("there is room");
    rig.committer.read(7, 1, usize::MAX).expect("there is room");
    rig.go.send(()).expect("the thread waits");
    let mut events = rig.until(|event| durable(event) == Some(6));
    events.retain(|event| !matches!(event, Event::Space { .. }));
    let refused = |place, next| Event::Refused { place, error: Error::OutOfOrder { place, next } };
    let done = |token, result| Event::Done { token, result };
    let not_there = Error::NotThere { place: 60, first: 1, last: 6 };
    let all: Vec<OwnedRecord> = (1..=6).map(record).collect();
    let expected = [
        Event::Read { token: 1, result: Ok(vec![record(3)]) },
        done(2, Ok(())),
        done(3, Err(not_there)),
        done(4, Err(Error::NoSnapshot { upto: 3 })),
        done(5, Err(Error::NoSnapshot { upto: 8 })),
        done(6, Ok(())),
        refused(8, 7),
        Event::Read { token: 7, result: Ok(all) },
        Event::Durable { upto: 6 },
    ];
    assert_eq!(events, expected);
    rig.committer.close().expect("it is durable");
    assert_eq!(rig.events.iter().last(), Some(Event::Ended { result: Ok(()) }));
    let journal = Journal::open(disk.files(), OURS, CONFIG).expect("it is whole");
    assert_eq!((journal.next_place(), journal.hard_state()), (7, hard));
}

#[test]
fn the_queue_is_bounded_by_commands_and_by_bytes() {
    let limits = QueueLimits { commands_max: 5, bytes_max: 10_000 };
    let rig = Rig::start(&SimDisk::new(1), limits);
    rig.hold();
    let long = vec![0; 20_000];
    let record = |place, data| Record { place, term: 1, kind: 1, data };
    rig.committer.append(&[record(1, &long)]).expect("nothing else waits");
    let refused = rig.committer.append(&[record(2, b"short")]);
    assert_eq!(refused, Err(NotTaken::Busy));
    for token in 0..4 {
        rig.committer.read(token, 1, 0).expect("there is room");
    }
    assert_eq!(rig.committer.read(9, 1, 0), Err(NotTaken::Busy));
    rig.go.send(()).expect("the thread waits");
    rig.until(|event| durable(event) == Some(1));
    rig.committer.append(&[record(2, b"short")]).expect("there is room again");
    rig.committer.close().expect("it is durable");
}

#[test]
fn qr20_a_full_disk_refuses_what_needs_space_until_there_is_some() {
    let disk = SimDisk::new(1);
    disk.set_capacity(100 << 10);
    let rig = Rig::start(&disk, QueueLimits::default());
    rig.until(|event| *event == Event::Space { is_full: true });
    let data = vec![1; 10_000];
    let append = |place| {
        rig.committer.append(&[Record { place, term: 1, kind: 1, data: &data }]).expect("room");
    };
    (1..=10).for_each(append);
    let events = rig.until(|event| matches!(event, Event::Refused { .. }));
    let Some(Event::Refused { place, error: Error::Full }) = events.last().cloned() else {
        panic!("{events:?}");
    };
    rig.committer.set_hard_state(1, HardState::default()).expect("there is room");
    let is_done = |event: &Event| matches!(event, Event::Done { token: 1, result: Ok(()) });
    let events = [events, rig.until(is_done)].concat();
    let last = events.iter().filter_map(durable).max().unwrap_or(0);
    rig.committer.read(2, 1, 0).expect("there is room");
    if last > 0 {
        rig.until(|event| matches!(event, Event::Read { token: 2, result: Ok(_) }));
    }
    disk.set_capacity(u64::MAX);
    rig.until(|event| *event == Event::Space { is_full: false });
    // What came behind the refused record was refused as well, or it would have no gap before it.
    assert!(place > last, "{place} {last}");
    (last + 1..=10).for_each(append);
    rig.until(|event| durable(event) == Some(10));
    rig.committer.close().expect("it is durable");
}

#[test]
fn qr20_after_a_failed_sync_the_thread_ends_and_says_why() {
    let disk = SimDisk::new(1);
    let rig = Rig::start(&disk, QueueLimits::default());
    rig.append(1).expect("there is room");
    rig.until(|event| durable(event) == Some(1));
    rig.hold();
    rig.append(2).expect("there is room");
    disk.fail_sync_of("log-");
    rig.go.send(()).expect("the thread waits");
    let events = rig.until(|event| matches!(event, Event::Ended { .. }));
    assert!(events.iter().all(|event| durable(event).is_none()), "{events:?}");
    let Some(Event::Ended { result: Err(error @ Error::Failed(_)) }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(rig.append(3), Err(NotTaken::Closed));
    assert_eq!(rig.committer.close(), Err(error.clone()));
}

#[test]
fn when_nothing_comes_the_last_records_are_marked_as_durable() {
    let disk = SimDisk::new(1);
    let rig = Rig::start(&disk, QueueLimits::default());
    rig.append(1).expect("there is room");
    rig.until(|event| durable(event) == Some(1));
    let marks = || {
        let segment = disk.contents("log-0000000000000001").expect("it is there");
        (segment[512 + 16], segment[1024 + 16])
    };
    let patience = std::iter::repeat_n(Duration::from_millis(10), 6000);
    for pause in patience {
        if marks() == (1, 1) {
            return;
        }
        // The thread has no event for this; the bound is the watchdog's.
        std::thread::sleep(pause);
    }
    panic!("the marks are {:?}", marks());
}

#[test]
fn a_panic_of_who_gets_events_closes_the_queue() {
    let journal = Journal::create(SimDisk::new(1).files(), OURS, CONFIG).expect("it is empty");
    let (told, tells) = channel();
    let committer = Committer::start(journal, QueueLimits::default(), move |event| {
        told.send(()).expect("the test waits");
        panic!("in the test: {event:?}");
    });
    let committer = committer.expect("there are threads");
    committer.set_hard_state(1, HardState::default()).expect("there is room");
    tells.recv_timeout(WATCHDOG).expect("it is told");
    while committer.read(2, 1, 0) != Err(NotTaken::Closed) {
        std::thread::yield_now();
    }
}
