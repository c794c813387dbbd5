//! The log and the hard state, without faults but the caller's, and a full disk.

mod support;

use petasos_journal::{
    Config, Error, File, Files, HardState, Identity, IdentityError, Journal, Record, verify,
};
use petasos_sim::disk::{Crash, SimDisk, SimFiles};
use support::{CONFIG, OURS, append, check_all, record, snapshot};

fn create(disk: &SimDisk) -> Journal<SimFiles> {
    Journal::create(disk.files(), OURS, CONFIG).expect("the disk is empty")
}

fn open(disk: &SimDisk, identity: Identity) -> Result<Journal<SimFiles>, Error> {
    Journal::open(disk.files(), identity, CONFIG)
}

#[test]
fn qr18_what_is_appended_is_read_and_durable_when_it_is_synced() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=100).expect("there is space");
    assert!(journal.durable_place() < 100);
    assert_eq!(journal.sync(), Ok(100));
    assert_eq!(journal.durable_place(), 100);
    check_all(&journal).expect("nothing is damaged");
    drop(journal);
    disk.crash(Crash::Host);
    let journal = open(&disk, OURS).expect("it is whole");
    assert_eq!((journal.first_place(), journal.next_place()), (1, 101));
    check_all(&journal).expect("nothing is damaged");
}

#[test]
fn reads_are_bounded_but_give_one_record_at_least() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=30).expect("there is space");
    let bytes = |records: &[petasos_journal::OwnedRecord]| -> usize {
        records.iter().map(|record| 24 + record.data.len().next_multiple_of(8)).sum()
    };
    let records = journal.read(3, 1000).expect("they are there");
    assert!(bytes(&records) <= 1000 && records.len() > 1, "{}", records.len());
    assert_eq!(journal.read(3, 0).expect("it is there"), [record(3)]);
    assert_eq!(journal.read(1, usize::MAX).expect("they are there").len(), 30);
    let not_there = Error::NotThere { place: 31, first: 1, last: 30 };
    assert_eq!(journal.read(31, 1000), Err(not_there));
    assert!(journal.read(0, 1000).is_err());
}

#[test]
fn a_callers_faults_are_refused_and_change_nothing() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=3).expect("there is space");
    assert_eq!(append(&mut journal, 5..=6), Err(Error::OutOfOrder { place: 5, next: 4 }));
    let max = CONFIG.data_bytes_max();
    let long = vec![0; max + 1];
    let fits = Record { place: 4, term: 1, kind: 1, data: &long[..max] };
    let [second, third] = [5, 6].map(|place| Record { place, data: &long, ..fits });
    let error = journal.append(&[fits, second, third]);
    assert_eq!(error, Err(Error::TooLarge { bytes: max + 1, max }));
    assert_eq!(journal.next_place(), 4);
    journal.append(&[fits]).expect("it fits a segment");
    assert!(matches!(journal.truncate(6), Err(Error::NotThere { place: 6, first: 1, last: 4 })));
    assert!(matches!(journal.truncate(0), Err(Error::NotThere { .. })));
    assert_eq!(journal.compact(2), Err(Error::NoSnapshot { upto: 2 }));
    assert_eq!(journal.reset(9), Err(Error::NoSnapshot { upto: 8 }));
    assert_eq!(journal.read(4, 1).expect("it is there")[0].data.len(), max);
}

#[test]
fn truncated_records_do_not_come_back_and_others_take_their_places() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=100).expect("there is space");
    journal.sync().expect("it is durable");
    let segments = disk.names().iter().filter(|name| name.starts_with("log-")).count();
    journal.truncate(11).expect("it is there");
    assert_eq!((journal.next_place(), journal.durable_place()), (11, 10));
    assert!(disk.names().iter().filter(|name| name.starts_with("log-")).count() < segments);
    let other = Record { place: 11, term: 99, kind: 0, data: b"other" };
    journal.append(&[other]).expect("there is space");
    journal.sync().expect("it is durable");
    drop(journal);
    disk.crash(Crash::Host);
    let journal = open(&disk, OURS).expect("it is whole");
    assert_eq!(journal.next_place(), 12);
    assert_eq!(journal.read(11, 100).expect("it is there")[0].borrow(), other);
}

