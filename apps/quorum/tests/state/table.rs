//! The table beside a map.

use std::collections::BTreeMap;

use petasos_base::Rng;
use petasos_quorum::machine::{At, StateMachine};
use petasos_quorum::table::{
    Operation, Query, Record, Table, TableCommand, TableResult, TableStatus, decode_items,
};

const BYTES_MAX: usize = 4_000;

fn perform(table: &mut Table, index: u64, command: &TableCommand<'_>) -> TableResult {
    let bytes = command.to_bytes();
    let room = table.check(&bytes).unwrap();
    let before = table.bytes();
    let mut result = Vec::new();
    table.apply(At { index, position: 3, time_ms: 0 }, &bytes, &mut result);
    assert!(table.bytes() <= before + room, "what a command adds is known before");
    assert!(table.bytes() <= BYTES_MAX);
    TableResult::decode(&result).unwrap()
}

fn items(table: &Table, query: &Query<'_>) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let mut answer = Vec::new();
    table.read(&query.to_bytes(), &mut answer).unwrap();
    let (items, has_more) = decode_items(&answer).unwrap();
    assert!(!has_more || matches!(query, Query::Range { .. }));
    items.into_iter().map(|item| (item.key, item.value, item.stamp)).collect()
}

/// Any operation, with the value, or what it has in its place.
fn any_operation(rng: &mut Rng, value: Vec<u8>) -> (Operation, Vec<u8>) {
    use Operation::{Add, Append, Delete, DeleteIf, Put, PutIf};
    let all = [Put, Put, Delete, PutIf, DeleteIf, Append, Add];
    let operation = all[usize::try_from(rng.below(7)).unwrap()];
    let value = match operation {
        Add => rng.below(1000).to_le_bytes().to_vec(),
        Delete | DeleteIf => Vec::new(),
        _ => value,
    };
    (operation, value)
}

/// Any commands do what they do to a map; what does not fit is refused, and changes nothing.
#[test]
fn commands_do_what_they_do_to_a_map() {
    let mut rng = Rng::new(5);
    let mut table = Table::new(BYTES_MAX);
    let mut model: BTreeMap<Vec<u8>, (Vec<u8>, u64)> = BTreeMap::new();
    let mut statuses = BTreeMap::new();
    for index in 1..30_000 {
        let key = vec![b'k', rng.below(40) as u8];
        let length = if rng.chance(0.1) { 600 } else { rng.below(20) as usize };
        let value = vec![index as u8; length];
        let mine = model.get(&key).cloned();
        let stamp = mine.as_ref().map_or(0, |(_, stamp)| *stamp);
        let guess = if rng.chance(0.7) { stamp } else { rng.below(9) };
        use Operation::{Add, Append, Delete, DeleteIf, PutIf};
        let (operation, value) = any_operation(&mut rng, value);
        let is_compared = matches!(operation, PutIf | DeleteIf);
        let compared = if is_compared { guess } else { 0 };
        let command =
            TableCommand { stamp: compared, ..TableCommand::new(operation, &key, &value) };
        let digest = table.digest();
        let result = perform(&mut table, index, &command);
        *statuses.entry((operation as u8, result.status as u8)).or_insert(0) += 1;
        if result.status != TableStatus::Done {
            assert_eq!(table.digest(), digest, "what is refused changes nothing");
        }
        let old = mine.map(|(value, _)| value).unwrap_or_default();
        let new = match operation {
            _ if is_compared && guess != stamp => {
                assert_eq!(result, TableResult { status: TableStatus::Changed, number: stamp });
                continue;
            }
            Delete | DeleteIf => {
                let expected = if stamp == 0 { TableStatus::Absent } else { TableStatus::Done };
                assert_eq!(result.status, expected);
                model.remove(&key);
                continue;
            }
            Add if old.len() == 8 || old.is_empty() => {
                let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
                number(&old).wrapping_add(number(&value)).to_le_bytes().to_vec()
            }
            Add => {
                assert_eq!(result.status, TableStatus::Unfit);
                continue;
            }
            Append => [old, value].concat(),
            _ => value,
        };
        let others = model.iter().filter(|(other, _)| **other != key);
        let bytes = |key: &[u8], value: &[u8]| 64 + 4 + key.len() + value.len();
        let held: usize = others.map(|(key, (value, _))| bytes(key, value)).sum();
        if held + bytes(&key, &new) > BYTES_MAX {
            assert_eq!(result.status, TableStatus::Full);
            continue;
        }
        assert_eq!(result.status, TableStatus::Done);
        model.insert(key.clone(), (new, index << 16 | 3));
        let (value, stamp) = model[&key].clone();
        assert_eq!(items(&table, &Query::Get(&key)), [(key, value, stamp)]);
    }
    let all: Vec<_> = model.into_iter().map(|(key, (value, stamp))| (key, value, stamp)).collect();
    assert_eq!(items(&table, &Query::Range { from: b"", until: b"", limit: 1000 }), all);
    let some = Query::Range { from: &[b'k', 10], until: &[b'k', 20], limit: 1000 };
    let within = all.iter().filter(|(key, ..)| (10..20).contains(&key[1])).cloned();
    assert_eq!(items(&table, &some), within.collect::<Vec<_>>());
    let backwards = Query::Range { from: b"z", until: b"a", limit: 5 };
    assert_eq!(items(&table, &backwards), []);
    let few = Query::Range { from: b"", until: b"", limit: 3 };
    assert_eq!(items(&table, &few), all[..3]);
    assert!(statuses.len() > 12, "{statuses:?}");
}

