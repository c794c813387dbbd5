//! Limits, sizes and batches (K1, K8, K14).

use petasos_base::Rng;
use petasos_store::{
    Condition, Config, ConfigError, KeyError, Mode, Partition, Refused, Side, Write,
};

fn table(config: &Config) -> Partition {
    config.partitions().expect("there can be such a table").pop().expect("it has a partition")
}

fn write(value: &[u8]) -> Write<'_> {
    Write { value, ..Write::default() }
}

#[test]
fn k1_keys_have_limits() {
    let table = table(&Config::for_items(Mode::Store, 10, 16, 32));
    let reader = table.reader();
    let refused = |bytes: &[u8]| (table.key(bytes).err(), reader.key(bytes).err());
    assert_eq!(refused(&[]), (Some(KeyError(0)), Some(KeyError(0))));
    assert_eq!(refused(&[0]), (None, None));
    assert_eq!(refused(&[0; 1024]), (None, None));
    assert_eq!(refused(&[0; 1025]), (Some(KeyError(1025)), Some(KeyError(1025))));
}

#[test]
fn k1_values_have_limits() {
    for mode in [Mode::Cache, Mode::Store] {
        let long = vec![7; 1 << 20];
        let config =
            Config { value_bytes_max: 1 << 20, ..Config::for_items(mode, 10, 16, 5 << 20) };
        let mut table = table(&config);
        let bytes = [1; 1024];
        let key = table.key(&bytes).expect("it is as long as keys can be");
        table.set(0, &key, &write(&long)).expect("it is as long as values can be");
        assert_eq!(table.get(0, &key).map(|item| item.to_vec()), Some(long.clone()));
        let longer = vec![7; (1 << 20) + 1];
        assert_eq!(table.set(0, &key, &write(&longer)), Err(Refused::TooLong));
        for side in [Side::Append, Side::Prepend] {
            assert_eq!(table.extend(0, &key, side, &[1], None), Err(Refused::TooLong));
            assert_eq!(table.extend(0, &key, side, &longer, None), Err(Refused::TooLong));
        }
        let item = table.get(0, &key).expect("nothing has changed");
        assert_eq!((item.value_bytes(), item.stamp()), (1 << 20, 1));
        // Short values alone can be updated in one step.
        let updated = table.update(0, &key, None, |_, len| Some(len));
        assert_eq!(updated, Err(Refused::Unsuitable));
        table.set(0, &key, &write(b"12")).expect("there is room");
        let updated = |table: &mut Partition, len| table.update(0, &key, None, |_, _| len);
        assert_eq!(updated(&mut table, None), Err(Refused::Unsuitable));
        assert_eq!(updated(&mut table, Some(65)), Err(Refused::Unsuitable));
        assert_eq!(table.get(0, &key).map(|item| item.to_vec()), Some(b"12".to_vec()));
    }
}

/// K8: what cannot be is refused before anything is allocated, and says what would do.
#[test]
fn k8_tables_that_cannot_be_are_refused() {
    let usual = Config::for_items(Mode::Store, 1000, 16, 32);
    let refused = |config: Config| config.partitions().map(|_| ()).expect_err("it cannot be");
    let with = |partitions| Config { partitions, ..usual.clone() };
    assert_eq!(refused(with(0)), ConfigError::Partitions(0));
    assert_eq!(refused(with(4097)), ConfigError::Partitions(4097));
    let too_long = Config { value_bytes_max: (1 << 20) + 1, ..usual.clone() };
    assert_eq!(refused(too_long), ConfigError::ValueTooLong((1 << 20) + 1));
    for items in [0, u64::MAX] {
        let refused = refused(Config { items, ..usual.clone() });
        assert!(matches!(refused, ConfigError::Items { .. }), "{refused}");
    }
    let long = Config { log_bytes: u64::MAX, ..usual.clone() };
    let ConfigError::LogTooLong { most, .. } = refused(long) else { panic!("it is too long") };
    assert_eq!(most, 8 * ((1 << 34) - 1));
    let short = Config { log_bytes: 0, partitions: 3, ..usual };
    let ConfigError::LogTooShort { least, .. } = refused(short.clone()) else {
        panic!("it is too short")
    };
    assert!(Config { log_bytes: least - 1, ..short.clone() }.partitions().is_err());
    let three = Config { log_bytes: least, ..short }.partitions().expect("it says what would do");
    assert_eq!(three.len(), 3);
}

