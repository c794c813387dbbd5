//! Steps that are taken for all requests of a turn before any of them is handled.

use petasos_endpoint::{Context, Payload, Request};

use crate::joined::*;

fn note(server: &Server, step: usize, bytes: &[u8]) {
    server.prepared.borrow_mut().push((step, bytes.to_vec()));
}

fn first(server: &Server, bytes: &[u8]) {
    note(server, 1, bytes);
}

fn second(server: &Server, bytes: &[u8]) {
    note(server, 2, bytes);
}

/// A handler that says how many steps it has seen.
fn count(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    let seen = server.prepared.borrow().len() as u8;
    cx.respond_with(request.handle, &[seen]);
    if let Payload::Buffer(buf) = request.payload {
        cx.free(buf);
    }
}

fn steps(pair: &Joined) -> Vec<(usize, Vec<u8>)> {
    pair.server.state().prepared.take()
}

#[test]
fn each_step_is_taken_for_all_requests_before_one_is_handled() {
    let mut pair = Joined::new();
    pair.server.register(ECHO, count);
    pair.server.prepare(ECHO, &[first, second]);
    pair.server.prepare(HOLD, &[first]);
    pair.call(ECHO, b"a", 1);
    pair.call(HOLD, b"b", 2);
    pair.call(NOBODY, b"c", 3);
    pair.call(ECHO, b"d", 4);
    pair.run(3);
    let expected = [(1, b"a"), (1, b"b"), (1, b"d"), (2, b"a"), (2, b"d")];
    assert_eq!(steps(&pair), expected.map(|(step, bytes)| (step, bytes.to_vec())));
    for tag in [1, 4] {
        assert_eq!(pair.outcome(tag).as_deref(), Ok(&[5u8][..]), "after all steps of the turn");
    }
    // They can be taken back.
    pair.server.prepare(ECHO, &[]);
    pair.call(ECHO, b"e", 5);
    pair.run(3);
    assert_eq!(steps(&pair), []);
}

/// They are hints: what comes without them is handled all the same.
#[test]
fn long_and_sealed_requests_come_without_steps() {
    let mut pair = Joined::new();
    pair.server.prepare(ECHO, &[first]);
    let long = vec![7; 100_000];
    pair.call(ECHO, &long, 1);
    pair.run(200);
    assert_eq!((pair.outcome(1).as_deref(), steps(&pair)), (Ok(&long[..]), vec![]));
    let mut pair = Joined::sealed(|_| {});
    pair.server.prepare(ECHO, &[first]);
    pair.call(ECHO, b"sealed", 1);
    pair.run(3);
    assert_eq!((pair.outcome(1).as_deref(), steps(&pair)), (Ok(&b"sealed"[..]), vec![]));
}

#[test]
fn a_step_that_panics_costs_no_request() {
    let mut pair = Joined::new();
    pair.server.prepare(
        ECHO,
        &[|server, bytes| {
            note(server, 1, bytes);
            assert_ne!(bytes, b"b", "a step that fails on purpose");
        }],
    );
    for (tag, bytes) in [(1, b"a"), (2, b"b"), (3, b"c")] {
        pair.call(ECHO, bytes, tag);
    }
    pair.run(3);
    assert_eq!([1, 2, 3].map(|tag| pair.outcome(tag).is_ok()), [true; 3]);
    assert_eq!(steps(&pair).len(), 2, "none after the one that failed");
    assert_eq!(pair.server.stats().event_loop.panics, 1);
}

/// Bytes that are no request, or no packet, reach no step.
#[test]
fn garbage_reaches_no_step() {
    let mut pair = Joined::captured(|_| {});
    pair.server.prepare(ECHO, &[first]);
    pair.call(ECHO, b"whole", 1);
    let mut number = 0;
    pair.run_relayed(3, |_, bytes| {
        // The version, and the kind.
        if number == 0 {
            bytes[0] ^= 0xff;
        }
        number += 1;
    });
    assert_eq!(steps(&pair), []);
    pair.run_relayed(50, |_, _| {});
    assert_eq!(pair.outcome(1).as_deref(), Ok(&b"whole"[..]), "it was repeated");
    assert_eq!(steps(&pair), [(1, b"whole".to_vec())]);
}
