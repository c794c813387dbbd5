//! A cache answers as the map does, or has forgotten.

use petasos_base::Rng;
use petasos_store::{Config, Mode, Partition, Refused, Write};

use crate::oracle::{Operation, Oracle, Outcome, Shape, any, operate};

fn cache(log_bytes: u64, items: u64, value_bytes_max: u32) -> Partition {
    let mode = Mode::Cache;
    // Of a failure, the seed says all.
    let (partitions, locks_max, secret) = (1, 16, Some([3, 4]));
    let config = Config { mode, partitions, items, log_bytes, value_bytes_max, locks_max, secret };
    let mut partitions = config.partitions().expect("there can be such a table");
    partitions.pop().expect("it has one")
}

fn set(table: &mut Partition, number: u64, value: &[u8]) {
    let bytes = number.to_le_bytes();
    let key = table.key(&bytes).expect("it has an allowed length");
    table.set(0, &key, &Write { value, ..Write::default() }).expect("a cache takes all (K3)");
}

fn get(table: &mut Partition, number: u64) -> Option<Vec<u8>> {
    let bytes = number.to_le_bytes();
    let key = table.key(&bytes).expect("it has an allowed length");
    table.get(0, &key).map(|item| item.to_vec())
}

/// K2, K3: newest value or nothing; hundreds of laps, so that numbers of laps come again.
#[test]
fn k2_a_cache_answers_as_a_map_does_or_has_forgotten() {
    for seed in 0..6 {
        // A short log with few buckets, with many, and with keys that are all written often.
        let (items, keys) = [(60, 3000), (5000, 3000), (200, 40)][seed as usize % 3];
        let mut table = cache(70_000, items, 1024);
        let shape = Shape { keys, value_bytes_max: 1000, longest_percent: 20, expire_percent: 20 };
        let forgotten = run(&mut table, &shape, seed, 200_000);
        let stats = table.stats();
        let seen = [forgotten, stats.forgotten, stats.kept].map(|count| count > 100);
        let expected = [[true, true, false], [true, true, true], [false, false, false]];
        assert_eq!(seen, expected[seed as usize % 3], "{forgotten}, {stats:?}");
    }
}

fn run(table: &mut Partition, shape: &Shape, seed: u64, operations: u64) -> u64 {
    let (mut rng, mut oracle) = (Rng::new(seed), Oracle::default());
    let (mut now_ms, mut stamp, mut forgotten) = (1, 0, 0);
    for number in 0..operations {
        now_ms += rng.below(2);
        if number % 16 == 0 {
            table.end_batch();
        }
        let (key, operation) = any(&mut rng, shape, now_ms, stamp);
        oracle.expire_key(&key, now_ms);
        let outcome = operate(table, now_ms, &key, &operation);
        // What the cache has forgotten, the map forgets.
        let is_gone = matches!(outcome, Outcome::Item(None) | Outcome::Refused(Refused::Absent));
        if is_gone && oracle.items.remove(&key).is_some() {
            forgotten += 1;
        }
        let said = format!("seed {seed}, operation {number}: {operation:?} of {key:?}");
        match (oracle.change(&key, &operation), outcome) {
            (Ok(item), Outcome::Item(found)) => assert_eq!(found, item, "{said}"),
            (Ok(item), Outcome::Written(given)) => {
                assert!(given > stamp, "{said}: stamps count up (K6)");
                stamp = given;
                oracle.put(&key, item.map(|item| crate::oracle::Item { stamp, ..item }));
            }
            (Ok(item), Outcome::Done) => oracle.put(&key, item),
            (Ok(Some(item)), Outcome::Refused(Refused::TooLong)) => {
                assert!(item.value.len() > table.value_bytes_max(), "{said}");
            }
            (Err(expected), Outcome::Refused(refused)) => assert_eq!(refused, expected, "{said}"),
            (expected, outcome) => {
                // It had forgotten the item, so that *absent* held.
                let forgot = expected == Err(Refused::Present);
                let Outcome::Written(given) = outcome else { panic!("{said}: {outcome:?}") };
                let Operation::Set { value, flags, expiry_ms, .. } = operation else {
                    panic!("{said}: {expected:?}")
                };
                assert!(forgot, "{said}: {expected:?}");
                stamp = given;
                let item = crate::oracle::Item { value, flags, expiry_ms, stamp };
                oracle.put(&key, Some(item));
                forgotten += 1;
            }
        }
    }
    forgotten
}

/// K3: with enough buckets, what was written last is there, up to the length of the log.
#[test]
fn k3_the_oldest_goes_first() {
    let mut table = cache(160 * 1000, 40_000, 1024);
    (0..50_000).for_each(|number| set(&mut table, number, &[number as u8; 136]));
    // 168 bytes each. (Reads keep what is old only when a batch ends.)
    let there: Vec<u64> = (0..50_000).filter(|number| get(&mut table, *number).is_some()).collect();
    let expected = 160 * 1000 / 168;
    assert!((expected - 2..=expected).contains(&there.len()), "{}", there.len());
    assert_eq!(there, ((50_000 - there.len() as u64)..50_000).collect::<Vec<_>>());
}

/// K3: what is read often stays, and only that.
#[test]
fn k3_what_is_read_often_stays() {
    let mut table = cache(160 * 1000, 40_000, 1024);
    (0..20).for_each(|number| set(&mut table, number, b"often"));
    set(&mut table, 20, b"once");
    for number in 100..100_000 {
        set(&mut table, number, &[0; 136]);
        if number % 50 == 0 {
            assert!((0..20).all(|number| get(&mut table, number).as_deref() == Some(b"often")));
            table.end_batch();
        }
    }
    assert_eq!(get(&mut table, 20), None);
    let kept = table.stats().kept;
    assert!((20 * 50..20 * 150).contains(&kept), "once in three quarters of a lap: {kept}");
}

/// K3: a full bucket forgets what was written the longest ago.
#[test]
fn k3_a_full_bucket_forgets_its_oldest() {
    let mut table = cache(1 << 20, 5, 1024);
    (0..8).for_each(|number| set(&mut table, number, b"x"));
    assert_eq!(get(&mut table, 0), None);
    assert!((1..8).all(|number| get(&mut table, number).is_some()));
    // Writing one again makes it the newest.
    set(&mut table, 1, b"y");
    set(&mut table, 8, b"x");
    assert_eq!((get(&mut table, 2), get(&mut table, 1)), (None, Some(b"y".to_vec())));
}
