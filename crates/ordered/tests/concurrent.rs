//! Many threads at the same time.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use petasos_base::Rng;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_ordered::{BplusTree, Direction, OrderedMap};

const STABLE: u64 = 1000;
const CHANGES: u64 = 60_000;

/// Stable keys are those of even numbers, changing ones lie between them; some share long
/// beginnings, so that layers come and go.
fn key(number: u64) -> Vec<u8> {
    let mut key = (number / 2).to_be_bytes().to_vec();
    if number % 6 >= 3 {
        key.extend([0xaa; 16]);
    }
    key.push((number % 2) as u8);
    key
}

/// A number that tells its key.
fn number_of(key: u64, count: u64) -> u64 {
    key << 32 | count
}

/// Changes its own keys, and knows what each has.
fn change(map: &BplusTree, thread: u64) {
    let (mut rng, mut own) = (Rng::new(thread), HashMap::new());
    for count in 0..CHANGES {
        // Odd, and of this thread of two.
        let number = 4 * rng.below(STABLE / 2) + 1 + 2 * thread;
        let key = key(number);
        if rng.chance(0.5) {
            let value = number_of(number, count);
            map.put(&key, value).expect("it is short");
            own.insert(number, value);
        } else {
            assert_eq!(map.delete(&key), own.remove(&number).is_some(), "nobody else has it");
        }
        let there = 4 * rng.below(STABLE / 2) + 1 + 2 * thread;
        assert_eq!(map.get(&self::key(there)), own.get(&there).copied());
    }
}

/// Scans in both directions: in order, none twice, all that stay, and no number of another key.
fn scan(map: &BplusTree, is_over: &AtomicBool) -> u64 {
    let mut scans = 0;
    while !is_over.load(Ordering::Relaxed) {
        for direction in [Direction::Up, Direction::Down] {
            let (mut last, mut stable): (Option<Vec<u8>>, u64) = (None, 0);
            map.scan((Bound::Unbounded, Bound::Unbounded), direction, |found, value| {
                if let Some(last) = &last {
                    let is_next = match direction {
                        Direction::Up => last[..] < *found,
                        Direction::Down => last[..] > *found,
                    };
                    assert!(is_next, "{last:?} and then {found:?}");
                }
                assert_eq!(found, key(value >> 32), "a number of another key");
                stable += u64::from((value >> 32).is_multiple_of(2));
                last = Some(found.to_vec());
                ControlFlow::Continue(())
            });
            assert_eq!(stable, STABLE, "what was there all the time");
            scans += 1;
        }
    }
    scans
}

#[test]
fn changes_and_scans_do_not_disturb_each_other() {
    let map = BplusTree::new();
    for number in (0..2 * STABLE).step_by(2) {
        map.put(&key(number), number_of(number, 0)).expect("it is short");
    }
    let is_over = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        let scanning = scope.spawn(|| scan(&map, &is_over));
        let changing = [0, 1].map(|thread| {
            let map = &map;
            scope.spawn(move || change(map, thread))
        });
        let outcomes = changing.map(|thread| thread.join());
        is_over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("what it finds is its own"));
        scanning.join().expect("what it sees is in order")
    });
    assert!(scans > 0);
}

/// One key's changes have one order: a count is never seen to go back.
#[test]
fn a_key_does_not_go_back() {
    let map = BplusTree::new();
    map.put(b"count", 0).expect("it is short");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                let now = map.get(b"count").expect("it is never deleted");
                assert!(now >= last, "{last}, then {now}");
                last = now;
            }
        });
        (1..200_000).for_each(|count| {
            map.put(b"count", count).expect("it is short");
        });
        is_over.store(true, Ordering::Relaxed);
        reading.join().expect("it does not go back");
    });
}
