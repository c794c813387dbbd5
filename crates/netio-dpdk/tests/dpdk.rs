//! Neighbours, kernel peers, damage, failing set-up, peers that stop, and rings in memory.
#![cfg(feature = "dpdk")]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{TryRecvError, channel};

use petasos_netio::{Ecn, PacketIo, RouteError, TX_BATCH_MAX, TxPacket};
use petasos_netio_dpdk::{DpdkConfig, DpdkError, DpdkIo};

mod common;
use common::{config, ip, mac, on_interface, rig, unique};

fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}

/// An endpoint in the left namespace of a pair, numbered 1.
fn left(pair: &rig::Pair, v6: bool) -> DpdkIo {
    on_interface((&pair.left, "v0"), at(ip(v6, 1), 4000), config(1))
        .expect("a fresh interface is free")
}

/// An endpoint in the right namespace of a pair, numbered 2.
fn right(pair: &rig::Pair, v6: bool) -> DpdkIo {
    on_interface((&pair.right, "v1"), at(ip(v6, 2), 4000), config(2))
        .expect("a fresh interface is free")
}

/// Receives until `count` frames have arrived, or nothing has arrived for a long time.
fn receive(io: &mut DpdkIo, count: usize) -> Vec<(Vec<u8>, Ecn)> {
    let mut frames = Vec::new();
    let mut idle = 0;
    while frames.len() < count && idle < 1_000_000 {
        let before = frames.len();
        frames.extend(io.receive().frames().map(|frame| (frame.bytes.to_vec(), frame.ecn)));
        idle = if frames.len() > before { 0 } else { idle + 1 };
    }
    frames
}

/// Lets `peer` receive, and so answer questions, while `act` runs.
fn while_polled<T>(peer: &mut DpdkIo, act: impl FnOnce() -> T) -> T {
    let (running, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.try_recv() != Err(TryRecvError::Disconnected) {
                assert_eq!(peer.receive().frames().count(), 0, "nobody sends datagrams yet");
            }
        });
        let result = act();
        drop(running);
        result
    })
}

#[test]
fn endpoints_find_each_other_by_asking() {
    if !rig::available() {
        return;
    }
    for v6 in [false, true] {
        let pair = rig::Pair::new();
        let (mut asker, mut peer) = (left(&pair, v6), right(&pair, v6));
        let to = peer.local_address();
        let route = while_polled(&mut peer, || asker.route(to)).expect("it answers");
        assert!(peer.dpdk_stats().neighbour_answers >= 1);
        asker.set_ecn(Ecn::Capable0);
        asker.transmit(&[TxPacket { route, head: b"found ", body: b"you" }]);
        assert_eq!(receive(&mut peer, 1), [(b"found you".to_vec(), Ecn::Capable0)]);
        // The peer that was asked has learned the asker's address, and need not ask in turn.
        let back = peer.route(asker.local_address()).expect("it is known");
        peer.transmit(&[TxPacket { route: back, head: b"good", body: &[] }]);
        assert_eq!(receive(&mut asker, 1), [(b"good".to_vec(), Ecn::NotCapable)]);
    }
}

/// The kernel answers our questions, and its questions are answered.
#[test]
fn a_kernel_socket_is_a_peer() {
    if !rig::available() {
        return;
    }
    for v6 in [false, true] {
        let pair = rig::Pair::new();
        // Datagrams whose checksum the kernel leaves to a device would not be accepted.
        pair.right.set_checksum_offload("v1", false);
        let mut io = left(&pair, v6);
        let host = if v6 { rig::v6(2) } else { rig::v4(2) };
        let socket = pair.right.run(|| UdpSocket::bind(at(host, 0))).expect("it is its address");
        let route = io.route(socket.local_addr().unwrap()).expect("the kernel answers");
        io.transmit(&[TxPacket { route, head: b"hello", body: &[] }]);
        let mut buffer = [0; 100];
        let (len, from) = socket.recv_from(&mut buffer).expect("it was sent");
        assert_eq!((&buffer[..len], from), (&b"hello"[..], io.local_address()));
        // The kernel asks for our address before this leaves.
        socket.send_to(b"back", io.local_address()).expect("it is on the link");
        assert_eq!(receive(&mut io, 1), [(b"back".to_vec(), Ecn::NotCapable)]);
    }
}

