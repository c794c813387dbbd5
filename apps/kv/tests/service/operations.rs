//! What operations do, at servers with one loop and with several.

use std::time::Duration;

use petasos_kv::{Client, ClientError, Operation, Request, Status};
use petasos_store::Mode;

use crate::server::{PATIENCE, Server, config};

fn refused<T>(result: Result<T, ClientError>) -> Option<Status> {
    match result {
        Err(ClientError::Refused(status)) => Some(status),
        _ => None,
    }
}

/// All operations, for keys of all partitions.
#[test]
fn k17_operations_do_what_they_say() {
    for loops in [1, 3] {
        let server = Server::start(&config(Mode::Store, 8), loops);
        let (mut client, _node) = server.client(0);
        for number in 0..40u32 {
            let key = number.to_be_bytes();
            let of = |operation| Request::new(operation, &key);
            assert_eq!(client.get(&key).expect("it answers"), None);
            assert_eq!(refused(client.change(&of(Operation::Append))), Some(Status::Absent));
            let replace = Request { value: b"no", ..of(Operation::Replace) };
            assert_eq!(refused(client.change(&replace)), Some(Status::Absent));
            let add = Request { value: b"middle", flags: 7, ..of(Operation::Add) };
            let stamp = client.change(&add).expect("it is absent").stamp;
            assert_eq!(refused(client.change(&add)), Some(Status::Present));
            let front = Request { value: b"<", ..of(Operation::Prepend) };
            let back = Request { value: b">", ..of(Operation::Append) };
            client.change(&front).expect("it is there");
            let newest = client.change(&back).expect("it is there").stamp;
            let found = client.get(&key).expect("it answers").expect("it is there");
            assert_eq!((&found.value[..], found.flags, found.stamp), (&b"<middle>"[..], 7, newest));
            let with = |operand| Request { value: b"cas", operand, ..of(Operation::CompareAndSet) };
            assert_eq!(refused(client.change(&with(stamp))), Some(Status::Present));
            client.change(&with(newest)).expect("it is the newest");
            let without = Request { without_value: true, ..of(Operation::Get) };
            let read = client.operate(&without, |response| (response.status, response.value.len()));
            assert_eq!(read.expect("it answers"), (Status::Done, 0));
            assert!(client.delete(&key).expect("it answers"));
            assert!(!client.delete(&key).expect("it answers"));
        }
        let stats = client.stats().expect("it answers");
        assert_eq!((stats.hits, stats.deletes, stats.astray), (80, 80, 0), "{stats:?}");
    }
}

/// K9.
#[test]
fn k9_numbers_are_added_in_one_step() {
    let server = Server::start(&config(Mode::Store, 4), 2);
    let (mut client, _node) = server.client(0);
    assert_eq!(refused(client.add_number(b"n", 1)), Some(Status::Absent));
    client.set(b"n", &5u64.to_le_bytes()).expect("there is room");
    assert_eq!(client.add_number(b"n", -5).expect("it is a number"), 0);
    assert_eq!(refused(client.add_number(b"n", -1)), Some(Status::NoNumber));
    client.set(b"n", &u64::MAX.to_le_bytes()).expect("there is room");
    assert_eq!(refused(client.add_number(b"n", 1)), Some(Status::NoNumber));
    for value in [&b"1234567"[..], b"123456789", &[0; 100]] {
        client.set(b"n", value).expect("there is room");
        assert_eq!(refused(client.add_number(b"n", 1)), Some(Status::NoNumber));
        assert_eq!(client.get(b"n").expect("it answers").expect("it is there").value, value);
    }
    // Clients at the same time: none is lost.
    client.set(b"n", &0u64.to_le_bytes()).expect("there is room");
    std::thread::scope(|scope| {
        for of in [0, 1, 1] {
            let server = &server;
            scope.spawn(move || {
                let (mut client, _node) = server.client(of);
                (0..200).for_each(|_| {
                    client.add_number(b"n", 3).expect("it is a number");
                });
            });
        }
    });
    assert_eq!(client.add_number(b"n", 0).expect("it is a number"), 3 * 3 * 200);
}

/// K7.
#[test]
fn k7_items_expire_by_the_servers_clock() {
    let server = Server::start(&config(Mode::Cache, 4), 2);
    let (mut client, _node) = server.client(0);
    let soon = Request { expiry_ms: 1, ..Request::set(b"soon", b"x") };
    let later = Request { expiry_ms: 100_000, ..Request::set(b"later", b"x") };
    client.change(&soon).expect("a cache takes all");
    client.change(&later).expect("a cache takes all");
    await_absent(&mut client, b"soon");
    assert!(client.get(b"later").expect("it answers").is_some());
    let touch = Request { expiry_ms: 1, ..Request::new(Operation::GetAndTouch, b"later") };
    let value = client.operate(&touch, |response| response.value.to_vec()).expect("it answers");
    assert_eq!(value, b"x");
    await_absent(&mut client, b"later");
}

fn await_absent(client: &mut Client, key: &[u8]) {
    let pause = Duration::from_millis(1);
    let pauses = PATIENCE.as_millis() / pause.as_millis();
    let is_absent = (0..pauses).any(|_| {
        std::thread::sleep(pause);
        client.get(key).expect("it answers").is_none()
    });
    assert!(is_absent, "it expires");
}

/// K4: a full store refuses, and reads go on.
#[test]
fn k4_a_full_store_says_so() {
    let server = Server::start(&config(Mode::Store, 1), 1);
    let (mut client, _node) = server.client(0);
    let value = vec![1; 4096];
    let mut written = 0u32;
    let status = loop {
        match client.set(&written.to_be_bytes(), &value) {
            Ok(_) => written += 1,
            Err(error) => break refused::<()>(Err(error)),
        }
        assert!(written < 1000, "a mebibyte has an end");
    };
    assert_eq!(status, Some(Status::Full));
    for number in 0..written {
        let found = client.get(&number.to_be_bytes()).expect("it answers");
        assert_eq!(found.map(|found| found.value), Some(value.clone()));
    }
    assert!(client.delete(&0u32.to_be_bytes()).expect("it answers"));
    client.set(b"more", &value).expect("there is room again");
    let stats = client.stats().expect("it answers");
    assert_eq!(stats.items, u64::from(written), "there is one loop");
    assert!(stats.items_bytes <= stats.capacity_bytes);
}
