//! Files of a journal (QR17 to QR21), as a disk has them that is damaged, or that somebody has
//! written to.
//!
//! Whatever they are, a start ends, with an error or with a log that can be read, appended to, and
//! opened again; so does a report; and a snapshot is received as a whole or not at all. Sums are
//! made good in half of the inputs, so that what is behind them is reached.

use std::sync::OnceLock;

use petasos_journal::{
    Config, Identity, Journal, Receipt, Record, SnapshotHead, SnapshotId, SnapshotReader,
    SnapshotWriter, verify,
};
use petasos_sim::disk::SimDisk;

use crate::{Input, Seed};

const OURS: Identity = Identity { group: 5, member: 2 };
const CONFIG: Config = Config { segment_bytes: 8192, snapshots_kept: 1 };
const INDEX: u64 = 4;

/// A byte for the number of changes, the changes, and whether sums are made good.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk = SimDisk::new(1);
    let files = files();
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    for _ in 0..input.u8() % 8 {
        change(&disk, files, &mut input);
    }
    if input.bool() {
        make_sums_good(&disk);
    }
    // Neither changes anything.
    let _ = verify(&disk.files());
    let snapshot = SnapshotReader::open(&disk.files(), OURS.group, INDEX);
    let is_good = snapshot.is_ok_and(|mut reader| reader.verify().is_ok());
    receive(&disk, is_good, &mut input);
    start(&disk);
}

fn change(disk: &SimDisk, files: &[(String, Vec<u8>)], input: &mut Input<'_>) {
    let mut any = || &files[usize::from(input.u8()) % files.len()];
    let ((name, bytes), (_, other)) = (any(), any());
    match input.u8() % 5 {
        0 => disk.put(name, &bytes[..usize::from(input.u16()).min(bytes.len())]),
        1 => disk.put(name, other),
        2 => disk.take_away(name),
        3 => disk.put(name, input.short()),
        _ => {
            let at = u64::from(input.u16());
            disk.edit(name, at, input.short());
        }
    }
}

/// What opens goes on.
fn start(disk: &SimDisk) {
    let Ok(mut journal) = Journal::open(disk.files(), OURS, CONFIG) else { return };
    let (first, next) = (journal.first_place(), journal.next_place());
    for place in first..next {
        let read = journal.read(place, 0).expect("a start has read it");
        assert_eq!((read.len(), read[0].place), (1, place));
    }
    let record = Record { place: next, term: 9, kind: 1, data: b"the next one" };
    if journal.append(&[record]).is_err() {
        return;
    }
    journal.close().expect("the disk has no faults");
    let journal = Journal::open(disk.files(), OURS, CONFIG).expect("it was closed");
    assert_eq!((journal.first_place(), journal.next_place()), (first, next + 1));
    assert_eq!(journal.read(next, 0).expect("it is there")[0].borrow(), record);
}

/// Gives the snapshot's file to a receipt, in pieces.
fn receive(disk: &SimDisk, is_good: bool, input: &mut Input<'_>) {
    let Some(bytes) = disk.contents("snapshot-0000000000000004") else { return };
    let sum = bytes.len().checked_sub(12).map_or(0, |at| u32_at(&bytes, at));
    let term = bytes.get(40).copied().unwrap_or(0).into();
    let id = SnapshotId { index: INDEX, term, bytes: bytes.len() as u64, sum };
    let to = SimDisk::new(2);
    let mut receipt = Receipt::begin(to.files(), OURS.group, id).expect("there is space");
    for piece in bytes.chunks(usize::from(input.u16()).max(1)) {
        if receipt.piece(receipt.received(), piece).is_err() {
            break;
        }
    }
    if receipt.is_whole() {
        assert!(is_good, "it is received and cannot be read");
        receipt.finish().expect("it is whole");
        let mut reader = SnapshotReader::open(&to.files(), OURS.group, INDEX).expect("it is ours");
        assert_eq!(reader.verify(), Ok(id));
    }
}

