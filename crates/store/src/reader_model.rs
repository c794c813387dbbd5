//! All interleavings of a reader with its partition's owner, within bounds, under the memory model.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p petasos-store --release --lib reader_model`

use loom::thread;

use crate::change::Write;
use crate::hash::Secret;
use crate::item::Header;
use crate::partition::{Log, Partition};
use crate::reader::{ReadItem, Reader};
use crate::sizes::{Mode, Sizes};

/// Words of an item whose key and value have eight bytes each.
const ITEM_WORDS: usize = 5;
const OLD: [u8; 8] = [1; 8];
const NEW: [u8; 8] = [2; 8];

/// All orders would take hours.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 10_000;
    model.check(run);
}

/// One bucket, and a log for so many items.
fn partition(mode: Mode, items: usize) -> Partition {
    let sizes = Sizes {
        mode,
        buckets: 1,
        overflow: 0,
        log_words: (items * ITEM_WORDS) as u64,
        item_words_max: ITEM_WORDS as u64,
        value_bytes_max: 8,
        locks_max: 1,
    };
    Partition::new(&sizes, Secret::new([1, 2]), 0, 1)
}

fn set(partition: &mut Partition, key: &[u8; 8], value: &[u8; 8]) {
    let key = partition.key(key).expect("it has an allowed length");
    let write = Write { value, ..Write::default() };
    partition.set(0, &key, &write).expect("there is room");
}

/// What a reader of key 1 finds, unless it gives up.
fn read(reader: &Reader) -> Option<Option<(ReadItem, Vec<u8>)>> {
    let key = reader.key(&[1; 8]).expect("it has an allowed length");
    let mut value = Vec::new();
    let read = reader.get(0, &key, &mut value).ok()?;
    Some(read.map(|item| (item, value)))
}

/// Runs `write` beside a reader, and judges what it has found.
///
/// The writer begins, on the model's own thread. Loom remembers the last access to a word alone: if
/// the reader began, a writer that loads a word before it stores to it would hide the reader's load
/// from loom, and with it most orders.
fn beside(
    mut partition: Partition,
    write: impl FnOnce(&mut Partition),
    judge: impl Fn(Option<(ReadItem, Vec<u8>)>) + Send + 'static,
) {
    set(&mut partition, &[1; 8], &OLD);
    let reader = partition.reader();
    let reading = thread::spawn(move || {
        if let Some(found) = read(&reader) {
            judge(found);
        }
    });
    write(&mut partition);
    reading.join().expect("what it reads is right");
}

fn is_old_or_new(found: Option<(ReadItem, Vec<u8>)>) {
    let (item, value) = found.expect("it was never away");
    let expected = if item.stamp == 1 { OLD } else { NEW };
    assert_eq!(value, expected);
}

/// K13: a value that is overwritten where it lies.
#[test]
fn an_overwritten_value_is_whole() {
    model(|| {
        let partition = partition(Mode::Store, 64);
        beside(partition, |partition| set(partition, &[1; 8], &NEW), is_old_or_new);
    });
}

/// K13: a ring's end passes the item.
#[test]
fn an_item_that_the_ring_overwrites_is_whole_or_gone() {
    model(|| {
        let partition = partition(Mode::Cache, 2);
        let fill = |partition: &mut Partition| {
            set(partition, &[3; 8], &NEW);
            set(partition, &[3; 8], &NEW);
        };
        beside(partition, fill, |found| {
            if let Some((item, value)) = found {
                assert_eq!((item.stamp, value), (1, OLD.to_vec()));
            }
        });
    });
}

/// K13: cleaning moves the item, and its segment is written again, with the same key.
#[test]
fn an_item_that_moves_is_found() {
    model(|| {
        let partition = partition(Mode::Store, 64);
        let reuse = |partition: &mut Partition| {
            let Log::Store(segments) = &mut partition.log else { unreachable!("it is a store") };
            let to = segments.take_for_moved(ITEM_WORDS);
            let memory = &partition.memory;
            memory.set_mark(1 + memory.mark());
            memory.copy_words(0, to, ITEM_WORDS);
            memory.set_slot(0, 0, memory.slot(0, 0).moved(to, 0));
            memory.set_mark(1 + memory.mark());
            let deleted = Header { stamp: 9, expiry_ms: 0, value_bytes: 8, key_bytes: 8, flags: 0 };
            deleted.begin(memory, 0, &[1; 8]).push(&[9; 8]);
        };
        beside(partition, reuse, |found| {
            let (item, value) = found.expect("it was never away");
            assert_eq!((item.stamp, value), (1, OLD.to_vec()));
        });
    });
}
