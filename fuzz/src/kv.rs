//! The raw interface of key-value stores (K17 to K21), and tables that do what its requests ask (K1
//! to K11).

use petasos_kv::{Layout, Operation, Request, Response};
use petasos_store::{Condition, Config, Mode, Partition, Refused, Side, Write};

use crate::Seed;

/// A message to a client or to a server; and then messages one after the other, each preceded by
/// its length, for tables with little room.
pub fn run(bytes: &[u8]) {
    if let Ok(response) = Response::parse(bytes) {
        assert!(response.value.len() < bytes.len());
    }
    if let Ok(layout) = Layout::parse(bytes) {
        let owner = layout.owner_of(b"any key");
        assert!(usize::from(owner) < layout.loops.len());
    }
    if let Ok(request) = Request::parse(bytes) {
        assert_eq!(request.to_vec(), bytes);
    }
    for mode in [Mode::Cache, Mode::Store] {
        let (mut table, mut rest) = (table(mode), bytes);
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
            let (message, after) = after.split_at(length);
            if let Ok(request) = Request::parse(message) {
                perform(&mut table, &request);
            }
            rest = after;
        }
        table.end_batch();
    }
}

fn table(mode: Mode) -> Partition {
    let config = Config {
        mode,
        partitions: 1,
        items: 20,
        // The least with such values.
        log_bytes: 32 * 8 * (3 + 128 + 4),
        value_bytes_max: 32,
        locks_max: 1,
        secret: Some([1, 2]),
    };
    config.partitions().expect("there can be such a table").pop().expect("it has a partition")
}

/// Does what is asked, and looks whether it was done.
fn perform(table: &mut Partition, request: &Request<'_>) {
    let Request { operation, flags, value, .. } = *request;
    let key = table.key(request.key).expect("the request's key is one");
    let before = table.get(request.operand, &key).map(|item| item.to_vec());
    let expiry_ms = Some(request.expiry_ms).filter(|expiry| *expiry != 0);
    let condition = match operation {
        Operation::Add => Condition::Absent,
        Operation::Replace => Condition::Present,
        Operation::CompareAndSet => Condition::Stamp(request.operand),
        _ => Condition::Always,
    };
    let (written, expected) = match operation {
        Operation::Delete => (table.delete(0, &key, condition, None).map(|()| 0), None),
        Operation::Touch | Operation::GetAndTouch => {
            (table.touch(0, &key, expiry_ms, None).map(|()| 0), before.clone())
        }
        Operation::Append => {
            let whole = before.as_ref().map(|old| [old, value].concat());
            (table.extend(0, &key, Side::Append, value, None), whole)
        }
        Operation::Prepend => {
            let whole = before.as_ref().map(|old| [value, old].concat());
            (table.extend(0, &key, Side::Prepend, value, None), whole)
        }
        Operation::Get | Operation::AddNumber => return,
        _ => {
            let write = Write { value, flags, expiry_ms, condition, owner: None };
            (table.set(0, &key, &write), Some(value.to_vec()))
        }
    };
    // Times of the past may have expired it at once.
    let after = table.get(0, &key).map(|item| item.to_vec());
    match written {
        Ok(_) => assert!(after == expected || after.is_none()),
        Err(Refused::Locked) => panic!("nobody locks anything"),
        // A cache may forget, and does not get other values.
        Err(_) => assert!(after == before || after.is_none()),
    }
}

/// A message of each kind, and a few one after the other.
pub fn seeds() -> Vec<Seed> {
    let set = Request { expiry_ms: 5, flags: 3, ..Request::set(b"key", b"value") };
    let append = Request { value: b"!", ..Request::new(Operation::Append, b"key") };
    let all = [set, append, Request::new(Operation::Delete, b"key")];
    let script = all.iter().flat_map(|request| {
        let bytes = request.to_vec();
        [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat()
    });
    let layout = Layout {
        version: 1,
        loops: vec!["127.0.0.1:7421".parse().expect("it is an address")],
        owners: vec![0, 0],
    };
    let response = [&[0, 0, 7, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0][..], b"abc"].concat();
    vec![
        ("set", set.to_vec()),
        ("script", script.collect()),
        ("layout", layout.to_bytes()),
        ("response", response),
    ]
}