#[test]
fn qr21_what_a_snapshot_has_goes_by_segments_and_a_reset_log_begins_behind_it() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=100).expect("there is space");
    journal.sync().expect("it is durable");
    snapshot(&disk.files(), 70, 100).expect("there is space");
    assert_eq!(journal.compact(71), Err(Error::NoSnapshot { upto: 71 }));
    journal.compact(70).expect("a snapshot has it");
    let first = journal.first_place();
    assert!((2..=71).contains(&first), "{first}");
    assert!(matches!(journal.read(first - 1, 1), Err(Error::NotThere { .. })));
    check_all(&journal).expect("nothing is damaged");
    snapshot(&disk.files(), 500, 100).expect("there is space");
    journal.reset(501).expect("a snapshot has what is before");
    append(&mut journal, 501..=503).expect("there is space");
    journal.close().expect("it is durable");
    let journal = open(&disk, OURS).expect("it is whole");
    assert_eq!((journal.first_place(), journal.next_place()), (501, 504));
}

#[test]
fn qr17_a_directory_is_of_one_member_and_one_process() {
    let disk = SimDisk::new(1);
    assert_eq!(open(&disk, OURS).err(), Some(IdentityError::None.into()));
    let journal = create(&disk);
    assert_eq!(open(&disk, OURS).err(), Some(IdentityError::InUse.into()));
    assert!(verify(&disk.files()).expect("it has an identity").is_in_use);
    drop(journal);
    let again = Journal::create(disk.files(), OURS, CONFIG).err();
    let taken = IdentityError::Taken { group: OURS.group, member: OURS.member };
    assert_eq!(again, Some(taken.into()));
    let other_group = open(&disk, Identity { group: 1, ..OURS }).err();
    let error = IdentityError::OtherGroup { found: OURS.group, expected: 1 };
    assert_eq!(other_group, Some(error.into()));
    let other_member = open(&disk, Identity { member: 1, ..OURS }).err();
    let error = IdentityError::OtherMember { found: OURS.member, expected: 1 };
    assert_eq!(other_member, Some(error.into()));
    let mut newer = disk.contents("identity").expect("it is there");
    newer[8] = 9;
    disk.put("identity", &newer);
    let error = IdentityError::Newer { found: 9, known: 1 };
    assert_eq!(open(&disk, OURS).err(), Some(error.into()));
}

#[test]
fn qr20_no_space_is_found_before_records_are_written_and_passes() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    // Room for what is there and no other segment.
    disk.set_capacity(disk.used_bytes() + 4096);
    let mut next = 1;
    while append(&mut journal, next..=next).is_ok() {
        next += 1;
    }
    assert_eq!(append(&mut journal, next..=next), Err(Error::Full));
    assert_eq!(journal.next_place(), next, "nothing was written");
    assert_eq!(journal.sync(), Ok(next - 1), "what is in the log goes on");
    let hard = HardState { fields: [1, 2, 3, 4], since: 5 };
    journal.set_hard_state(hard).expect("it needs no space");
    check_all(&journal).expect("reads go on");
    let made = journal.prepare().expect("one is wanted").run();
    assert_eq!(journal.prepared(made), Err(Error::Full));
    assert!(!disk.names().iter().any(|name| name.starts_with("spare-")), "{:?}", disk.names());
    assert_eq!(snapshot(&disk.files(), 2, 100_000), Err(Error::Full));
    assert!(!disk.names().iter().any(|name| name.starts_with("snapshot-")));
    disk.set_capacity(u64::MAX);
    let made = journal.prepare().expect("one is wanted").run();
    journal.prepared(made).expect("there is space");
    append(&mut journal, next..=next + 20).expect("there is space");
    journal.close().expect("it is durable");
    let journal = open(&disk, OURS).expect("it is whole");
    assert_eq!((journal.next_place(), journal.hard_state()), (next + 21, hard));
}

#[test]
fn a_start_leaves_nothing_of_the_last_process() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=30).expect("there is space");
    journal.sync().expect("it is durable");
    for index in [10, 20, 30] {
        snapshot(&disk.files(), index, 100).expect("there is space");
    }
    drop(journal.prepare().expect("one is wanted").run().expect("there is space"));
    disk.put("snapshot-0000000000000040.new", b"unfinished");
    let receipt = |index| format!("receipt-{index:016x}-{:016x}-{:016x}-{:08x}", 1, 1000, 1);
    disk.put(&receipt(5), b"overtaken");
    disk.put(&receipt(50), b"to be gone on with");
    disk.put("notes.txt", b"none of ours");
    drop(journal);
    let report = verify(&disk.files()).expect("it has an identity");
    assert_eq!(report.leftovers.len(), 4, "{report:?}");
    assert!(report.damage.is_empty(), "{report:?}");
    let before = files(&disk);
    verify(&disk.files()).expect("it has an identity");
    assert_eq!(before, files(&disk), "it changes nothing");
    drop(open(&disk, OURS).expect("it is whole"));
    let mut names = disk.names();
    names.retain(|name| !name.starts_with("log-"));
    let snapshots = ["snapshot-0000000000000014", "snapshot-000000000000001e"];
    let expected = ["identity", "lock", "notes.txt", &receipt(50), snapshots[0], snapshots[1]];
    assert_eq!(names, [&expected[..], &["state"]].concat());
}

