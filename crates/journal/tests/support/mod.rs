//! What several tests need: records, and snapshots.
#![allow(dead_code, reason = "no test needs all of it")]

use petasos_journal::{
    Config, Error, Files, Identity, Journal, OwnedRecord, Record, SnapshotHead, SnapshotId,
    SnapshotReader, SnapshotWriter,
};

pub const OURS: Identity = Identity { group: 0x6702, member: 3 };

/// Segments for a few records.
pub const CONFIG: Config = Config { segment_bytes: 8192, snapshots_kept: 2 };

/// The record at a place. Its contents follow from that.
pub fn record(place: u64) -> OwnedRecord {
    let data = (0..place * 37 % 300).map(|index| (index * place) as u8).collect();
    OwnedRecord { place, term: place / 5, kind: place as u8, data }
}

/// Appends the records of these places.
pub fn append<F: Files>(
    journal: &mut Journal<F>,
    places: std::ops::RangeInclusive<u64>,
) -> Result<(), Error> {
    let records: Vec<OwnedRecord> = places.map(record).collect();
    let records: Vec<Record<'_>> = records.iter().map(OwnedRecord::borrow).collect();
    journal.append(&records)
}

/// Reads the whole log, and checks it.
pub fn check_all<F: Files>(journal: &Journal<F>) -> Result<(), Error> {
    let mut place = journal.first_place();
    while place < journal.next_place() {
        for found in journal.read(place, 10_000)? {
            assert_eq!(found, record(place));
            place += 1;
        }
    }
    Ok(())
}

/// The head of the snapshot at a place.
pub fn head(index: u64) -> SnapshotHead {
    let configuration = b"members 1, 2, 3".to_vec();
    SnapshotHead { group: OURS.group, index, term: index / 5, configuration }
}

/// The state that a snapshot has.
pub fn state(index: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u64 * 31 + at as u64 / 255 + index) as u8).collect()
}

/// Makes a snapshot.
pub fn snapshot<F: Files>(files: &F, index: u64, bytes: usize) -> Result<SnapshotId, Error> {
    let mut writer = SnapshotWriter::begin(files.clone(), head(index))?;
    writer.write(&state(index, bytes))?;
    writer.finish()
}

/// Reads a snapshot's state.
pub fn read_snapshot<F: Files>(files: &F, index: u64) -> Result<Vec<u8>, Error> {
    let mut reader = SnapshotReader::open(files, OURS.group, index)?;
    assert_eq!(*reader.head(), head(index));
    let (mut state, mut part) = (Vec::new(), Vec::new());
    while reader.next(&mut part)? {
        state.extend_from_slice(&part);
    }
    Ok(state)
}