/// K4: as the specification says.
#[test]
fn k4_the_capacity_is_told() {
    // The longest item has 259 words.
    let share = |times: u64| {
        let log_bytes = times * 259 * 8;
        let mode = Mode::Store;
        let config = Config { log_bytes, ..Config::for_items(mode, 10, 16, 32) };
        table(&config).capacity_bytes() as f64 / log_bytes as f64
    };
    assert!((0.4..0.5).contains(&share(32)), "{}", share(32));
    assert!((0.875..0.9).contains(&share(3000)), "{}", share(3000));
    for items in [1, 10, 1000, 200_000] {
        let config = Config::for_items(Mode::Store, items, 16, 32);
        assert!(table(&config).capacity_bytes() >= items * 72, "as many as were asked for");
    }
}

/// K6: no partition of a table gives a stamp that another gives.
#[test]
fn k6_stamps_are_the_tables() {
    let config = Config { partitions: 3, ..Config::for_items(Mode::Cache, 1000, 16, 32) };
    let config = Config { log_bytes: 1 << 20, ..config };
    let mut stamps = Vec::new();
    for table in &mut config.partitions().expect("there can be such a table") {
        for number in 0..100u32 {
            let bytes = number.to_le_bytes();
            let key = table.key(&bytes).expect("it is one");
            stamps.push(table.set(0, &key, &write(b"")).expect("a cache takes all"));
        }
    }
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), 300);
}

/// K14.
#[test]
fn k14_many_lookups_are_as_many_single_ones() {
    let mut table = table(&Config::for_items(Mode::Store, 1000, 16, 32));
    let keys: Vec<_> = (0..1000u32).map(u32::to_le_bytes).collect();
    for bytes in keys.iter().step_by(2) {
        let key = table.key(bytes).expect("it is one");
        table.set(0, &key, &write(bytes)).expect("there is room");
    }
    let mut rng = Rng::new(1);
    for count in [0, 1, 15, 16, 17, 100] {
        let asked: Vec<_> = (0..count).map(|_| &keys[rng.below(1000) as usize]).collect();
        let hashed: Vec<_> =
            asked.iter().map(|bytes| table.key(&bytes[..]).expect("it is one")).collect();
        let mut found = Vec::new();
        table.get_many(0, &hashed, |number, item| found.push((number, item.map(|i| i.to_vec()))));
        let expected = asked.iter().enumerate().map(|(number, bytes)| {
            let is_there = u32::from_le_bytes(**bytes) % 2 == 0;
            (number, is_there.then(|| bytes.to_vec()))
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}

/// K5: also of a key that has no item, and of what a table notices.
#[test]
fn k5_an_expiry_that_is_noticed_is_a_change() {
    let mut table = table(&Config::for_items(Mode::Store, 10, 16, 32));
    let key = table.key(b"key").expect("it is one");
    assert_eq!(table.version(&key), 0);
    table.set(0, &key, &Write { expiry_ms: Some(5), ..write(b"x") }).expect("there is room");
    let there = table.version(&key);
    assert!(table.get(4, &key).is_some() && table.version(&key) == there);
    assert!(table.get(5, &key).is_none() && table.version(&key) > there);
    assert_eq!(table.stats().expired, 1);
    let gone = table.version(&key);
    assert_eq!(table.delete(5, &key, Condition::Always, None), Err(Refused::Absent));
    assert_eq!(table.version(&key), gone, "nothing has changed");
}