/// A transaction's records are written together, if nothing has changed since they were read, and
/// not by a coordinator of an earlier epoch.
#[test]
fn transactions_are_written_whole_or_not_at_all() {
    let mut table = Table::new(BYTES_MAX);
    let first = perform(&mut table, 1, &TableCommand::new(Operation::Put, b"a", b"1")).number;
    let records = |version: u64| {
        let mut bytes = Vec::new();
        Record { table: 0, key: b"a", version, value: None }.encode(&mut bytes);
        Record { table: 7, key: b"b", version: 0, value: Some(b"2") }.encode(&mut bytes);
        bytes
    };
    let commit = |table: &mut Table, index, version, epoch| {
        let records = records(version);
        let command = TableCommand::new(Operation::Commit, b"", &records);
        perform(table, index, &TableCommand { epoch, ..command })
    };
    let changed = TableResult { status: TableStatus::Changed, number: first };
    assert_eq!(commit(&mut table, 2, first + 1, 0), changed);
    assert_eq!(table.len(), 1);
    let fence = TableCommand { epoch: 5, ..TableCommand::new(Operation::Fence, b"", b"") };
    assert_eq!(perform(&mut table, 3, &fence).number, 5);
    let fenced = TableResult { status: TableStatus::Fenced, number: 5 };
    assert_eq!(commit(&mut table, 4, first, 4), fenced);
    assert_eq!(commit(&mut table, 5, first, 5).status, TableStatus::Done);
    assert_eq!(items(&table, &Query::Get(b"a")), []);
    // The other table's item is not in this one's ranges.
    assert_eq!(items(&table, &Query::Range { from: b"", until: b"", limit: 9 }), []);
    assert_eq!(table.len(), 1);
    let again = TableCommand { epoch: 4, ..fence };
    assert_eq!(perform(&mut table, 6, &again), fenced);
}

/// Bytes that are no command or query are refused before they are proposed, and change nothing.
#[test]
fn what_is_no_command_changes_nothing() {
    let mut rng = Rng::new(9);
    let mut table = Table::new(BYTES_MAX);
    let command = TableCommand::new(Operation::Put, b"key", b"value").to_bytes();
    for round in 0..20_000_u64 {
        let mut bytes = command.clone();
        let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
        bytes[at] = rng.next_u64() as u8;
        bytes.truncate(usize::try_from(rng.below(40)).unwrap());
        let (is_command, mut result) = (table.check(&bytes).is_ok(), Vec::new());
        let digest = table.digest();
        table.apply(At { index: round, position: 0, time_ms: 0 }, &bytes, &mut result);
        assert_eq!(is_command, !result.is_empty());
        assert!(is_command || table.digest() == digest);
        let mut answer = Vec::new();
        let _ = table.read(&bytes, &mut answer);
    }
}
