//! The table through a group: in memory, and on disks.

use petasos_quorum::client::{Client, ClientError, Done};
use petasos_quorum::member::Freshness;
use petasos_quorum::reply::Status;
use petasos_quorum::table::{
    Operation, Query, TableCommand, TableResult, TableStatus, decode_items,
};

use crate::group::{Group, Keeping};

pub fn put(client: &mut Client, key: &[u8], value: &[u8]) -> Result<TableResult, ClientError> {
    change(client, &TableCommand::new(Operation::Put, key, value))
}

pub fn change(client: &mut Client, command: &TableCommand<'_>) -> Result<TableResult, ClientError> {
    let Done { bytes, .. } = client.command(&command.to_bytes())?;
    Ok(TableResult::decode(&bytes).expect("it is a table's result"))
}

pub fn get(client: &mut Client, key: &[u8], freshness: Freshness) -> Option<Vec<u8>> {
    let Done { bytes, .. } = client.read(freshness, &Query::Get(key).to_bytes()).unwrap();
    let (items, _) = decode_items(&bytes).expect("they are items");
    items.into_iter().next().map(|item| item.value)
}

fn does_what_is_asked(group: &Group) {
    let mut connected = group.client();
    let client = &mut connected.client;
    let first = put(client, b"key", b"one").unwrap();
    assert_eq!(first.status, TableStatus::Done);
    assert_eq!(get(client, b"key", Freshness::Latest), Some(b"one".to_vec()));
    let stamp = first.number;
    let command = TableCommand::new(Operation::PutIf, b"key", b"two");
    let command = TableCommand { stamp, ..command };
    assert_eq!(change(client, &command).unwrap().status, TableStatus::Done);
    assert_eq!(change(client, &command).unwrap().status, TableStatus::Changed);
    for expected in [5, 10] {
        let add = TableCommand::new(Operation::Add, b"sum", &[5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(change(client, &add).unwrap().number, expected);
    }
    let delete = TableCommand::new(Operation::Delete, b"key", b"");
    assert_eq!(change(client, &delete).unwrap().status, TableStatus::Done);
    assert_eq!(get(client, b"key", Freshness::Latest), None);
    assert_eq!(client.command(b"garbage"), Err(ClientError::Refused(Status::Malformed)));
    let query = client.read(Freshness::Latest, b"garbage");
    assert_eq!(query, Err(ClientError::Refused(Status::Malformed)));
    // What is acknowledged is on all members soon, who say so if they are asked for what they have.
    for member in 1..=group.addresses().len() as u64 {
        let index = group.await_status(group.leader(), |_| true).applied;
        group.await_status(member, |status| status.applied >= index);
    }
    client.close().unwrap();
}

#[test]
fn a_group_in_memory_does_what_is_asked() {
    for voters in [1, 3] {
        does_what_is_asked(&Group::start(voters, Keeping::Memory));
    }
}

#[test]
fn a_group_on_disks_does_what_is_asked() {
    for voters in [1, 3] {
        does_what_is_asked(&Group::on_disk(voters, &format!("asked-{voters}")));
    }
}

/// QR15, QR16.
#[test]
fn reads_by_lease_and_stale_reads_are_answered() {
    let mut group = Group::prepare(3, Keeping::Memory);
    group.lease = true;
    (1..=3).for_each(|member| group.run(member));
    let mut connected = group.client();
    let client = &mut connected.client;
    put(client, b"key", b"value").unwrap();
    for _ in 0..200 {
        assert_eq!(get(client, b"key", Freshness::Latest), Some(b"value".to_vec()));
    }
    let counts = group.await_status(group.leader(), |_| true).counts;
    assert!(counts.reads_by_lease > 0, "{counts:?}");
    let follower = (1..=3).find(|member| *member != group.leader()).unwrap();
    let index = group.await_status(group.leader(), |_| true).applied;
    group.await_status(follower, |status| status.applied >= index);
    group.stop(group.leader());
    // Nobody has to lead for that.
    assert_eq!(get(client, b"key", Freshness::Stale), Some(b"value".to_vec()));
}

/// QR16: a read that waits for news is answered by it, and without it as well, in a while.
#[test]
fn reads_that_wait_are_answered_by_news() {
    let group = Group::start(3, Keeping::Memory);
    let leader = group.leader();
    let follower = group.address(if leader == 1 { 2 } else { 1 });
    let mut connected = group.client();
    let client = &mut connected.client;
    assert_eq!(put(client, b"key", b"old").unwrap().status, TableStatus::Done);
    let query = Query::Get(b"key").to_bytes();
    let value = |done: &Done| decode_items(&done.bytes).unwrap().0.pop().map(|item| item.value);
    // There is no news after the end of all entries.
    let without = client.follow(follower, u64::MAX, &query).unwrap();
    let mut index = without.index;
    let old = client.follow(follower, index.saturating_sub(1), &query).unwrap();
    assert!(old.index >= index);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut connected = group.client();
            loop {
                let done = connected.client.follow(follower, index, &query).unwrap();
                index = index.max(done.index);
                if value(&done).is_some_and(|value| value == b"new") {
                    return done.index;
                }
            }
        });
        assert_eq!(put(client, b"key", b"new").unwrap().status, TableStatus::Done);
        assert!(waiting.join().unwrap() > without.index);
    });
}

/// A leader refuses what may have no room beside all that waits, which on a busy host may be an
/// earlier command that was sent twice: asks a few times.
fn patiently(
    mut ask: impl FnMut() -> Result<TableResult, ClientError>,
) -> Result<TableResult, ClientError> {
    for _ in 0..20 {
        match ask() {
            Err(ClientError::Refused(Status::Full)) => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            answer => return answer,
        }
    }
    ask()
}

/// QR22: a full table refuses before anything is proposed, and takes what fits.
#[test]
fn a_full_table_refuses_and_goes_on() {
    let group = Group::start(3, Keeping::Memory);
    let mut connected = group.client();
    let client = &mut connected.client;
    let value = vec![7; 700_000];
    let mut taken = 0;
    let refused = loop {
        match patiently(|| put(client, format!("key {taken}").as_bytes(), &value)) {
            Ok(result) => assert_eq!(result.status, TableStatus::Done),
            Err(refused) => break refused,
        }
        taken += 1;
    };
    assert_eq!((taken, refused), (5, ClientError::Refused(Status::Full)));
    let small = patiently(|| put(client, b"small", b"x"));
    assert_eq!(small.unwrap().status, TableStatus::Done);
    let delete = TableCommand::new(Operation::Delete, b"key 0", b"");
    assert_eq!(change(client, &delete).unwrap().status, TableStatus::Done);
    let other = patiently(|| put(client, b"key 9", &value));
    assert_eq!(other.unwrap().status, TableStatus::Done);
}
