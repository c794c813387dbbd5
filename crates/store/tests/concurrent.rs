//! Readers beside an owner, on real threads (K13). The interleavings of a few words are judged by
//! loom (`src/reader_model.rs`).

use petasos_base::Rng;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_store::{Condition, Config, Mode, Partition, Reader, Write};

const KEYS: u64 = 300;
const WRITES: u64 = 150_000;

fn table(mode: Mode, log_bytes: u64) -> Partition {
    let usual = Config::for_items(mode, KEYS, 8, 600);
    let config = Config { log_bytes, value_bytes_max: 1024, ..usual };
    config.partitions().expect("there can be such a table").pop().expect("it has one partition")
}

/// A value that shows whether it is whole, and whose: key, count, and as many bytes of the two as
/// they say.
fn value(key: u64, count: u64) -> Vec<u8> {
    let len = (key * 31 + count * 7) % 600;
    let rest = (0..len).map(|at| (key + count + at) as u8);
    [key.to_le_bytes(), count.to_le_bytes()].concat().into_iter().chain(rest).collect()
}

/// Reads until it is told to end; counts what it found.
fn read(reader: &Reader, is_done: &AtomicBool, seed: u64) -> (u64, u64) {
    let (mut rng, mut bytes) = (Rng::new(seed), Vec::new());
    let (mut newest, mut found, mut busy) = (vec![0; KEYS as usize], 0, 0);
    while !is_done.load(Ordering::Relaxed) {
        let number = rng.below(KEYS);
        let key_bytes = number.to_le_bytes();
        let key = reader.key(&key_bytes).expect("it has an allowed length");
        match reader.get(0, &key, &mut bytes) {
            Ok(Some(item)) => {
                let count = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
                assert_eq!(bytes, value(number, count), "a value is whole, and its key's");
                assert_eq!(item.flags, count as u16);
                let newest = &mut newest[number as usize];
                assert!(count >= *newest, "what was read does not go back (K2)");
                *newest = count;
                found += 1;
            }
            Ok(None) => {}
            Err(_) => busy += 1,
        }
    }
    (found, busy)
}

fn write(table: &mut Partition, seed: u64, deletes: bool) {
    let mut rng = Rng::new(seed);
    for count in 1..=WRITES {
        let number = rng.below(KEYS);
        let key_bytes = number.to_le_bytes();
        let key = table.key(&key_bytes).expect("it has an allowed length");
        if deletes && rng.below(4) == 0 {
            let _ = table.delete(0, &key, Condition::Always, None);
            continue;
        }
        let bytes = value(number, count);
        let write = Write { value: &bytes, flags: count as u16, ..Write::default() };
        table.set(0, &key, &write).expect("there is room");
        let _ = table.get(0, &key);
        if count % 8 == 0 {
            table.end_batch();
        }
    }
}

fn run(mut table: Partition, deletes: bool) -> Partition {
    let is_done = AtomicBool::new(false);
    let readers = [1, 2].map(|seed| (seed, table.reader()));
    let read_by = std::thread::scope(|scope| {
        let done = &is_done;
        let threads = readers.map(|(seed, reader)| scope.spawn(move || read(&reader, done, seed)));
        write(&mut table, 9, deletes);
        is_done.store(true, Ordering::Relaxed);
        threads.map(|thread| thread.join().expect("what it reads is right"))
    });
    assert!(read_by.iter().all(|(found, _)| *found > 0), "{read_by:?}");
    table
}

/// Values are overwritten, deleted, moved by cleaning, and their segments written again.
#[test]
fn k13_readers_of_a_store_see_whole_values_in_order() {
    let table = run(table(Mode::Store, 220 << 10), true);
    assert!(table.stats().moved_bytes > 0, "it was cleaned");
}

/// The ring overwrites what readers read.
#[test]
fn k13_readers_of_a_cache_see_whole_values_in_order() {
    let table = run(table(Mode::Cache, 80 << 10), true);
    assert!(table.stats().forgotten > 0);
}

/// Nothing is missing that was never away.
#[test]
fn k13_readers_of_a_store_miss_nothing() {
    let mut table = table(Mode::Store, 220 << 10);
    (0..KEYS).for_each(|number| {
        let key_bytes = number.to_le_bytes();
        let key = table.key(&key_bytes).expect("it has an allowed length");
        let bytes = value(number, 0);
        table.set(0, &key, &Write { value: &bytes, ..Write::default() }).expect("there is room");
    });
    let (is_done, reader) = (AtomicBool::new(false), table.reader());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (mut rng, mut bytes, mut reads) = (Rng::new(3), Vec::new(), 0u64);
            while !is_done.load(Ordering::Relaxed) {
                let key_bytes = rng.below(KEYS).to_le_bytes();
                let key = reader.key(&key_bytes).expect("it has an allowed length");
                if let Ok(read) = reader.get(0, &key, &mut bytes) {
                    assert!(read.is_some(), "it was never deleted");
                    reads += 1;
                }
            }
            reads
        });
        write(&mut table, 5, false);
        is_done.store(true, Ordering::Relaxed);
        assert!(thread.join().expect("nothing is missing") > 0);
    });
}