/// As whoever knows the format would.
fn make_sums_good(disk: &SimDisk) {
    for name in disk.names() {
        let mut bytes = disk.contents(&name).expect("it is there");
        match name.split('-').next() {
            Some("log") => segment_sums(&mut bytes),
            Some("state") => bytes.chunks_mut(4096).for_each(|copy| seal(copy, 512, 0)),
            Some("identity") => seal(&mut bytes, 64, 0),
            _ => {}
        }
        disk.put(&name, &bytes);
    }
}

fn segment_sums(bytes: &mut [u8]) {
    if bytes.len() < 4096 {
        return;
    }
    seal(bytes, 512, 0);
    let mut sum = u32_at(bytes, 508);
    [512, 1024].into_iter().for_each(|at| seal(&mut bytes[at..], 512, sum));
    let mut rest = &mut bytes[4096..];
    while rest.len() >= 24 && rest[8..16] != [0; 8] {
        let data = (u32_at(rest, 0) & 0xff_ffff) as usize;
        let Some((record, behind)) = rest.split_at_mut_checked(24 + data.next_multiple_of(8))
        else {
            return;
        };
        sum = crc32c::crc32c_append(crc32c::crc32c_append(sum, &record[..4]), &record[8..]);
        record[4..8].copy_from_slice(&sum.to_le_bytes());
        rest = behind;
    }
}

/// Writes the sum of a block of that length into its last four bytes.
fn seal(bytes: &mut [u8], length: usize, seed: u32) {
    if let Some((covered, sum)) =
        bytes.get_mut(..length).and_then(|block| block.split_last_chunk_mut())
    {
        *sum = crc32c::crc32c_append(seed, covered).to_le_bytes();
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A journal of two segments and a snapshot.
fn files() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = SimDisk::new(1);
        let mut journal = Journal::create(disk.files(), OURS, CONFIG).expect("it is empty");
        for place in 1..=10 {
            let data = vec![place as u8; 60 * place as usize];
            let record = Record { place, term: 3, kind: 1, data: &data };
            journal.append(&[record]).expect("there is space");
        }
        journal.close().expect("it is durable");
        let configuration = b"configuration".to_vec();
        let head = SnapshotHead { group: OURS.group, index: INDEX, term: 3, configuration };
        let mut writer = SnapshotWriter::begin(disk.files(), head).expect("there is space");
        writer.write(&[7; 500]).expect("there is space");
        writer.finish().expect("it is durable");
        let contents = |name: String| (name.clone(), disk.contents(&name).expect("it is there"));
        disk.names().into_iter().map(contents).collect()
    })
}

/// Changes of each kind. Files by number: identity, lock, the first segment, the second, snapshot,
/// state.
pub fn seeds() -> Vec<Seed> {
    let edit = |file: u8, at: u16, bytes: &[u8], good: u8| {
        let [low, high] = at.to_le_bytes();
        [&[1, file, 0, 4, low, high, bytes.len() as u8][..], bytes, &[good, 50, 0]].concat()
    };
    vec![
        ("unchanged", vec![0, 0, 100, 0]),
        ("cut", vec![1, 3, 0, 0, 0, 0x14, 0, 50, 0]),
        ("other", vec![1, 2, 3, 1, 1]),
        ("missing", vec![1, 2, 0, 2, 0]),
        ("replaced", vec![1, 5, 0, 3, 4, 1, 2, 3, 4, 0]),
        ("record", edit(2, 4100, &[0xff; 3], 0)),
        ("long", edit(2, 4096, &[0xff; 3], 1)),
        ("place", edit(3, 4104, &[0x77; 8], 1)),
        ("mark", edit(3, 512 + 24, &[0, 0x1f, 0, 0], 1)),
        ("header", edit(2, 8, &[0, 0, 0, 0x40, 1], 1)),
        ("first-place", edit(3, 48, &[0xff; 8], 1)),
        ("state", edit(5, 16, &[9], 1)),
        ("snapshot-head", edit(4, 12, &[0xff; 4], 0)),
        ("snapshot-block", edit(4, 65, &[0xff; 4], 0)),
    ]
}
