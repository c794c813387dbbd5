//! Connections: who dials, what happens when one breaks, and how packets are handed to sockets.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use crate::common::{PATIENCE, any_port, caller, next, pass, port, port_in_time, send, until};
use petasos_netio::{PacketIo, Route, Switch, TX_BATCH_MAX, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_tcp::{TcpConfig, TcpIo};

fn pair() -> (TcpIo, TcpIo, Route, Route) {
    let (mut one, mut two) = (port(TcpConfig::default()), port(TcpConfig::default()));
    let to_two = one.route(two.local_address()).expect("it is on loopback");
    let to_one = two.route(one.local_address()).expect("it is on loopback");
    (one, two, to_two, to_one)
}

#[test]
fn a_peer_is_answered_over_the_connection_that_it_dialled() {
    let (mut one, mut two, to_two, to_one) = pair();
    send(&mut one, to_two, b"ask");
    assert_eq!(next(&mut two), (b"ask".to_vec(), two.origin(to_one)));
    send(&mut two, to_one, b"answer");
    assert_eq!(next(&mut one), (b"answer".to_vec(), one.origin(to_two)));
    assert_eq!((one.tcp_stats().dialled, two.tcp_stats().dialled), (1, 0));
}

#[test]
fn two_that_dial_each_other_share_a_connection() {
    let (mut one, mut two, to_two, to_one) = pair();
    send(&mut one, to_two, b"from one");
    // The other connection waits to be accepted, and is found by dialling.
    send(&mut two, to_one, b"from two");
    assert_eq!(next(&mut two).0, b"from one");
    assert_eq!(next(&mut one).0, b"from two");
    assert_eq!((one.connections(), two.connections()), (1, 1));
}

#[test]
fn a_port_reaches_itself() {
    let mut io = port(TcpConfig::default());
    let route = io.route(io.local_address()).expect("it is on loopback");
    send(&mut io, route, b"to me");
    assert_eq!(next(&mut io), (b"to me".to_vec(), io.origin(route)));
}

#[test]
fn another_process_at_the_same_address_is_dialled_again() {
    let (mut one, mut two, to_two, _) = pair();
    send(&mut one, to_two, b"old");
    assert_eq!(next(&mut two).0, b"old");
    let address = two.local_address();
    drop(two);
    let mut two = turns()
        .find_map(|_| TcpIo::bind(address, TcpConfig::default()).ok())
        .expect("the address becomes free");
    // What is sent before the end is noticed is lost.
    for _ in turns() {
        send(&mut one, to_two, b"new");
        one.receive();
        if two.receive().frames().any(|frame| frame.bytes == b"new") {
            assert_eq!(one.tcp_stats().lost, 1);
            return;
        }
    }
    panic!("the new process was never reached");
}

#[test]
fn a_peer_that_does_not_listen_is_dialled_now_and_then() {
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let address = TcpListener::bind(any_port()).and_then(|gone| gone.local_addr());
    let route = io.route(address.expect("loopback has ports")).expect("it is on loopback");
    for _ in 0..100 {
        send(&mut io, route, b"lost");
    }
    assert_eq!((io.tcp_stats().dialled, io.tcp_stats().dials_failed), (1, 1));
    assert_eq!((io.stats().tx_errors, io.tcp_stats().drops_unlinked), (100, 100));
    pass(&mut io, &clock, TcpConfig::default().redial_interval);
    send(&mut io, route, b"lost");
    assert_eq!((io.tcp_stats().dialled, io.connections()), (2, 0));
}

#[test]
fn a_released_route_leaves_its_connection_for_a_while() {
    let (mut one, clock) = port_in_time(TcpConfig::default());
    let mut two = port(TcpConfig::default());
    let route = one.route(two.local_address()).expect("it is on loopback");
    send(&mut one, route, b"one");
    assert_eq!(next(&mut two).0, b"one");
    one.release_route(route);
    assert_eq!(one.connections(), 1);
    let route = one.route(two.local_address()).expect("it is on loopback");
    send(&mut one, route, b"two");
    assert_eq!(next(&mut two).0, b"two");
    assert_eq!(one.tcp_stats().dialled, 1);
    one.release_route(route);
    pass(&mut one, &clock, Duration::ZERO);
    pass(&mut one, &clock, PATIENCE);
    assert_eq!(one.connections(), 0);
}

#[test]
fn ipv4_peers_reach_a_port_of_both_families() {
    let config = TcpConfig { dual_stack: true, ..TcpConfig::default() };
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let Ok(mut both) = TcpIo::bind(any, config) else {
        return petasos_skips::skip("ipv6", "cannot listen at ::");
    };
    let mut v4 = port(TcpConfig::default());
    let at = SocketAddr::new(v4.local_address().ip(), both.local_address().port());
    let there = v4.route(at).expect("it is on loopback");
    let back = both.route(v4.local_address()).expect("it has both families");
    send(&mut both, back, b"first");
    assert_eq!(next(&mut v4), (b"first".to_vec(), v4.origin(there)));
    send(&mut v4, there, b"second");
    assert_eq!(next(&mut both), (b"second".to_vec(), both.origin(back)));
    assert_eq!((both.connections(), v4.connections()), (1, 1));
}

/// Sends `packets` long packets to a peer that reads now and then, and turns the switch meanwhile.
fn send_long_packets(packets: usize, turn: impl Fn(&Switch, usize)) {
    let (mut one, mut two, to_two, _) = pair();
    let payload = |number: usize| -> Vec<u8> {
        let len = 65_000 - number % 7 * 9000;
        (0..len).map(|at| (at / 251 + at + number * 13) as u8).collect()
    };
    let all: Vec<Vec<u8>> = (0..packets).map(payload).collect();
    let batch: Vec<TxPacket<'_>> = all
        .iter()
        .map(|bytes| TxPacket { route: to_two, head: &bytes[..24], body: &bytes[24..] })
        .collect();
    let (mut taken, mut received) = (0, 0);
    for number in turns() {
        turn(one.gathering(), number as usize);
        taken += one.transmit(&batch[taken..packets.min(taken + TX_BATCH_MAX)]);
        // Also sends what is left of a packet.
        assert_eq!(one.receive().frames().count(), 0);
        for frame in two.receive().frames() {
            assert!(frame.bytes == all[received], "packet {received} differs");
            received += 1;
        }
        if received == packets {
            break;
        }
    }
    assert_eq!((taken, received), (packets, packets));
    assert!(one.stats().tx_full > 0, "the socket was never full");
    assert_eq!((one.stats().tx_errors, one.tcp_stats().lost), (0, 0));
}

#[test]
fn long_packets_arrive_whole_though_sockets_are_full() {
    send_long_packets(400, |_, _| {});
}

#[test]
fn gathering_may_be_switched_under_load() {
    send_long_packets(400, |gathering, turn| gathering.set(turn % 3 != 0));
}

#[test]
fn a_batch_takes_one_call_if_gathered_and_one_per_piece_if_not() {
    let (mut one, mut two, to_two, _) = pair();
    send(&mut one, to_two, b"first");
    next(&mut two);
    let bytes = [[1; 24], [2; 24]].concat();
    let packet = TxPacket { route: to_two, head: &bytes[..24], body: &bytes[24..] };
    for (gathered, calls) in [(true, 1), (false, 3 * TX_BATCH_MAX as u64), (true, 1)] {
        one.gathering().set(gathered);
        let before = one.stats().tx_syscalls;
        assert_eq!(one.transmit(&[packet; TX_BATCH_MAX]), TX_BATCH_MAX);
        assert_eq!(one.stats().tx_syscalls - before, calls);
        let mut received = 0;
        assert!(turns().any(|_| {
            received += two.receive().frames().filter(|frame| frame.bytes == bytes).count();
            received == TX_BATCH_MAX
        }));
    }
}

#[test]
fn a_busy_connection_does_not_keep_callers_waiting() {
    let (mut one, mut two, to_two, _) = pair();
    let bytes = vec![3; 60_000];
    let packet = TxPacket { route: to_two, head: &bytes, body: &[] };
    send(&mut one, to_two, b"first");
    let _caller = caller(&two);
    for _ in turns() {
        one.transmit(&[packet; TX_BATCH_MAX]);
        two.receive();
        if two.connections() == 2 {
            return;
        }
    }
    panic!("the caller was never accepted");
}

#[test]
fn a_sleeping_port_is_woken_by_callers_and_by_packets() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (mut one, mut two, to_two, _) = pair();
    let wait = |io: &mut TcpIo| {
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert!(io.prepare_to_sleep(), "everything has been received");
        let descriptor = io.descriptor().expect("there is one");
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).expect("it waits")
    };
    until(&mut two, |_| true);
    two.receive();
    for text in [&b"first"[..], b"second", b"third"] {
        send(&mut one, to_two, text);
        assert_eq!(wait(&mut two), 1);
        assert_eq!(next(&mut two).0, text);
        two.receive();
    }
}
