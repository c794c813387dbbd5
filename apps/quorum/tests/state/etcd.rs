//! The store with etcd's model beside maps that are copied at each revision.

use std::collections::BTreeMap;

use petasos_base::{ByteReader, Rng};
use petasos_quorum::etcd::{
    Answer, Compare, End, Etcd, EtcdCommand, EtcdQuery, EventsAnswer, EventsQuery, Keys, Operation,
    Put, RangeAnswer, RangeQuery, Refusal, Relation, SizeAnswer, Target, Txn, TxnResult,
};
use petasos_quorum::machine::{At, StateMachine};

const BYTES_MAX: usize = 60_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    created: i64,
    modified: i64,
    version: i64,
    lease: i64,
    value: Vec<u8>,
}

type Map = BTreeMap<Vec<u8>, Entry>;

/// The store as it was at each revision, from 1 on.
struct Model {
    revisions: Vec<Map>,
    compacted: i64,
    /// Times to live in milliseconds, and deadlines.
    leases: BTreeMap<i64, (u64, u64)>,
}

impl Model {
    fn revision(&self) -> i64 {
        self.revisions.len() as i64
    }

    fn now(&self) -> &Map {
        self.revisions.last().unwrap()
    }

    fn change(&mut self, change: impl FnOnce(&mut Map, i64)) {
        let mut map = self.now().clone();
        change(&mut map, self.revision() + 1);
        if map != *self.now() {
            self.revisions.push(map);
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8], lease: i64) {
        self.change(|map, modified| {
            let old = map.get(key);
            let (created, version) =
                old.map_or((modified, 1), |old| (old.created, old.version + 1));
            let value = value.to_vec();
            map.insert(key.to_vec(), Entry { created, modified, version, lease, value });
        });
    }

    fn delete(&mut self, keys: &Keys<'_>) {
        self.change(|map, _| map.retain(|key, _| !keys.contains(key)));
    }

    fn revoke(&mut self, id: i64) {
        self.leases.remove(&id);
        self.change(|map, _| map.retain(|_, entry| entry.lease != id));
    }

    fn tick(&mut self, now_ms: u64) {
        let mut ended: Vec<_> = self.leases.iter().map(|(id, (_, end))| (*end, *id)).collect();
        ended.sort_unstable();
        for (_, id) in ended.into_iter().filter(|(end_ms, _)| *end_ms <= now_ms) {
            self.revoke(id);
        }
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    vec![b'k', rng.below(12) as u8, rng.below(2) as u8]
}

fn keys<'a>(rng: &mut Rng, from: &'a [u8], other: &'a [u8]) -> Keys<'a> {
    let end = match rng.below(6) {
        0 => End::Last,
        1 => End::Before(other),
        _ => End::Single,
    };
    Keys { from, end }
}

/// A store, its model, and how they go on.
struct Pair {
    rng: Rng,
    store: Etcd,
    model: Model,
    index: u64,
    now_ms: u64,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let model = Model { revisions: vec![Map::new()], compacted: 0, leases: BTreeMap::new() };
        Pair { rng: Rng::new(seed), store: Etcd::new(BYTES_MAX), model, index: 0, now_ms: 0 }
    }

    fn command(&mut self, command: &EtcdCommand<'_>) -> (At, Vec<u8>) {
        let bytes = command.to_bytes();
        assert_eq!(EtcdCommand::decode(&bytes).as_ref(), Some(command));
        self.index += 1;
        let at = At { index: self.index, position: 1, time_ms: self.now_ms };
        self.model.tick(self.now_ms);
        self.store.tick(at);
        (at, bytes)
    }

    /// Does a command, and gives the entry of the log that did it.
    fn step(&mut self) -> (At, Vec<u8>) {
        self.now_ms += self.rng.below(300);
        let (from, other) = (key(&mut self.rng), key(&mut self.rng));
        let length = self.rng.below(300) as usize;
        let value = vec![self.index as u8; length];
        let id = self.rng.below(5) as i64 + 1;
        let lease = if self.rng.chance(0.3) { id } else { 0 };
        let put = Put { key: &from, value: Some(&value), lease: Some(lease), wants_previous: true };
        let choice = self.rng.below(20);
        let command = match choice {
            0 => EtcdCommand::Grant { id, ttl_s: self.rng.below(9) as i64 },
            1 => EtcdCommand::Revoke(id),
            2 => EtcdCommand::KeepAlive(id),
            3 if self.rng.chance(0.05) => {
                let later = (self.model.revision() - self.model.compacted) as u64;
                EtcdCommand::Compact(self.model.compacted + self.rng.below(later + 2) as i64)
            }
            3..=7 => {
                let keys = keys(&mut self.rng, &from, &other);
                EtcdCommand::Txn(Txn::of(Operation::Delete { keys, wants_previous: true }))
            }
            8..=10 => {
                let target = Target::Version(self.rng.below(3) as i64);
                let keys = Keys { from: &other, end: End::Single };
                let compares = vec![Compare { keys, target, relation: Relation::Greater }];
                let otherwise = vec![Operation::Delete { keys, wants_previous: false }];
                EtcdCommand::Txn(Txn { compares, then: vec![Operation::Put(put)], otherwise })
            }
            _ => EtcdCommand::Txn(Txn::of(Operation::Put(put))),
        };
        let (at, bytes) = self.command(&command);
        let growth = self.store.check(&bytes).unwrap();
        let mut result = Vec::new();
        self.store.apply(at, &bytes, &mut result);
        let Answer { revision, body } = Answer::decode(&result).unwrap();
        match body {
            Err(refusal) => self.refused(&command, refusal, growth),
            Ok(mut body) => self.done(&command, &mut body),
        }
        assert_eq!(revision, self.model.revision(), "{command:?}");
        (at, bytes)
    }

