//! The simulated disk: what a crash leaves, what faults do, and that a seed gives one disk.

use std::collections::BTreeSet;

use petasos_base::Time;
use petasos_journal::{File, FileError, Files};
use petasos_sim::disk::{Crash, DiskTiming, Lies, SECTOR_BYTES, SimDisk, SimFiles};

/// A durable file of zeros.
fn disk(seed: u64, bytes: usize) -> (SimDisk, SimFiles) {
    let disk = SimDisk::new(seed);
    disk.put("a", &vec![0; bytes]);
    let files = disk.files();
    (disk, files)
}

/// The sectors that are not zero.
fn written(disk: &SimDisk) -> Vec<usize> {
    let contents = disk.contents("a").expect("it is there");
    let sectors = contents.chunks(SECTOR_BYTES).enumerate();
    sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)).map(|(at, _)| at).collect()
}

#[test]
fn what_is_synced_survives_and_of_the_rest_any_sectors_do() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (disk, files) = disk(seed, 8 * SECTOR_BYTES);
        let file = files.open("a").expect("it is there");
        file.write_at(&[1; SECTOR_BYTES], 0).expect("there is space");
        file.sync().expect("it does not fail");
        file.write_at(&[2; 3 * SECTOR_BYTES], 1024).expect("there is space");
        assert_eq!(written(&disk), [0, 2, 3, 4], "the page cache shows everything");
        disk.crash(Crash::Host);
        let left = written(&disk);
        assert_eq!(left[0], 0);
        seen.insert(left);
    }
    assert_eq!(seen.len(), 8, "all combinations: {seen:?}");
}

#[test]
fn a_sector_is_not_torn() {
    for seed in 0..50 {
        let (disk, files) = disk(seed, 4 * SECTOR_BYTES);
        let file = files.open("a").expect("it is there");
        file.write_at(&[1; 3 * SECTOR_BYTES], 100).expect("there is space");
        disk.crash(Crash::Host);
        let contents = disk.contents("a").expect("it is there");
        for (index, sector) in contents.chunks(SECTOR_BYTES).enumerate() {
            let inner = if index == 0 { &sector[100..] } else { &sector[..100] };
            assert!(inner.iter().all(|byte| *byte == inner[0]), "sector {index}");
        }
    }
}

#[test]
fn a_crash_of_the_process_leaves_everything_and_ends_its_files_and_locks() {
    let (disk, files) = disk(1, SECTOR_BYTES);
    let file = files.open("a").expect("it is there");
    file.write_at(&[1], 0).expect("there is space");
    let _lock = files.lock("lock").expect("nobody has it");
    assert_eq!(files.lock("lock").err(), Some(FileError::Locked));
    disk.crash(Crash::Process);
    assert_eq!(written(&disk), [0]);
    assert!(file.write_at(&[1], 0).is_err() && files.list().is_err());
    assert!(disk.files().lock("lock").is_ok());
}

#[test]
fn names_are_durable_when_the_directory_is_synced() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (disk, files) = disk(seed, 1);
        let file = files.create("b").expect("it is new");
        file.sync().expect("it does not fail");
        files.rename("a", "c").expect("it is there");
        disk.crash(Crash::Host);
        seen.insert(disk.names());
    }
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let all = [names(&["a"]), names(&["a", "b"]), names(&["b", "c"]), names(&["c"])];
    assert_eq!(seen, BTreeSet::from(all));

    let (disk, files) = disk(1, 1);
    files.rename("a", "c").expect("it is there");
    files.sync_directory().expect("it does not fail");
    disk.crash(Crash::Host);
    assert_eq!(disk.names(), ["c"]);
}

#[test]
fn after_a_failed_sync_the_page_cache_lies_and_a_second_sync_does_not_help() {
    let mut lost = 0;
    for seed in 0..50 {
        let (disk, files) = disk(seed, 4 * SECTOR_BYTES);
        let file = files.open("a").expect("it is there");
        file.write_at(&[1; 4 * SECTOR_BYTES], 0).expect("there is space");
        disk.fail_sync_in(1);
        assert!(file.sync().is_err());
        assert!(file.sync().is_ok(), "it has nothing to do");
        disk.crash(Crash::Process);
        assert_eq!(written(&disk).len(), 4);
        disk.crash(Crash::Host);
        lost += 4 - written(&disk).len();
    }
    assert!((50..150).contains(&lost), "half of 200: {lost}");
}

#[test]
fn what_is_written_again_after_a_failed_sync_is_durable() {
    for seed in 0..20 {
        let (disk, files) = disk(seed, 4 * SECTOR_BYTES);
        let file = files.open("a").expect("it is there");
        file.write_at(&[1; 4 * SECTOR_BYTES], 0).expect("there is space");
        disk.fail_sync_in(1);
        assert!(file.sync().is_err());
        file.write_at(&[1; 4 * SECTOR_BYTES], 0).expect("there is space");
        file.sync().expect("it does not fail");
        disk.crash(Crash::Host);
        assert_eq!(written(&disk), [0, 1, 2, 3]);
    }
}

