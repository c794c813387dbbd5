//! A store answers as the map does, and is full exactly when its capacity says so.

use petasos_base::Rng;
use petasos_store::{Condition, Config, Mode, Partition, Refused, Write};

use crate::oracle::{Operation, Oracle, Outcome, Shape, any, operate};

fn store(log_bytes: u64, items: u64, value_bytes_max: u32) -> Partition {
    let mode = Mode::Store;
    // Of a failure, the seed says all.
    let (partitions, locks_max, secret) = (1, 16, Some([3, 4]));
    let config = Config { mode, partitions, items, log_bytes, value_bytes_max, locks_max, secret };
    let mut partitions = config.partitions().expect("there can be such a table");
    partitions.pop().expect("it has one")
}

/// Runs operations in both, and compares each.
fn run(table: &mut Partition, shape: &Shape, seed: u64, operations: u64) -> (u64, Oracle) {
    let (mut rng, mut oracle) = (Rng::new(seed), Oracle::default());
    let (mut now_ms, mut stamp, mut refusals) = (1, 0, 0);
    for number in 0..operations {
        now_ms += rng.below(3);
        let (key, operation) = any(&mut rng, shape, now_ms, stamp);
        oracle.expire_key(&key, now_ms);
        let version = |table: &Partition| {
            let key = table.key(&key).expect("it has an allowed length");
            table.version(&key)
        };
        let before = (version(table), oracle.items.get(&key).cloned());
        let outcome = operate(table, now_ms, &key, &operation);
        let said = format!("seed {seed}, operation {number}: {operation:?} of {key:?}");
        match (oracle.change(&key, &operation), outcome) {
            (Ok(item), Outcome::Item(found)) => assert_eq!(found, item, "{said}"),
            (Ok(item), Outcome::Written(given)) => {
                assert!(given > stamp, "{said}: stamps count up (K6)");
                stamp = given;
                let item = item.map(|item| crate::oracle::Item { stamp, ..item });
                oracle.put(&key, item);
            }
            (Ok(item), Outcome::Done) => oracle.put(&key, item),
            (Ok(Some(item)), Outcome::Refused(Refused::Full)) => {
                oracle.expire(now_ms);
                let old = before.1.as_ref().map_or(0, |old| old.bytes(&key));
                let then = oracle.bytes() - old + item.bytes(&key);
                assert!(then > table.capacity_bytes(), "{said}: there is room (K4)");
                refusals += 1;
            }
            (Ok(Some(item)), Outcome::Refused(Refused::TooLong)) => {
                assert!(item.value.len() > table.value_bytes_max(), "{said}");
            }
            (Err(expected), Outcome::Refused(refused)) => assert_eq!(refused, expected, "{said}"),
            (expected, outcome) => panic!("{said}: {outcome:?} instead of {expected:?}"),
        }
        // K5: what has changed has another version.
        let changed = before.1.as_ref() != oracle.items.get(&key);
        assert!(!changed || version(table) > before.0, "{said}: the version is the same");
    }
    oracle.expire(now_ms);
    assert_eq!(table.items_bytes().map(|bytes| bytes >= oracle.bytes()), Some(true));
    (refusals, oracle)
}

fn check_all(table: &mut Partition, oracle: &Oracle) {
    for (key, item) in &oracle.items {
        let found = operate(table, 0, key, &Operation::Get);
        assert_eq!(found, Outcome::Item(Some(item.clone())), "{key:?}");
    }
    assert!(table.stats().items >= oracle.items.len() as u64);
}

/// K2, K5 to K7, K9.
#[test]
fn k2_a_store_answers_as_a_map_does() {
    for seed in 0..8 {
        let mut table = store(1 << 20, 4000, 1024);
        let shape =
            Shape { keys: 500, value_bytes_max: 300, longest_percent: 20, expire_percent: 30 };
        let (refusals, oracle) = run(&mut table, &shape, seed, 30_000);
        assert_eq!(refusals, 0, "there is room for all");
        check_all(&mut table, &oracle);
    }
}

/// The same with buckets that overflow: chains grow, shrink, and lose slots in their middle.
#[test]
fn k10_chains_of_buckets_answer_as_a_map_does() {
    for seed in 0..8 {
        // Thirteen buckets, and seventeen that overflow.
        let mut table = store(1 << 20, 60, 1024);
        let shape =
            Shape { keys: 110, value_bytes_max: 300, longest_percent: 20, expire_percent: 20 };
        let (refusals, oracle) = run(&mut table, &shape, 200 + seed, 30_000);
        assert!(oracle.items.len() > 13 * 3, "{}", oracle.items.len());
        assert_eq!(refusals, 0, "there are slots for all");
        check_all(&mut table, &oracle);
    }
}