    fn refused(&self, command: &EtcdCommand<'_>, refusal: Refusal, growth: usize) {
        match (command, refusal) {
            (EtcdCommand::Grant { id, .. }, Refusal::LeaseExists) => {
                assert!(self.model.leases.contains_key(id));
            }
            (EtcdCommand::Revoke(id), Refusal::LeaseNotFound) => {
                assert!(!self.model.leases.contains_key(id));
            }
            (EtcdCommand::Compact(to), Refusal::Compacted) => assert!(*to <= self.model.compacted),
            (EtcdCommand::Compact(to), Refusal::FutureRevision) => {
                assert!(*to > self.model.revision());
            }
            (EtcdCommand::Txn(_), Refusal::LeaseNotFound) => {}
            (_, Refusal::NoSpace) => assert!(growth > self.store.room()),
            other => panic!("{other:?}"),
        }
    }

    fn done(&mut self, command: &EtcdCommand<'_>, body: &mut ByteReader<'_>) {
        let (now_ms, model) = (self.now_ms, &mut self.model);
        match command {
            EtcdCommand::Grant { id, ttl_s } => {
                let ttl_ms = (*ttl_s).max(2) as u64 * 1000;
                model.leases.insert(*id, (ttl_ms, now_ms + ttl_ms));
            }
            EtcdCommand::Revoke(id) => model.revoke(*id),
            EtcdCommand::KeepAlive(id) => {
                if let Some((ttl_ms, deadline_ms)) = model.leases.get_mut(id) {
                    *deadline_ms = now_ms + *ttl_ms;
                }
            }
            EtcdCommand::Compact(revision) => model.compacted = *revision,
            EtcdCommand::Txn(txn) => {
                let result = TxnResult::read(body).unwrap();
                let holds = txn.compares.iter().all(|compare| {
                    let Target::Version(than) = compare.target else { panic!("not made here") };
                    let version = model.now().get(compare.keys.from).map_or(0, |one| one.version);
                    version > than
                });
                assert_eq!(result.succeeded, holds);
                for operation in if holds { &txn.then } else { &txn.otherwise } {
                    match operation {
                        Operation::Put(Put { key, value, lease, .. }) => {
                            model.put(key, value.unwrap(), lease.unwrap());
                            let lease = lease.unwrap();
                            assert!(lease == 0 || model.leases.contains_key(&lease));
                        }
                        Operation::Delete { keys, .. } => model.delete(keys),
                        other => panic!("not made here: {other:?}"),
                    }
                }
            }
        }
    }

    /// Reads any range at any revision, and the changes from any revision on.
    fn look(&mut self) {
        let revision = self.rng.below(self.model.revision() as u64 + 2) as i64;
        let (from, other) = (key(&mut self.rng), key(&mut self.rng));
        let keys = keys(&mut self.rng, &from, &other);
        let limit = self.rng.below(5) * 4;
        let range = RangeQuery { keys, revision, limit, keys_only: false };
        let at = if revision == 0 { self.model.revision() } else { revision };
        let is_there = at <= self.model.revision() && at >= self.model.compacted;
        let mut answer = Vec::new();
        self.store.read(&EtcdQuery::Range(range).to_bytes(), &mut answer).unwrap();
        match Answer::decode(&answer).unwrap().body {
            Err(_) => assert!(!is_there),
            Ok(mut body) => {
                let found = RangeAnswer::read(&mut body).unwrap();
                let map = &self.model.revisions[at as usize - 1];
                let all = map.iter().filter(|(key, _)| keys.contains(key));
                assert_eq!((found.revision, found.count), (at, all.clone().count() as u64));
                let items = found.items.iter().map(|item| {
                    let (created, modified) = (item.created, item.modified);
                    let value = item.value.to_vec();
                    let (version, lease) = (item.version, item.lease);
                    (item.key.to_vec(), Entry { created, modified, version, lease, value })
                });
                let expected = all.map(|(key, one)| (key.clone(), one.clone()));
                assert!(items.eq(expected.take(limit as usize)));
            }
        }
        self.look_at_changes(&keys, revision);
    }