#[test]
fn a_full_disk_takes_what_needs_no_space() {
    let (disk, files) = disk(1, 1000);
    disk.set_capacity(1500);
    let file = files.open("a").expect("it is there");
    assert_eq!(file.preallocate(1501), Err(FileError::NoSpace));
    assert_eq!(file.write_at(&[1; 1000], 501), Err(FileError::NoSpace));
    file.write_at(&[1; 1000], 500).expect("there is space");
    files.remove("a").expect("it is there");
    assert_eq!(disk.used_bytes(), 1500, "it is open");
    drop(file);
    files.sync_directory().expect("it does not fail");
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn time_is_a_number_and_what_is_not_done_by_then_is_not_durable() {
    let nanos = Time::from_nanos;
    let timing = DiskTiming { write_nanos: 10, sync_nanos: 1000, ..DiskTiming::default() };
    for crash_at in [0, 500, 1009, 1010, 1500] {
        let (disk, files) = disk(crash_at, 2 * SECTOR_BYTES);
        disk.set_timing(timing);
        let file = files.open("a").expect("it is there");
        file.write_at(&[1], 0).expect("there is space");
        file.sync().expect("it does not fail");
        assert_eq!(disk.done_at(), nanos(1010));
        file.write_at(&[1], 512).expect("there is space");
        assert_eq!(disk.done_at(), nanos(1020));
        disk.set_now(nanos(crash_at));
        disk.crash(Crash::Host);
        let left = written(&disk);
        assert!(left.contains(&0) || crash_at < 1010, "{crash_at}: {left:?}");
        assert!(!left.contains(&1) || crash_at >= 1010, "it had not begun: {crash_at}: {left:?}");
    }
}

#[test]
fn a_process_that_dies_has_not_done_what_it_would_have_waited_for() {
    let (disk, files) = disk(1, 2 * SECTOR_BYTES);
    disk.set_timing(DiskTiming { sync_nanos: 1000, ..DiskTiming::default() });
    let file = files.open("a").expect("it is there");
    file.write_at(&[1], 0).expect("there is space");
    file.sync().expect("it does not fail");
    file.write_at(&[1], 512).expect("there is space");
    disk.set_now(Time::from_nanos(999));
    disk.crash(Crash::Process);
    assert_eq!(written(&disk), [0]);
}

#[test]
fn a_host_goes_down_at_an_operation_that_is_done_in_part() {
    let (disk, files) = disk(3, SECTOR_BYTES);
    let file = files.open("a").expect("it is there");
    disk.crash_in(2);
    file.write_at(&[1], 0).expect("there is space");
    assert!(file.sync().is_err() && disk.is_down());
    assert!(files.list().is_err());
    disk.crash(Crash::Process);
    assert!(!disk.is_down() && disk.files().list().is_ok());
}

#[test]
fn a_disk_that_lies_syncs_nothing() {
    let kept = (0..40).filter(|seed| {
        let (disk, files) = disk(*seed, SECTOR_BYTES);
        disk.set_lies(Lies { syncs_of: Some("a"), ..Lies::default() });
        let file = files.open("a").expect("it is there");
        file.write_at(&[1], 0).expect("there is space");
        file.sync().expect("it says so");
        disk.crash(Crash::Host);
        written(&disk) == [0]
    });
    let kept = kept.count();
    assert!((5..35).contains(&kept), "{kept}");
}

#[test]
fn damage_stays_until_it_is_overwritten() {
    let (disk, files) = disk(1, 2 * SECTOR_BYTES);
    assert!(disk.flip("a", 8 * 700) && !disk.flip("a", 8 * 2000));
    disk.crash(Crash::Host);
    assert_eq!(written(&disk), [1]);
    let files = (disk.files(), files).0;
    let file = files.open("a").expect("it is there");
    disk.lose_sector("a", 1);
    assert_eq!(file.read_at(&mut [0; 512], 0), Ok(512));
    assert!(file.read_at(&mut [0; 513], 0).is_err());
    file.write_at(&[0; 512], 512).expect("there is space");
    assert_eq!(file.read_at(&mut [0; 1024], 0), Ok(1024));
}

#[test]
fn a_seed_gives_one_disk() {
    let contents = |seed| {
        let (disk, files) = disk(seed, 64 * SECTOR_BYTES);
        let file = files.open("a").expect("it is there");
        for at in 0..64 {
            file.write_at(&[at as u8; SECTOR_BYTES], at * 512).expect("there is space");
        }
        disk.crash(Crash::Host);
        disk.contents("a")
    };
    assert!((0..10).all(|seed| contents(seed) == contents(seed)));
    assert!((0..10).any(|seed| contents(seed) != contents(seed + 1)));
}