/// K4: with items of all lengths that are written and deleted in any order, and that expire, a
/// store refuses nothing while its capacity is not reached, and all beyond.
#[test]
fn k4_a_store_has_room_up_to_its_capacity() {
    for seed in 0..8 {
        let mut table = store(400 << 10, 20_000, 1024);
        let (longest_percent, expire_percent) = (20 + 10 * seed, 5 * (seed % 3));
        let shape = Shape { keys: 2500, value_bytes_max: 1024, longest_percent, expire_percent };
        let (refusals, oracle) = run(&mut table, &shape, 100 + seed, 60_000);
        assert!(refusals > 100, "seed {seed}: it was full {refusals} times");
        assert!(table.stats().moved_bytes > 0, "it was cleaned");
        check_all(&mut table, &oracle);
    }
}

/// K4: the cases in which a log falls to pieces: many short items, of which every second goes, and
/// then long ones.
#[test]
fn k4_deleted_room_comes_back_for_other_lengths() {
    let mut table = store(1 << 20, 60_000, 4096);
    let short = |number: u64| number.to_le_bytes();
    let write = |value| Write { value, ..Write::default() };
    for round in 0..6u64 {
        let mut written = 0;
        loop {
            let key = short(round << 32 | written);
            let key = table.key(&key).expect("it has an allowed length");
            if table.set(0, &key, &write(&[1; 8])).is_err() {
                break;
            }
            written += 1;
        }
        assert_eq!(written, table.capacity_bytes() / 40);
        for number in (0..written).filter(|number| number % 16 != 0) {
            let key = short(round << 32 | number);
            let key = table.key(&key).expect("it has an allowed length");
            table.delete(0, &key, Condition::Always, None).expect("it is there");
        }
        let free = table.capacity_bytes() - table.items_bytes().expect("it is a store");
        let long = free / (24 + 8 + 4096);
        for number in 0..long {
            let key = short(1 << 60 | number);
            let key = table.key(&key).expect("it has an allowed length");
            table.set(0, &key, &write(&[2; 4096])).expect("there is room");
        }
        for number in 0..long {
            let key = short(1 << 60 | number);
            let key = table.key(&key).expect("it has an allowed length");
            assert_eq!(table.get(0, &key).map(|item| item.to_vec()), Some(vec![2; 4096]));
            table.delete(0, &key, Condition::Always, None).expect("it is there");
        }
        for number in (0..written).filter(|number| number % 16 == 0) {
            let key = short(round << 32 | number);
            let key = table.key(&key).expect("it has an allowed length");
            assert_eq!(table.get(0, &key).map(|item| item.to_vec()), Some(vec![1; 8]));
            table.delete(0, &key, Condition::Always, None).expect("it is there");
        }
        assert_eq!((table.items_bytes(), table.stats().items), (Some(0), 0));
    }
}

/// K4: a chain that finds no overflow bucket refuses, and nothing is lost.
#[test]
fn k4_too_many_items_for_the_buckets_are_refused() {
    let mut table = store(1 << 20, 9, 1024);
    let mut held = Vec::new();
    for number in 0..400u64 {
        let bytes = number.to_le_bytes();
        let key = table.key(&bytes).expect("it has an allowed length");
        let write = Write { value: &bytes, ..Write::default() };
        match table.set(0, &key, &write) {
            Ok(_) => held.push(bytes),
            Err(refused) => assert_eq!(refused, Refused::Full),
        }
    }
    // Two buckets of seven slots, and sixteen that overflow, for which one slot of another leads to
    // them.
    assert_eq!(held.len(), 2 * 7 + 16 * 6);
    for bytes in held {
        let key = table.key(&bytes).expect("it has an allowed length");
        assert_eq!(table.get(0, &key).map(|item| item.to_vec()), Some(bytes.to_vec()));
        table.delete(0, &key, Condition::Always, None).expect("it is there");
    }
    assert_eq!(table.stats().items, 0);
}

#[test]
fn a_cleared_store_is_as_new() {
    let mut table = store(400 << 10, 600, 1024);
    let shape = Shape { keys: 300, value_bytes_max: 1024, longest_percent: 30, expire_percent: 0 };
    for seed in 0..4 {
        let (_, oracle) = run(&mut table, &shape, seed, 5000);
        table.clear();
        assert_eq!((table.items_bytes(), table.stats().items), (Some(0), 0));
        for key in oracle.items.keys() {
            assert_eq!(operate(&mut table, 0, key, &Operation::Get), Outcome::Item(None));
        }
    }
}