    fn look_at_changes(&self, keys: &Keys<'_>, from: i64) {
        let query = EventsQuery { keys: *keys, from, wants_previous: true };
        let mut answer = Vec::new();
        self.store.read(&EtcdQuery::Events(query).to_bytes(), &mut answer).unwrap();
        let Ok(mut body) = Answer::decode(&answer).unwrap().body else {
            return assert!(from < self.model.compacted);
        };
        let told = EventsAnswer::read(&mut body).unwrap();
        assert_eq!(told.until, self.model.revision());
        let mut told = told.events.into_iter().peekable();
        for revision in from.max(2)..=self.model.revision() {
            let before = &self.model.revisions[revision as usize - 2];
            let after = &self.model.revisions[revision as usize - 1];
            let mut changed: Vec<&Vec<u8>> = before.keys().chain(after.keys()).collect();
            changed.sort();
            changed.dedup();
            changed.retain(|key| keys.contains(key) && before.get(*key) != after.get(*key));
            let mut here = Vec::new();
            while let Some(event) = told.next_if(|event| event.item.modified == revision) {
                here.push(event);
            }
            here.sort_by_key(|event| event.item.key);
            assert!(here.iter().map(|event| event.item.key).eq(changed.iter().map(|key| &***key)));
            for event in here {
                let now = after.get(event.item.key);
                assert_eq!(event.is_delete, now.is_none());
                assert_eq!(event.item.value, now.map_or(&[][..], |now| &now.value));
                let was = before.get(event.item.key).map(|was| &was.value[..]);
                let is_kept = revision > self.model.compacted;
                assert!(!is_kept || event.previous.map(|was| was.value) == was);
            }
        }
        assert_eq!(told.next(), None);
    }

    fn size(&self) -> SizeAnswer {
        let mut answer = Vec::new();
        self.store.read(&EtcdQuery::Size.to_bytes(), &mut answer).unwrap();
        SizeAnswer::read(&mut Answer::decode(&answer).unwrap().body.unwrap()).unwrap()
    }
}

/// Whatever is done, the store is as the model was, at each revision that was not compacted, and
/// tells the same changes.
#[test]
fn ranges_and_changes_are_those_of_maps_at_all_revisions() {
    let mut pair = Pair::new(11);
    let mut fullest = 0;
    for _ in 0..20_000 {
        pair.step();
        pair.look();
        fullest = fullest.max(pair.size().bytes);
    }
    let reached = (pair.model.revision(), pair.model.compacted);
    assert!(reached.0 > 4_000 && reached.1 > 3_500, "{reached:?}, {fullest}");
    assert!(fullest > BYTES_MAX as u64 * 9 / 10, "it was full at times: {fullest}");
    let versions = pair.model.now().len();
    assert!(pair.size().keys >= versions as u64 && pair.size().keys <= 24);
}

/// A snapshot is the store as it was when it began, and a store that begins with it goes on as the
/// others do.
#[test]
fn a_snapshot_that_is_written_beside_commands_is_as_the_store_was() {
    for seed in 0..30 {
        let mut pair = Pair::new(seed);
        for _ in 0..400 {
            pair.step();
        }
        let digest = pair.store.digest();
        pair.store.freeze();
        let (mut later, mut records) = (Vec::new(), Vec::new());
        let mut record = Vec::new();
        while pair.store.frozen(&mut record) {
            records.push(std::mem::take(&mut record));
            for _ in 0..pair.rng.below(4) {
                later.push(pair.step());
            }
        }
        let mut other = Etcd::new(BYTES_MAX);
        for record in &records {
            other.load(record).unwrap();
            assert!(Etcd::new(BYTES_MAX).load(&record[..record.len() - 1]).is_err());
        }
        assert_eq!(other.digest(), digest);
        later.extend((0..300).map(|_| pair.step()));
        for (at, command) in later {
            other.tick(at);
            other.apply(at, &command, &mut Vec::new());
        }
        assert_eq!(other.digest(), pair.store.digest());
        assert_ne!(other.digest(), digest);
    }
}

/// Bytes that are no commands, queries or records change nothing, and nothing panics.
#[test]
fn other_bytes_change_nothing() {
    let mut pair = Pair::new(3);
    let mut entries: Vec<Vec<u8>> = (0..200).map(|_| pair.step().1).collect();
    let keys = Keys { from: b"k", end: End::Last };
    let events = EventsQuery { keys, from: 1, wants_previous: true };
    entries.push(EtcdQuery::Events(events).to_bytes());
    for round in 0..20_000_u64 {
        let at = pair.rng.below(entries.len() as u64) as usize;
        let mut bytes = entries[at].clone();
        let place = pair.rng.below(bytes.len() as u64) as usize;
        match round % 3 {
            0 => bytes.truncate(place),
            1 => bytes[place] = pair.rng.below(256) as u8,
            _ => bytes.push(0),
        }
        let digest = pair.store.digest();
        let _ = pair.store.read(&bytes, &mut Vec::new());
        let _ = Etcd::new(9_000).load(&bytes);
        if pair.store.check(&bytes).is_err() {
            let mut result = Vec::new();
            let at = At { index: pair.index, position: 2, time_ms: pair.now_ms };
            pair.store.apply(at, &bytes, &mut result);
            assert_eq!((result.len(), pair.store.digest()), (0, digest));
        }
    }
}
