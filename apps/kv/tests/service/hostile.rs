//! Bytes that are no requests, and clients that ask for too much.

use petasos_base::Rng;
use petasos_endpoint::{CallError, Completion, Context, MsgBuf};
use petasos_kv::{MANY_MAX, OPERATE, OPERATE_MANY, Operation, Request, Response, Status};
use petasos_store::{Config, Mode};

use crate::server::{PATIENCE, Server, config, endpoint};

type Come = Vec<(u64, Result<Vec<u8>, CallError>)>;

fn keep(come: &mut Come, cx: &mut Context<Come>, done: Completion<'_>) {
    come.push((done.tag, done.result.map(|payload| payload.to_vec())));
    cx.free(done.request);
}

/// Calls a method of one loop with any bytes, one call after the other; returns the answers.
pub fn call_loop(server: &Server, of: usize, method: u16, all: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut endpoint, _node) = endpoint(Come::new());
    let session = endpoint.connect_and_wait(server.addresses[of], PATIENCE);
    let session = session.expect("the server listens");
    let mut answers = Vec::new();
    for (tag, bytes) in (0..).zip(all) {
        let cx = endpoint.context();
        let begun = cx.enqueue_request(session, method, MsgBuf::from_slice(bytes), keep, tag);
        begun.map_err(|refused| refused.error).expect("there is room");
        assert!(endpoint.run_for(PATIENCE, |come, _| !come.is_empty()), "it answers");
        let (_, answer) = endpoint.state_mut().pop().expect("it is there");
        answers.push(answer.expect("it answers"));
    }
    answers
}

/// Calls one loop's method for single operations.
pub fn ask_loop(
    server: &Server,
    of: usize,
    asks: impl FnOnce(&mut dyn FnMut(&[u8])),
) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    asks(&mut |bytes| all.push(bytes.to_vec()));
    call_loop(server, of, OPERATE, &all)
}

fn status_of(answer: &[u8]) -> Status {
    Response::parse(answer).expect("it is a response").status
}

/// Any bytes are answered, and cost nobody anything.
#[test]
fn k17_garbage_is_answered_as_malformed() {
    let server = Server::start(&config(Mode::Store, 4), 2);
    let (mut client, _node) = server.client(0);
    client.set(b"key", b"value").expect("there is room");
    let mut rng = Rng::new(7);
    let whole = Request::new(Operation::Get, b"key").to_vec();
    let garbage = (0..300).map(|_| (0..rng.below(100)).map(|_| rng.next_u64() as u8).collect());
    let mut all: Vec<Vec<u8>> = garbage.collect();
    all.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
    for (bytes, answer) in all.iter().zip(call_loop(&server, 0, OPERATE, &all)) {
        let expected = Request::parse(bytes).map(|_| ()).err();
        let status = status_of(&answer);
        assert!(expected.is_none_or(|expected| expected == status), "{bytes:?}: {status}");
    }
    let answers = call_loop(&server, 1, OPERATE_MANY, &all);
    assert_eq!(answers.len(), all.len());
    let found = client.get(b"key").expect("it answers").expect("nothing has changed");
    assert_eq!(found.value, b"value");
    assert!(client.stats().expect("it answers").refused > 300);
}

/// K21: more than a message may have are not done, and a response does not grow without end.
#[test]
fn k21_what_asks_for_too_much_gets_a_part() {
    let config = Config { log_bytes: 64 << 20, value_bytes_max: 1 << 20, ..config(Mode::Store, 1) };
    let server = Server::start(&config, 1);
    let (mut client, _node) = server.client(0);
    client.set(b"long", &vec![7; 1 << 20]).expect("there is room");
    let many = |request: &Request<'_>, count: usize| {
        let one = request.to_vec();
        let one = [&(one.len() as u32).to_le_bytes()[..], &one].concat();
        one.repeat(count)
    };
    let gets = many(&Request::new(Operation::Get, b"long"), MANY_MAX);
    let answers = call_loop(&server, 0, OPERATE_MANY, &[gets]);
    assert!(answers[0].len() < 3 << 20, "{}", answers[0].len());
    assert!(answers[0].len() > 1 << 20);
    let sets = many(&Request::set(b"short", b"x"), MANY_MAX + 100);
    let answers = call_loop(&server, 0, OPERATE_MANY, &[sets]);
    // A response to a write has 16 bytes, and its length 4.
    assert_eq!(answers[0].len(), (MANY_MAX + 1) * 20);
    assert_eq!(status_of(&answers[0][answers[0].len() - 16..]), Status::Malformed);
    let stamp = client.get(b"short").expect("it answers").expect("it is there").stamp;
    assert_eq!(stamp, 1 + MANY_MAX as u64, "no more were done");
}
