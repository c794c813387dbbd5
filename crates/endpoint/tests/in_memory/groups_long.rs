//! Requests and responses of several packets, between a client and a worker of a group.

use crate::grouped::*;
use crate::joined::*;

#[test]
fn long_requests_and_responses_go_directly() {
    let mut group = Grouped::new(3);
    // One packet exactly, and one byte more; many packets; an answer of many packets.
    for (tag, bytes) in [(1, PAYLOAD), (2, PAYLOAD + 1), (3, 100_000)] {
        group.call(ECHO, &pattern(bytes), tag, WHOLE);
        group.call(ECHO, &pattern(bytes), 10 + tag, ONCE);
    }
    group.call(LONG, &200_000u32.to_le_bytes(), 4, WHOLE);
    group.call(LONG, &200_000u32.to_le_bytes(), 14, ONCE);
    group.run_ms(400);
    for (tag, bytes) in [(1, PAYLOAD), (2, PAYLOAD + 1), (3, 100_000)] {
        assert_eq!(*group.outcome(tag), Ok(pattern(bytes)), "{bytes} bytes");
        assert_eq!(*group.outcome(10 + tag), Ok(pattern(bytes)), "{bytes} bytes");
    }
    let long: Vec<u8> = (0..200_000).map(|at| at as u8).collect();
    assert_eq!(group.outcome(4).as_ref(), Ok(&long));
    assert_eq!(group.outcome(14).as_ref(), Ok(&long));
    // Only the requests of one packet went whole.
    let whole: u64 = group.members.iter().map(|it| it.endpoint.stats().taken.whole).sum();
    assert_eq!((whole, group.handled()), (2, 8));
    group.assert_quiet();
}

/// Calls one after the other. How many turns each takes.
fn turns_each(group: &mut Grouped, method: u16, request: &[u8]) -> [usize; 2] {
    [1, 2].map(|tag| {
        group.call(method, request, tag, ONCE);
        let mut turns = 0;
        while !group.is_over(tag) {
            group.run(1);
            turns += 1;
        }
        turns
    })
}

/// W26: what a request's place has had of the receive queue, the next one begins with.
#[test]
fn a_long_request_after_another_takes_fewer_round_trips() {
    let mut group = Grouped::new(1);
    let mut request = vec![0; 60 * PAYLOAD];
    request[0] = 8;
    let [first, second] = turns_each(&mut group, LONG, &request);
    assert!(first > 10 && second <= 5, "{second}, one for each of ask, ready, request and answer");
}

/// RT12: what a link has of the receive queue, its next pair begins with.
#[test]
fn a_long_response_after_another_takes_fewer_round_trips() {
    let mut group = Grouped::new(1);
    let [first, second] = turns_each(&mut group, LONG, &(60 * PAYLOAD as u32).to_le_bytes());
    assert!(first > 10 && second <= 7, "{second}, and {first} at first");
}
