//! Properties of trains: datagrams handed over in one piece arrive as if handed over one by one.

use petasos_netio::{PacketIo, Route, TX_BATCH_MAX};

use crate::BackendFactory;
use crate::harness::{
    IN_FLIGHT_MAX, expect, expect_nothing, packet, pair, payload, send_all, send_train,
};

/// `count` payloads of `len` bytes, the last of `last_len`, numbered from `first` on.
fn payloads(first: usize, count: usize, len: usize, last_len: usize) -> Vec<Vec<u8>> {
    let len_of = |at| if at + 1 == count { last_len } else { len };
    (0..count).map(|at| payload(first + at, len_of(at))).collect()
}

fn send(io: &mut impl PacketIo, route: Route, payloads: &[Vec<u8>]) {
    send_train(io, route, &payloads.concat(), payloads[0].len());
}

/// Trains of any number of datagrams of any length arrive, the shorter last one too.
pub fn delivers_trains_of_every_shape<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let max = from.datagram_bytes_max(route);
    for len in [1, 2, 56, 512, 513, max] {
        for count in [1, 2, 3, TX_BATCH_MAX - 1, TX_BATCH_MAX] {
            for last_len in [len, len.div_ceil(2), 1] {
                let payloads = payloads(count, count, len, last_len);
                send(&mut from, route, &payloads);
                expect(&mut to, &payloads);
            }
        }
    }
    expect_nothing(&mut to);
    assert_eq!(from.stats().tx_frames, to.stats().rx_frames);
    assert_eq!(from.stats().tx_bytes, to.stats().rx_bytes);
    assert_eq!(from.stats().tx_errors, 0);
}

/// Trains and packets to one peer arrive in the order in which they were handed over.
pub fn keeps_the_order_of_trains_and_packets<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    for round in 0..20 {
        let train = payloads(round, IN_FLIGHT_MAX / 2, 56, 56);
        let single = payload(round, 56);
        send(&mut from, route, &train);
        send_all(&mut from, &[packet(route, &single)]);
        send(&mut from, route, &train[1..]);
        expect(&mut to, &[&train[..], &[single], &train[1..]].concat());
    }
}

/// What is handed over in a batch has left at its end, in its order, however much it is.
pub fn sends_all_of_a_batch_at_its_end<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    for round in 0..20 {
        let train = payloads(round, IN_FLIGHT_MAX / 2, 56, 7);
        let single = payload(round, 56);
        from.begin_batch();
        send(&mut from, route, &train);
        send_all(&mut from, &[packet(route, &single)]);
        send(&mut from, route, &train[1..]);
        from.end_batch();
        expect(&mut to, &[&train[..], &[single], &train[1..]].concat());
    }
    // An empty one sends nothing, and what comes after one leaves by itself.
    from.begin_batch();
    from.end_batch();
    let single = payload(0, 30);
    send_all(&mut from, &[packet(route, &single)]);
    expect(&mut to, &[single]);
    expect_nothing(&mut to);
}

/// The datagrams of a train that are over the limit are dropped and counted, and no other.
pub fn drops_oversized_trains_alone<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let max = from.datagram_bytes_max(route);
    let over = payloads(0, 4, max + 1, max);
    let good = payloads(9, 4, max, max);
    send(&mut from, route, &over);
    send(&mut from, route, &good);
    expect(&mut to, &[&over[3..], &good[..]].concat());
    expect_nothing(&mut to);
    let stats = from.stats();
    assert_eq!((stats.tx_errors, stats.tx_frames), (3, 5));
}

/// A train without bytes sends nothing.
pub fn sends_nothing_for_an_empty_train<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    assert_eq!(from.transmit_train(route, &[], 56), 0);
    let bytes = payload(1, 56);
    send_all(&mut from, &[packet(route, &bytes)]);
    expect(&mut to, &[bytes]);
    assert_eq!((from.stats().tx_frames, from.stats().tx_errors), (1, 0));
}