fn files(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.contents(&name))).collect()
}

#[test]
fn a_report_says_what_is_there() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    let hard = HardState { fields: [9, 8, 7, 6], since: 5 };
    journal.set_hard_state(hard).expect("it is durable");
    append(&mut journal, 1..=80).expect("there is space");
    journal.sync().expect("it is durable");
    let id = snapshot(&disk.files(), 7, 200_000).expect("there is space");
    journal.close().expect("it is durable");
    let name = disk.names().into_iter().filter(|name| name.starts_with("log-")).max();
    let file = disk.files().open(&name.expect("there is one")).expect("it is there");
    let end = verify(&disk.files()).expect("it has an identity").segments.last().map(|s| s.end);
    file.write_at(&[7; 30], end.expect("there is one")).expect("there is space");
    let report = verify(&disk.files()).expect("it has an identity");
    assert_eq!((report.identity, report.hard_state, report.is_in_use), (OURS, Some(hard), false));
    assert_eq!((report.snapshots, report.damage.len()), (vec![id], 0));
    let places: u64 = report.segments.iter().map(|segment| segment.records).sum();
    let last = report.segments.last().expect("there are some");
    assert_eq!((places, report.segments[0].first_place), (80, 1));
    assert!(last.is_torn && last.durable_place == Some(80), "{last:?}");
}

#[test]
#[should_panic(expected = "segments have 8 KiB to 1 GiB")]
fn settings_are_checked() {
    let config = Config { segment_bytes: 4096, ..Config::default() };
    let _ = Journal::create(SimDisk::new(1).files(), OURS, config);
}

#[test]
fn qr20_after_a_failure_every_call_says_so() {
    let disk = SimDisk::new(1);
    let mut journal = create(&disk);
    append(&mut journal, 1..=3).expect("there is space");
    disk.fail_sync_of("log-");
    let Err(error @ Error::Failed(_)) = journal.sync() else { panic!("the sync has failed") };
    let results = [
        append(&mut journal, 4..=4),
        journal.sync().map(drop),
        journal.settle(),
        journal.truncate(100),
        journal.compact(1),
        journal.reset(1),
        journal.set_hard_state(HardState::default()),
        journal.read(1, 1).map(drop),
    ];
    for (index, result) in results.iter().enumerate() {
        assert_eq!(*result, Err(error.clone()), "call {index}");
    }
    assert!(journal.prepare().is_none());
    assert!(error.to_string().contains("look at the disk, and start again"), "{error}");
    assert_eq!(journal.close(), Err(error));
}

/// The page cache shows zeros that the disk does not have: what a truncation has erased before its
/// sync failed must not come back behind the records of the next process.
#[test]
fn qr20_what_was_erased_before_a_failed_sync_does_not_come_back() {
    let mut failed = 0;
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let mut journal = create(&disk);
        append(&mut journal, 1..=20).expect("there is space");
        journal.sync().expect("it is durable");
        disk.fail_sync_in(1 + seed % 4);
        failed += usize::from(journal.truncate(15).is_err());
        drop(journal);
        disk.crash(Crash::Process);
        let mut journal = open(&disk, OURS).expect("it is whole");
        let next = journal.next_place();
        assert!((15..=21).contains(&next));
        if seed % 3 == 0 {
            let other = Record { place: next, term: 99, kind: 0, data: b"other" };
            journal.append(&[other]).expect("there is space");
            journal.sync().expect("it is durable");
        }
        let next = journal.next_place();
        drop(journal);
        disk.crash(Crash::Host);
        let journal = open(&disk, OURS).expect("it is whole");
        assert_eq!(journal.next_place(), next, "seed {seed}");
    }
    assert!(failed > 100, "{failed}");
}
