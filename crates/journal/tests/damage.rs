//! Durable bytes that change: each is found, and nothing is cut to get over it (QR19).

mod support;

use petasos_base::Rng;
use petasos_journal::{Error, HardState, IdentityError, Journal, SnapshotReader, verify};
use petasos_sim::disk::{Crash, SimDisk};
use support::{CONFIG, OURS, append, check_all, read_snapshot, snapshot};

const HARD: HardState = HardState { fields: [4, 2, 0, 1], since: 77 };

/// Where a journal has records in its files, and where marks.
const RECORDS_AT: usize = 4096;
const MARKS: std::ops::Range<usize> = 512..1536;

/// A journal of some segments and snapshots that was closed.
fn closed() -> SimDisk {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.files(), OURS, CONFIG).expect("it is made");
    journal.set_hard_state(HARD).expect("it is durable");
    for place in 1..=60 {
        append(&mut journal, place..=place).expect("there is space");
        journal.sync().expect("it is durable");
    }
    snapshot(&disk.files(), 10, 150_000).expect("there is space");
    snapshot(&disk.files(), 30, 1000).expect("there is space");
    journal.compact(30).expect("a snapshot has it");
    journal.close().expect("it is durable");
    disk
}

fn open(disk: &SimDisk) -> Result<(), Error> {
    let journal = Journal::open(disk.files(), OURS, CONFIG)?;
    assert_eq!((journal.next_place(), journal.hard_state()), (61, HARD));
    check_all(&journal)
}

/// Files by name, to be put back.
fn files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let contents = |name: String| (name.clone(), disk.contents(&name).expect("it is there"));
    disk.names().into_iter().map(contents).collect()
}

fn segments(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let mut segments = files(disk);
    segments.retain(|(name, _)| name.starts_with("log-"));
    assert!(segments.len() >= 2, "there are some");
    segments
}

/// Where the last record ends.
fn used(segment: &[u8]) -> usize {
    let last = segment.iter().rposition(|byte| *byte != 0).expect("it has a header");
    (last + 1).next_multiple_of(8)
}

#[test]
fn qr19_a_flipped_bit_in_any_durable_record_or_header_is_found() {
    let disk = closed();
    for (name, bytes) in segments(&disk) {
        for at in (0..512).chain(RECORDS_AT..used(&bytes)) {
            assert!(disk.flip(&name, 8 * at as u64 + at as u64 % 8));
            let report = verify(&disk.files()).expect("it has an identity");
            assert_eq!(report.damage.len(), 1, "{name}, {at}: {report:?}");
            match open(&disk) {
                Err(Error::Damage(damage)) => {
                    assert_eq!((&damage.file, &damage), (&name, &report.damage[0]));
                    assert!(damage.offset <= at as u64, "{damage}");
                    assert!(damage.to_string().contains("join anew"));
                }
                other => panic!("{name}, {at}: {other:?}"),
            }
            disk.put(&name, &bytes);
        }
    }
    open(&disk).expect("all of it is back");
}

#[test]
fn qr19_a_flipped_bit_in_a_mark_does_no_harm_and_both_marks_are_not_lost_silently() {
    let disk = closed();
    for (name, bytes) in segments(&disk) {
        for at in MARKS.step_by(3) {
            disk.flip(&name, 8 * at as u64);
            open(&disk).expect("the other mark is there");
            disk.put(&name, &bytes);
        }
        disk.flip(&name, 8 * 520);
        disk.flip(&name, 8 * 1040);
        assert!(matches!(open(&disk), Err(Error::Damage(damage)) if damage.file == name));
        disk.put(&name, &bytes);
    }
}

#[test]
fn qr19_a_missing_or_short_file_is_damage() {
    let disk = closed();
    for (name, bytes) in segments(&disk).into_iter().chain([("state".to_owned(), Vec::new())]) {
        let bytes =
            if bytes.is_empty() { disk.contents(&name).expect("it is there") } else { bytes };
        disk.take_away(&name);
        let error = open(&disk).expect_err("it is missing");
        assert!(matches!(error, Error::Damage(_)), "{name}: {error}");
        let report = verify(&disk.files()).expect("it has an identity");
        assert!(!report.damage.is_empty(), "{name}");
        for length in [0, 100, 4000, bytes.len() / 3] {
            disk.put(&name, &bytes[..length]);
            if name != "state" || length < 512 {
                assert!(matches!(open(&disk), Err(Error::Damage(_))), "{name}, {length}");
            }
        }
        disk.put(&name, &bytes);
    }
    disk.take_away("snapshot-000000000000001e");
    let error = open(&disk).expect_err("what was cut off is lost");
    assert!(error.to_string().contains("no snapshot has what is before"), "{error}");
}

