//! Properties of failure: failures are counted, and affect no other packets.

use petasos_netio::PacketIo;

use crate::BackendFactory;
use crate::harness::{
    expect, expect_nothing, packet, pair, payload, send_all, send_payloads, trio,
};

/// A packet over the limit is dropped and counted; its neighbours arrive.
pub fn drops_oversized_packets_alone<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let max = from.datagram_bytes_max(route);
    let [first, over, last] = [payload(1, max), payload(2, max + 1), payload(3, max)];
    send_payloads(&mut from, route, &[first.clone(), over.clone(), last.clone()]);
    send_payloads(&mut from, route, &[over]);
    expect(&mut to, &[first, last]);
    expect_nothing(&mut to);
    let stats = from.stats();
    assert_eq!((stats.tx_errors, stats.tx_frames), (2, 2));
}

/// A packet without bytes is dropped and counted; its neighbours arrive.
pub fn drops_empty_packets_alone<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let [first, last] = [payload(1, 30), payload(2, 30)];
    send_payloads(&mut from, route, &[first.clone(), Vec::new(), last.clone()]);
    expect(&mut to, &[first, last]);
    expect_nothing(&mut to);
    let stats = from.stats();
    assert_eq!((stats.tx_errors, stats.tx_frames), (1, 2));
}

/// Sending to a peer that is gone is not an error and does not block, and others are still reached.
pub fn survives_the_loss_of_a_peer<F: BackendFactory>(factory: &F) {
    let (mut from, [gone, mut alive], routes) = trio(factory);
    // Few rounds and no pauses: the address is free now, and a test running at the same time may
    // take it.
    drop(gone);
    for round in 0..10 {
        let [lost, kept] = [payload(round, 56), payload(round, 57)];
        send_all(&mut from, &[packet(routes[0], &lost), packet(routes[1], &kept)]);
        send_all(&mut from, &[packet(routes[0], &lost)]);
        assert_eq!(from.receive().frames().count(), 0, "frames that nobody sent");
        expect(&mut alive, &[kept]);
    }
    expect_nothing(&mut from);
    expect_nothing(&mut alive);
}
