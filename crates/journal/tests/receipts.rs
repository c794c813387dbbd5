//! Snapshots that are received in pieces (QR21).

mod support;

use petasos_base::Rng;
use petasos_journal::{Error, Receipt, SnapshotId, SnapshotReader, snapshot as snapshots};
use petasos_sim::disk::{Crash, SimDisk, SimFiles};
use support::{OURS, read_snapshot, snapshot, state};

const INDEX: u64 = 42;

/// A disk with a snapshot, and which it is.
fn theirs(bytes: usize) -> (SimDisk, SnapshotId) {
    let disk = SimDisk::new(7);
    let id = snapshot(&disk.files(), INDEX, bytes).expect("there is space");
    (disk, id)
}

fn reader(disk: &SimDisk) -> SnapshotReader<SimFiles> {
    SnapshotReader::open(&disk.files(), OURS.group, INDEX).expect("it is whole")
}

#[test]
fn qr21_a_snapshot_is_the_same_after_pieces_of_any_length() {
    for bytes in [0, 1, 65_535, 65_536, 65_537, 131_072, 300_000] {
        for piece in [1 + bytes / 7, 1000, 70_000, 1 << 20] {
            let (from, id) = theirs(bytes);
            assert_eq!(reader(&from).id(), Ok(id));
            let to = SimDisk::new(8);
            let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
            while !receipt.is_whole() {
                let at = receipt.received();
                let part = reader(&from).piece(at, piece).expect("it is there");
                receipt.piece(at, &part).expect("it is good");
            }
            assert!(snapshots::indices(&to.files()).expect("it is listed").is_empty());
            assert_eq!(receipt.finish(), Ok(id));
            assert_eq!(read_snapshot(&to.files(), INDEX), Ok(state(INDEX, bytes)));
            assert_eq!(reader(&to).verify(), Ok(id));
        }
    }
}

#[test]
fn qr21_a_receipt_goes_on_after_crashes_from_where_it_stopped() {
    let mut kept = 0;
    for seed in 0..60 {
        let (from, id) = theirs(500_000);
        let to = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        for attempt in 0.. {
            assert!(attempt < 100, "seed {seed}: it makes progress");
            let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
            kept += receipt.received();
            for _ in 0..1 + rng.below(6) {
                let at = receipt.received();
                let part = reader(&from).piece(at, 30_000).expect("it is there");
                receipt.piece(at, &part).expect("it is good");
            }
            if receipt.is_whole() {
                receipt.finish().expect("it is durable");
                break;
            }
            drop(receipt);
            let host = rng.chance(0.5);
            to.crash(if host { Crash::Host } else { Crash::Process });
            assert!(snapshots::indices(&to.files()).expect("it is listed").is_empty());
        }
        to.crash(Crash::Host);
        assert_eq!(read_snapshot(&to.files(), INDEX), Ok(state(INDEX, 500_000)), "seed {seed}");
    }
    assert!(kept > 1_000_000, "{kept}");
}

#[test]
fn wrong_pieces_are_refused_and_good_ones_kept() {
    let (from, id) = theirs(200_000);
    let to = SimDisk::new(1);
    let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
    let piece = |at, bytes| reader(&from).piece(at, bytes).expect("it is there");
    receipt.piece(0, &piece(0, 100_000)).expect("it is good");
    assert!(matches!(receipt.piece(0, &piece(0, 100)), Err(Error::BadPiece { .. })));
    let mut flipped = piece(100_000, 50_000);
    flipped[3] ^= 1;
    assert!(matches!(receipt.piece(100_000, &flipped), Err(Error::BadPiece { .. })));
    let whole = receipt.received();
    assert!((60_000..100_000).contains(&whole), "the first block: {whole}");
    let rest = piece(whole, usize::MAX);
    let longer = [&rest[..], b"more"].concat();
    assert!(matches!(receipt.piece(whole, &longer), Err(Error::BadPiece { .. })));
    receipt.piece(whole, &rest).expect("it is good");
    receipt.finish().expect("it is whole");
    assert_eq!(read_snapshot(&to.files(), INDEX), Ok(state(INDEX, 200_000)));
}

#[test]
fn another_snapshot_is_not_taken_for_the_one_that_was_announced() {
    let (from, id) = theirs(1000);
    let bytes = reader(&from).piece(0, usize::MAX).expect("it is there");
    let to = SimDisk::new(1);
    let others = [
        (OURS.group + 1, id),
        (OURS.group, SnapshotId { index: 41, ..id }),
        (OURS.group, SnapshotId { term: 1, ..id }),
    ];
    for (group, id) in others {
        let mut receipt = Receipt::begin(to.files(), group, id).expect("there is space");
        assert!(matches!(receipt.piece(0, &bytes), Err(Error::BadPiece { .. })));
        assert_eq!(receipt.received(), 0);
        assert!(matches!(receipt.finish(), Err(Error::BadPiece { .. })));
    }
    for id in [SnapshotId { sum: 1, ..id }, SnapshotId { bytes: id.bytes + 9, ..id }] {
        let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
        receipt.piece(0, &bytes).expect("it is a snapshot");
        assert!(!receipt.is_whole());
        receipt.discard().expect("it is there");
        let again = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
        assert_eq!(again.received(), 0);
        assert!(again.finish().is_err());
    }
    assert!(snapshots::indices(&to.files()).expect("it is listed").is_empty());
}

#[test]
fn a_piece_is_given_again_when_there_is_space() {
    let (from, id) = theirs(200_000);
    let to = SimDisk::new(1);
    let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
    to.set_capacity(100_000);
    let bytes = reader(&from).piece(0, usize::MAX).expect("it is there");
    assert_eq!(receipt.piece(0, &bytes), Err(Error::Full));
    assert_eq!(receipt.received(), 0);
    to.set_capacity(u64::MAX);
    receipt.piece(0, &bytes).expect("there is space");
    receipt.finish().expect("it is whole");
}

#[test]
fn after_a_sync_that_failed_a_receipt_begins_anew() {
    for seed in 0..20 {
        let (from, id) = theirs(200_000);
        let to = SimDisk::new(seed);
        let bytes = reader(&from).piece(0, usize::MAX).expect("it is there");
        let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
        receipt.piece(0, &bytes).expect("there is space");
        to.fail_sync_in(1);
        assert!(matches!(receipt.finish(), Err(Error::Failed(_))));
        to.crash(Crash::Process);
        let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
        assert_eq!(receipt.received(), 0, "the page cache is not believed");
        receipt.piece(0, &bytes).expect("there is space");
        receipt.finish().expect("it is whole");
        to.crash(Crash::Host);
        assert_eq!(read_snapshot(&to.files(), INDEX), Ok(state(INDEX, 200_000)));
    }
}
