//! Many operations in one message (K21), and what comes astray (K20).

use petasos_kv::{MANY_MAX, Operation, Request, Status};
use petasos_store::{Config, Mode};

use crate::server::{Server, config};

/// Keys of all partitions, more than a message has, in the caller's order.
#[test]
fn k21_many_answers_come_in_the_order_of_their_requests() {
    for loops in [1, 3] {
        let server = Server::start(&config(Mode::Store, 8), loops);
        let (mut client, _node) = server.client(0);
        let keys: Vec<_> = (0..2 * MANY_MAX as u32 + 50).map(u32::to_be_bytes).collect();
        let writes: Vec<_> = keys.iter().step_by(2).map(|key| Request::set(key, key)).collect();
        let written = client.operate_many(&writes).expect("it answers");
        assert!(written.iter().all(|answer| answer.status == Status::Done));
        let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let found = client.get_many(&asked).expect("it answers");
        assert_eq!(found.len(), keys.len());
        for (number, (key, found)) in keys.iter().zip(found).enumerate() {
            let expected = (number % 2 == 0).then(|| key.to_vec());
            assert_eq!(found.map(|found| found.value), expected, "{number}");
        }
        assert_eq!(client.get_many(&[]).expect("there is nothing to ask"), []);
    }
}

/// K21: responses that are long together come in several messages.
#[test]
fn k21_long_responses_are_asked_for_again() {
    let config = Config { log_bytes: 64 << 20, value_bytes_max: 100_000, ..config(Mode::Store, 2) };
    let server = Server::start(&config, 2);
    let (mut client, _node) = server.client(0);
    let keys: Vec<_> = (0..100u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        client.set(key, &vec![key[3]; 100_000]).expect("there is room");
    }
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let found = client.get_many(&asked).expect("it answers");
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found.map(|found| found.value), Some(vec![key[3]; 100_000]));
    }
    let stats = client.stats().expect("it answers");
    assert_eq!((stats.hits, stats.reads), (100, 100), "each was read once");
    assert_eq!(server.service.stats().reads, 100);
}

/// K20: a loop passes on what another one owns, and counts it.
#[test]
fn k20_what_comes_astray_is_passed_on() {
    let server = Server::start(&config(Mode::Store, 8), 3);
    let (mut client, _node) = server.client(0);
    for number in 0..30u32 {
        client.set(&number.to_be_bytes(), &number.to_le_bytes()).expect("there is room");
    }
    assert_eq!(client.stats().expect("it answers").astray, 0, "it knows the layout");
    let layout = client.layout().clone();
    assert_eq!((layout.loops.len(), layout.owners.len()), (3, 8));
    let answers = crate::hostile::ask_loop(&server, 1, |ask| {
        (0..30u32).for_each(|number| {
            ask(&Request::new(Operation::Get, &number.to_be_bytes()).to_vec());
        });
    });
    for (number, answer) in (0..30u32).zip(answers) {
        let response = petasos_kv::Response::parse(&answer).expect("it is a response");
        assert_eq!((response.status, response.value), (Status::Done, &number.to_le_bytes()[..]));
    }
    // A client that reaches one address alone has all of them passed on.
    let before = client.stats().expect("it answers").astray;
    let (mut of_one, _node) = server.client_of_one(1);
    let keys: Vec<_> = (0..30u32).map(u32::to_be_bytes).collect();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let found = of_one.get_many(&asked).expect("it answers");
    for (number, found) in (0..30u32).zip(found) {
        assert_eq!(found.map(|found| found.value), Some(number.to_le_bytes().to_vec()));
    }
    assert_eq!(client.stats().expect("it answers").astray, 2 * before);
    let elsewhere = (0..30u32).filter(|number| layout.owner_of(&number.to_be_bytes()) != 1);
    assert_eq!(before, elsewhere.count() as u64);
}
