//! Locks and versions (K15, K16).

use petasos_store::{
    Condition, Config, LockError, LockOwner, Mode, Partition, Refused, Side, Write,
};

fn store(items: u64, locks_max: u32) -> Partition {
    let mode = Mode::Store;
    let config = Config { locks_max, ..Config::for_items(mode, items, 16, 32) };
    config.partitions().expect("there can be such a table").pop().expect("it has one partition")
}

fn owner(number: u32) -> LockOwner {
    LockOwner::new(number).expect("it is not 0")
}

fn write(value: &[u8], owner: Option<LockOwner>) -> Write<'_> {
    Write { value, owner, ..Write::default() }
}

/// Nobody but the owner changes what is locked, and all can read it.
#[test]
fn k15_what_is_locked_is_changed_by_its_owner_alone() {
    let mut table = store(100, 16);
    let key = table.key(b"key").expect("it is one");
    table.set(0, &key, &write(b"old", None)).expect("there is room");
    table.see_and_lock(0, &key, owner(7)).expect("it is free");
    for other in [None, Some(owner(8))] {
        assert_eq!(table.set(0, &key, &write(b"new", other)), Err(Refused::Locked));
        assert_eq!(table.delete(0, &key, Condition::Always, other), Err(Refused::Locked));
        assert_eq!(table.touch(0, &key, Some(9), other), Err(Refused::Locked));
        assert_eq!(table.extend(0, &key, Side::Append, b"x", other), Err(Refused::Locked));
        let updated = table.update(0, &key, other, |_, len| Some(len));
        assert_eq!(updated, Err(Refused::Locked));
    }
    let seen = table.see(0, &key);
    assert!(seen.is_locked);
    assert_eq!(seen.item.map(|item| item.to_vec()), Some(b"old".to_vec()));
    table.set(0, &key, &write(b"new", Some(owner(7)))).expect("it is its own");
    table.unlock(&key, owner(7)).expect("it has it");
    assert!(!table.see(0, &key).is_locked);
    table.set(0, &key, &write(b"newer", None)).expect("it is free");
}

#[test]
fn k15_locks_are_counted_by_owner() {
    let mut table = store(100, 16);
    let key = table.key(b"key").expect("it is one");
    assert_eq!(table.unlock(&key, owner(7)), Err(LockError::NotLocked));
    for _ in 0..255 {
        table.see_and_lock(0, &key, owner(7)).expect("it is free, or its own");
    }
    let again = table.see_and_lock(0, &key, owner(7)).map(|seen| seen.is_locked);
    assert_eq!(again, Err(LockError::TooOften));
    let other = table.see_and_lock(0, &key, owner(8)).map(|seen| seen.is_locked);
    assert_eq!(other, Err(LockError::Locked));
    assert_eq!(table.unlock(&key, owner(8)), Err(LockError::NotLocked));
    for _ in 0..255 {
        assert!(table.see(0, &key).is_locked);
        table.unlock(&key, owner(7)).expect("it has it");
    }
    assert!(!table.see(0, &key).is_locked);
    assert_eq!(table.unlock(&key, owner(7)), Err(LockError::NotLocked));
}

/// Two keys of one transaction can share a bucket; there are as many locks as were asked for.
#[test]
fn k15_locks_are_of_buckets_and_bounded() {
    // One bucket.
    let mut table = store(1, 1);
    let [one, other] = [b"one", b"two"].map(|key| table.key(key).expect("it is one"));
    table.see_and_lock(0, &one, owner(7)).expect("it is free");
    table.see_and_lock(0, &other, owner(7)).expect("it is its own");
    table.unlock(&one, owner(7)).expect("it has it");
    assert!(table.see(0, &one).is_locked, "for the other key");
    table.unlock(&one, owner(7)).expect("it has it");
    let mut table = store(10_000, 3);
    let keys: Vec<_> = (0..100u32).map(u32::to_le_bytes).collect();
    let locked = keys.iter().filter(|bytes| {
        let key = table.key(&bytes[..]).expect("it is one");
        table.see_and_lock(0, &key, owner(1)).map(|_| ()) != Err(LockError::Full)
    });
    // A few keys may share a bucket that is locked.
    assert!((3..20).contains(&locked.count()));
}

/// K16: also for a key that has no item.
#[test]
fn k16_validation_tells_changes_and_locks_of_others() {
    let mut table = store(100, 16);
    let key = table.key(b"key").expect("it is one");
    let absent = table.see(0, &key);
    assert!(absent.item.is_none());
    let absent = absent.version;
    assert!(table.validate(&key, absent, owner(1)));
    table.set(0, &key, &write(b"v", None)).expect("there is room");
    assert!(!table.validate(&key, absent, owner(1)), "it is there by now");
    let present = table.see(0, &key).version;
    table.see_and_lock(0, &key, owner(2)).expect("it is free");
    assert!(!table.validate(&key, present, owner(1)), "somebody may change it");
    assert!(table.validate(&key, present, owner(2)));
    table.unlock(&key, owner(2)).expect("it has it");
    assert!(table.validate(&key, present, owner(1)), "nothing has changed");
    table.delete(0, &key, Condition::Always, None).expect("it is there");
    assert!(!table.validate(&key, present, owner(1)) && !table.validate(&key, absent, owner(1)));
}

/// K5, K15: an item that expires in a locked bucket is absent, and stays in memory until its owner
/// changes it, or the lock has gone. It is not there twice then.
#[test]
fn k15_what_expires_while_it_is_locked_is_absent() {
    let mut table = store(100, 16);
    let key = table.key(b"key").expect("it is one");
    let fleeting = Write { value: b"old", expiry_ms: Some(10), ..Write::default() };
    table.set(0, &key, &fleeting).expect("there is room");
    let version = table.see_and_lock(5, &key, owner(7)).expect("it is free").version;
    assert!(table.get(10, &key).is_none());
    assert!(table.validate(&key, version, owner(7)), "its owner has seen it");
    assert_eq!(table.stats().items, 1);
    let new = Write { owner: Some(owner(7)), condition: Condition::Absent, ..write(b"new", None) };
    table.set(10, &key, &new).expect("it is absent");
    assert_eq!(table.stats().items, 1);
    table.unlock(&key, owner(7)).expect("it has it");
    table.delete(10, &key, Condition::Always, None).expect("it is there");
    assert!(table.get(10, &key).is_none());
    // Time does not go back (K7).
    table.set(0, &key, &Write { expiry_ms: Some(9), ..Write::default() }).expect("there is room");
    assert!(table.get(0, &key).is_none());
}