#[test]
fn qr17_one_copy_of_the_hard_state_is_enough_and_none_is_damage() {
    let disk = closed();
    let state = disk.contents("state").expect("it is there");
    for at in (0..512).chain(4096..4608) {
        disk.flip("state", 8 * at + at % 8);
        open(&disk).expect("the other copy is there");
        assert_eq!(disk.contents("state").expect("it is there")[..72][16..], state[..72][16..]);
        disk.put("state", &state);
    }
    disk.flip("state", 80);
    disk.flip("state", 8 * 4096 + 80);
    assert!(matches!(open(&disk), Err(Error::Damage(damage)) if damage.file == "state"));
}

#[test]
fn qr21_a_flipped_bit_in_a_snapshot_is_found_when_it_is_read() {
    let disk = closed();
    let name = "snapshot-000000000000000a";
    let bytes = disk.contents(name).expect("it is there");
    for at in (0..200).chain((200..bytes.len()).step_by(499)).chain(bytes.len() - 16..bytes.len()) {
        disk.flip(name, 8 * at as u64 + 3);
        let read = read_snapshot(&disk.files(), 10);
        assert!(matches!(read, Err(Error::Damage(_))), "{at}: {read:?}");
        let reader = SnapshotReader::open(&disk.files(), OURS.group, 10);
        assert!(reader.and_then(|mut reader| reader.verify()).is_err(), "{at}");
        disk.put(name, &bytes);
    }
    for length in [0, 10, 70, 70_000, bytes.len() - 1] {
        disk.put(name, &bytes[..length]);
        assert!(matches!(read_snapshot(&disk.files(), 10), Err(Error::Damage(_))), "{length}");
    }
    disk.put(name, &[&bytes[..], b"more"].concat());
    assert!(matches!(read_snapshot(&disk.files(), 10), Err(Error::Damage(_))));
    let report = verify(&disk.files()).expect("it has an identity");
    assert_eq!((report.snapshots.len(), report.damage.len()), (1, 1));
}

#[test]
fn qr17_a_flipped_bit_in_the_identity_is_found() {
    let disk = closed();
    let identity = disk.contents("identity").expect("it is there");
    for bit in 0..8 * identity.len() as u64 {
        disk.flip("identity", bit);
        let error = open(&disk).expect_err("it is no identity of ours");
        assert!(matches!(error, Error::Identity(_)), "{bit}: {error}");
        disk.put("identity", &identity);
    }
    disk.take_away("identity");
    assert_eq!(open(&disk), Err(IdentityError::None.into()));
    // It is not taken for a directory that was never used.
    let made = Journal::create(disk.files(), OURS, CONFIG).map(drop);
    assert!(matches!(made, Err(Error::Identity(IdentityError::Unreadable { .. }))), "{made:?}");
}

#[test]
fn an_unreadable_sector_is_named_and_costs_no_more() {
    let disk = closed();
    let (name, bytes) = segments(&disk).swap_remove(1);
    disk.lose_sector(&name, 9);
    let error = open(&disk).expect_err("it cannot be read");
    assert!(error.to_string().starts_with(&format!("reading {name}")), "{error}");
    disk.put(&name, &bytes);
    open(&disk).expect("it is back");
}

/// Damage that comes while the journal is open is found when the record is read.
#[test]
fn damage_of_an_open_journal_is_found_when_it_is_read() {
    let disk = SimDisk::new(2);
    let mut journal = Journal::create(disk.files(), OURS, CONFIG).expect("it is made");
    append(&mut journal, 1..=20).expect("there is space");
    journal.sync().expect("it is durable");
    disk.flip("log-0000000000000001", 8 * 4500);
    assert!(matches!(check_all(&journal), Err(Error::Damage(_))));
}

/// Whatever is in the files, a start ends, and what it accepts can be read.
#[test]
fn hostile_files_do_no_harm() {
    let disk = closed();
    let originals = files(&disk);
    let mut rng = Rng::new(5);
    let mut accepted = 0;
    for round in 0..3000 {
        for _ in 0..=rng.below(3) {
            let (name, bytes) = &originals[rng.below(originals.len() as u64) as usize];
            let at = rng.below(bytes.len().max(1) as u64);
            match rng.below(4) {
                0 => disk.put(name, &bytes[..at as usize]),
                1 => disk.edit(name, at, &rng.next_u64().to_le_bytes()),
                2 => disk.edit(name, at / 8 * 8, &[0xff; 24]),
                _ => disk.put(name, &originals[rng.below(originals.len() as u64) as usize].1),
            }
        }
        if let Ok(journal) = Journal::open(disk.files(), OURS, CONFIG) {
            accepted += 1;
            assert!(journal.next_place() <= 61, "round {round}");
            check_all(&journal).expect("what was read once is read again");
        }
        let _ = verify(&disk.files());
        let _ = read_snapshot(&disk.files(), 10);
        disk.crash(Crash::Process);
        disk.names().iter().for_each(|name| disk.take_away(name));
        originals.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    }
    assert!((100..2900).contains(&accepted), "{accepted}");
}