/// The kernel gives the port to no other socket, and does not reject datagrams for it.
#[test]
fn a_port_of_an_address_that_the_kernel_has_is_reserved_there() {
    if !rig::available() {
        return;
    }
    let pair = rig::Pair::new();
    let shared = rig::v4(1);
    let open = |port| {
        let (mac, neighbours) = (None, vec![(rig::v4(2), mac(2))]);
        let config = DpdkConfig { mac, neighbours, ..config(1) };
        on_interface((&pair.left, "v0"), at(shared, port), config)
    };
    let io = open(0).expect("there is a free port");
    let own = io.local_address();
    assert!(own.port() != 0 && own.ip() == shared, "{own}");
    let again = open(own.port()).err();
    assert!(matches!(again, Some(DpdkError::AddressInUse(taken)) if taken == own), "{again:?}");
    let bound = pair.left.run(|| UdpSocket::bind(own));
    assert_eq!(bound.err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
    let other = open(0).expect("there is another");
    assert_ne!(other.local_address(), own);
    drop(io);
    pair.left.run(|| UdpSocket::bind(own)).expect("it is free again");
    let alone = on_interface((&pair.left, "v0"), at(ip(false, 1), 0), config(1));
    assert_ne!(alone.expect("nobody else has the address").local_address().port(), 0);
}

#[test]
fn a_partial_checksum_is_refused_and_counted() {
    if !rig::available() {
        return;
    }
    let pair = rig::Pair::new();
    let mut io = left(&pair, false);
    // The kernel leaves the checksum to a device that does not exist.
    let socket = pair.right.run(|| UdpSocket::bind(at(rig::v4(2), 0))).expect("its address");
    io.route(socket.local_addr().unwrap()).expect("the kernel answers");
    socket.send_to(b"unsummed", io.local_address()).expect("it is on the link");
    for _ in 0..10_000_000 {
        assert_eq!(io.receive().frames().count(), 0);
        if io.dpdk_stats().rx_checksums > 0 {
            break;
        }
    }
    assert_eq!((io.dpdk_stats().rx_checksums, io.stats().rx_errors), (1, 1));
}

#[test]
fn a_neighbour_that_is_silent_is_no_route() {
    if !rig::available() {
        return;
    }
    let pair = rig::Pair::new();
    let config = DpdkConfig { resolve_wait_ms: 50, ..config(1) };
    let mut io =
        on_interface((&pair.left, "v0"), at(ip(false, 1), 4000), config).expect("it is free");
    let silent = io.route(at(ip(false, 99), 1));
    assert!(matches!(silent, Err(RouteError::Unreachable(_))), "{silent:?}");
    let beyond = io.route("192.0.2.1:1".parse().unwrap());
    assert!(matches!(beyond, Err(RouteError::Unreachable(_))), "{beyond:?}");
}

#[test]
fn a_peer_that_stops_reading_and_exits_stops_nobody() {
    if !rig::available() {
        return;
    }
    let pair = rig::Pair::new();
    let neighbours = vec![(ip(false, 2), mac(2))];
    let config = DpdkConfig { neighbours, ..config(1) };
    let mut from =
        on_interface((&pair.left, "v0"), at(ip(false, 1), 4000), config).expect("it is free");
    let mut to = right(&pair, false);
    let route = from.route(to.local_address()).expect("it is configured");
    let bytes = [3; 1000];
    let packets = [TxPacket { route, head: &bytes, body: &[] }; TX_BATCH_MAX];
    let taken: usize = (0..100).map(|_| from.transmit(&packets)).sum();
    assert_eq!(from.stats().tx_frames, taken as u64);
    let arrived = receive(&mut to, usize::MAX);
    assert!(arrived.iter().all(|frame| frame.0 == bytes) && !arrived.is_empty());
    drop(to);
    for _ in 0..10 {
        from.transmit(&packets);
        assert_eq!(from.receive().frames().count(), 0);
    }
    // Another endpoint takes its place.
    let mut to = right(&pair, false);
    from.transmit(&packets[..1]);
    assert_eq!(receive(&mut to, 1).len(), 1);
}

/// Both ends of a ring are one port: it receives what it sends, in the same frames.
#[test]
fn a_ring_brings_back_what_was_sent() {
    let device = unique("net_ring");
    let neighbours = vec![(ip(false, 2), mac(2))];
    let config = DpdkConfig { device, neighbours, ..config(1) };
    let mut io = DpdkIo::bind(at(ip(false, 1), 4000), &config).expect("rings need nothing");
    let busy = DpdkIo::bind(at(ip(false, 1), 4001), &config).err();
    assert!(matches!(busy, Some(DpdkError::DeviceBusy(_))), "{busy:?}");
    assert!(io.is_up() && io.mac() == mac(1));
    let route = io.route(at(ip(false, 2), 4000)).expect("it is configured");
    // More packets than frames, so that the test would fail if any frame was lost.
    for _ in 0..10_000 {
        assert_eq!(io.transmit(&[TxPacket { route, head: &[1; 60], body: &[2; 900] }]), 1);
        assert_eq!(io.receive().frames().count(), 0, "it is for another address");
    }
    assert_eq!((io.dpdk_stats().rx_foreign, io.stats().rx_errors), (10_000, 0));
    // When the ring is full or no frame is free, packets are refused for lack of room.
    let train = [7; TX_BATCH_MAX * 60];
    let taken: usize = (0..100).map(|_| io.transmit_train(route, &train, 60)).sum();
    assert!(taken < 100 * TX_BATCH_MAX && io.stats().tx_full > 0, "{taken} taken");
    for _ in 0..1000 {
        io.receive();
    }
    assert_eq!(io.dpdk_stats().rx_foreign, 10_000 + taken as u64);
    assert_eq!(io.transmit_train(route, &train, 60), TX_BATCH_MAX);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let refusal = |address: SocketAddr, config: DpdkConfig| {
        DpdkIo::bind(address, &config).err().expect("it cannot be opened")
    };
    let own = at(ip(false, 1), 4000);
    let no_such = DpdkConfig { device: "net_nothing0".to_owned(), ..config(1) };
    let missing = refusal(own, no_such);
    assert!(matches!(missing, DpdkError::DeviceMissing { .. }), "{missing}");
    assert!(missing.to_string().contains("net_nothing0"), "{missing}");
    let ring = || DpdkConfig { device: unique("net_ring"), ..config(1) };
    for nowhere in ["0.0.0.0", "127.0.0.1", "[::]", "[::1]", "224.0.0.1"] {
        let address = format!("{nowhere}:4000").parse().unwrap();
        let nowhere = refusal(address, ring());
        assert!(matches!(nowhere, DpdkError::AddressUnspecific(_)), "{nowhere}");
    }
    let large = refusal(own, DpdkConfig { frames: 1 << 20, ..ring() });
    assert!(matches!(large, DpdkError::Memory { .. }), "{large}");
    let few = refusal(own, DpdkConfig { frames: 10, ..ring() });
    assert!(matches!(few, DpdkError::Config(_)), "{few}");
    let other = refusal(own, DpdkConfig { eal: vec!["--no-huge".to_owned()], ..ring() });
    assert!(matches!(other, DpdkError::OtherArguments { .. }), "{other}");
    // The failed attempts leave nothing behind.
    let device = unique("net_ring");
    let config = DpdkConfig { device, ..config(1) };
    for _ in 0..3 {
        DpdkIo::bind(own, &config).expect("it is free again");
    }
}
