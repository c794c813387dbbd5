//! Properties of delivery: which bytes arrive, and in which order.

use petasos_netio::{PacketIo, TX_BATCH_MAX, TxPacket};

use crate::BackendFactory;
use crate::harness::{
    IN_FLIGHT_MAX, expect, expect_nothing, packet, pair, payload, send_all, send_payloads, trio,
};

/// Packets of every length from 1 byte to the largest arrive as they were.
pub fn delivers_every_length<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let lens: Vec<usize> = (1..=from.datagram_bytes_max(route)).collect();
    for lens in lens.chunks(IN_FLIGHT_MAX) {
        let payloads: Vec<_> = lens.iter().map(|len| payload(*len, *len)).collect();
        for bytes in &payloads {
            send_all(&mut from, &[packet(route, bytes)]);
        }
        expect(&mut to, &payloads);
    }
}

/// It makes no difference where a packet is split into head and body, alone or in a batch.
pub fn delivers_heads_and_bodies_split_anywhere<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    for len in [1, 2, 63, from.datagram_bytes_max(route)] {
        let bytes = payload(len, len);
        let splits: Vec<usize> = (0..=len).collect();
        for splits in splits.chunks(IN_FLIGHT_MAX / 2) {
            let packets: Vec<TxPacket<'_>> = splits
                .iter()
                .map(|split| TxPacket { route, head: &bytes[..*split], body: &bytes[*split..] })
                .collect();
            packets.iter().for_each(|packet| send_all(&mut from, &[*packet]));
            send_all(&mut from, &packets);
            expect(&mut to, &vec![bytes.clone(); 2 * splits.len()]);
        }
    }
}

/// Packets of equal length in one batch arrive in its order, whether small or large.
pub fn keeps_the_order_of_a_batch<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    for len in [4, 56, 512, 513, from.datagram_bytes_max(route)] {
        let payloads: Vec<_> = (0..TX_BATCH_MAX).map(|number| payload(number, len)).collect();
        send_payloads(&mut from, route, &payloads);
        expect(&mut to, &payloads);
    }
}

/// Packets of many different lengths in one batch arrive in its order.
pub fn delivers_mixed_lengths_in_order<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let max = from.datagram_bytes_max(route);
    let rising: Vec<usize> = (1..=IN_FLIGHT_MAX).collect();
    let falling: Vec<usize> = rising.iter().rev().copied().collect();
    let message = [vec![max; 20], vec![7], vec![max; 20], vec![7]].concat();
    let alternating = [max, 1].repeat(IN_FLIGHT_MAX / 2);
    for lens in [rising, falling, message, alternating] {
        let payloads: Vec<_> =
            lens.iter().enumerate().map(|(number, len)| payload(number, *len)).collect();
        send_payloads(&mut from, route, &payloads);
        expect(&mut to, &payloads);
    }
}

/// Packets to two peers in one batch each reach their peer, in order.
pub fn delivers_interleaved_peers_in_order<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, routes) = trio(factory);
    for (period, lens) in [(1, [56, 56]), (2, [56, 40]), (3, [700, 56]), (5, [900, 900])] {
        let peer_of = |number: usize| number / period % 2;
        let payloads: Vec<_> =
            (0..TX_BATCH_MAX).map(|number| payload(number, lens[number % 2])).collect();
        let packets: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(number, bytes)| packet(routes[peer_of(number)], bytes))
            .collect();
        send_all(&mut from, &packets);
        for (peer, io) in to.iter_mut().enumerate() {
            let own = (0..TX_BATCH_MAX).filter(|number| peer_of(*number) == peer);
            let expected: Vec<_> = own.map(|number| payloads[number].clone()).collect();
            expect(io, &expected);
        }
    }
}

/// Thousands of packets, a few in flight at a time, all arrive in order.
pub fn delivers_many_packets<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    for batch in 0..200 {
        let count = 1 + batch * 7 % IN_FLIGHT_MAX;
        let payloads: Vec<_> =
            (0..count).map(|number| payload(batch * IN_FLIGHT_MAX + number, 56)).collect();
        send_payloads(&mut from, route, &payloads);
        expect(&mut to, &payloads);
    }
    expect_nothing(&mut to);
}

/// No packet and far more packets than a usual batch can be handed over at once.
pub fn delivers_batches_of_any_size<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    assert_eq!(from.transmit(&[]), 0);
    for count in [1, TX_BATCH_MAX - 1, TX_BATCH_MAX + 1, 3 * TX_BATCH_MAX] {
        let payloads: Vec<_> = (0..count).map(|number| payload(number, 32)).collect();
        send_payloads(&mut from, route, &payloads);
        expect(&mut to, &payloads);
    }
}

/// Two ports exchange packets, and neither sees its own.
pub fn delivers_in_both_directions<F: BackendFactory>(factory: &F) {
    let (mut left, mut right, to_right) = pair(factory);
    let to_left = right.route(left.local_address()).expect("ports reach each other");
    for round in 0..100 {
        let (request, response) = (payload(2 * round, 40), payload(2 * round + 1, 41));
        send_all(&mut left, &[packet(to_right, &request)]);
        send_all(&mut right, &[packet(to_left, &response)]);
        expect(&mut right, &[request]);
        expect(&mut left, &[response]);
    }
    expect_nothing(&mut left);
    expect_nothing(&mut right);
}

/// Nothing is received before something was sent, and nothing after all that was sent.
pub fn has_nothing_before_the_first_and_after_the_last<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    expect_nothing(&mut to);
    expect_nothing(&mut from);
    let payloads: Vec<_> = (0..40).map(|number| payload(number, 90)).collect();
    send_payloads(&mut from, route, &payloads);
    expect(&mut to, &payloads);
    expect_nothing(&mut to);
    expect_nothing(&mut from);
}

/// Both sides count the same frames and bytes, and no error.
pub fn counts_what_it_moves<F: BackendFactory>(factory: &F) {
    let (mut from, mut to, route) = pair(factory);
    let lens = [56, 56, 56, 1000, 1000, 3, 1000, 1];
    let payloads: Vec<_> =
        lens.iter().enumerate().map(|(number, len)| payload(number, *len)).collect();
    send_payloads(&mut from, route, &payloads);
    expect(&mut to, &payloads);
    expect_nothing(&mut to);
    let (sent, received) = (from.stats(), to.stats());
    let total: usize = lens.iter().sum();
    assert_eq!((sent.tx_frames, sent.tx_bytes), (lens.len() as u64, total as u64));
    assert_eq!((received.rx_frames, received.rx_bytes), (lens.len() as u64, total as u64));
    assert_eq!((sent.tx_errors, received.rx_errors, received.rx_truncated), (0, 0, 0));
    assert_eq!((sent.rx_frames, received.tx_frames, received.rx_overflows), (0, 0, 0));
    assert!(received.rx_syscalls_empty <= received.rx_syscalls);
}
