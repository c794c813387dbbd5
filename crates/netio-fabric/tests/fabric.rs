//! Failing set-up, kernel peers, damage, full queues, and sleeping.
#![cfg(feature = "fabric")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use petasos_netio::{PacketIo, RouteError, TX_BATCH_MAX, TxPacket};
use petasos_netio_fabric::{FabricConfig, FabricError, FabricIo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn udp() -> FabricConfig {
    FabricConfig { provider: Some("udp".to_owned()), ..FabricConfig::default() }
}

fn open(config: &FabricConfig) -> FabricIo {
    FabricIo::bind(any_port(), config).expect("loopback has free ports")
}

fn refusal(address: &str, config: &FabricConfig) -> FabricError {
    let address = address.parse().expect("an address");
    FabricIo::bind(address, config).err().expect("it cannot be opened")
}

/// Receives until `count` frames have come or a million turns have brought nothing new.
fn receive(io: &mut FabricIo, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut idle = 0;
    while frames.len() < count && idle < 1_000_000 {
        let before = frames.len();
        frames.extend(io.receive().frames().map(|frame| frame.bytes.to_vec()));
        idle = if frames.len() > before { 0 } else { idle + 1 };
    }
    frames
}

#[test]
fn an_address_that_cannot_be_had_is_refused_with_the_reason() {
    let first = open(&udp());
    let taken = first.local_address();
    let again = FabricIo::bind(taken, &udp()).err().expect("the port is taken");
    assert!(matches!(again, FabricError::AddressInUse(address) if address == taken), "{again}");
    let foreign = refusal("192.0.2.200:0", &udp());
    assert!(matches!(foreign, FabricError::AddressNotLocal(_)), "{foreign}");
    let unspecific = refusal("0.0.0.0:0", &udp());
    assert!(matches!(unspecific, FabricError::AddressUnspecific(_)), "{unspecific}");
}

#[test]
fn a_provider_or_domain_that_is_not_there_is_named() {
    for provider in ["no-such-provider", "verbs"] {
        let config = FabricConfig { provider: Some(provider.to_owned()), ..udp() };
        let missing = refusal("127.0.0.1:0", &config);
        assert!(matches!(missing, FabricError::ProviderMissing { .. }), "{missing}");
        assert!(missing.to_string().contains(provider), "{missing}");
    }
    let config = FabricConfig { domain: Some("no-such-nic".to_owned()), ..udp() };
    let missing = refusal("127.0.0.1:0", &config);
    assert!(matches!(missing, FabricError::ProviderMissing { .. }), "{missing}");
    assert!(missing.to_string().contains("with a domain no-such-nic"), "{missing}");
    open(&FabricConfig { domain: Some("lo".to_owned()), ..udp() });
}

#[test]
fn impossible_configurations_are_refused() {
    for config in [
        FabricConfig { rx_slots: 0, ..udp() },
        FabricConfig { tx_slots: 0, ..udp() },
        FabricConfig { datagram_bytes_max: 0, ..udp() },
        FabricConfig { provider: Some("u\0p".to_owned()), ..udp() },
    ] {
        let refused = refusal("127.0.0.1:0", &config);
        assert!(matches!(refused, FabricError::Config(_)), "{refused}");
    }
}

/// Libraries below libfabric catch signals when they are loaded; then the process could not end in
/// order.
#[test]
fn signals_are_the_programs_own() {
    open(&udp());
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let (interrupt, abort, terminate) = (2, 6, 15);
    for signal in [interrupt, abort, terminate] {
        assert_eq!(caught.expect("it is a number") >> (signal - 1) & 1, 0, "signal {signal}");
    }
}

#[test]
fn the_route_table_has_a_limit() {
    let mut io = open(&FabricConfig { routes_max: 1, ..udp() });
    let route = io.route("127.0.0.1:9".parse().unwrap()).expect("there is room");
    let full = io.route("127.0.0.1:10".parse().unwrap());
    assert!(matches!(full, Err(RouteError::TableFull)));
    io.release_route(route);
    assert_eq!(io.datagram_bytes_max(route), 0);
    assert_eq!(io.transmit(&[TxPacket { route, head: b"late", body: &[] }]), 1);
    assert_eq!((io.stats().tx_errors, io.stats().tx_frames), (1, 0));
    io.route("127.0.0.1:10".parse().unwrap()).expect("there is room again");
}

/// On the wire, the `udp` provider uses plain UDP.
#[test]
fn a_kernel_socket_is_a_peer() {
    let mut io = open(&udp());
    let socket = UdpSocket::bind(any_port()).expect("loopback has free ports");
    let route = io.route(socket.local_addr().unwrap()).expect("loopback is reachable");
    assert_eq!(io.transmit(&[TxPacket { route, head: b"he", body: b"llo" }]), 1);
    let mut buffer = [0; 100];
    let (len, from) = socket.recv_from(&mut buffer).expect("it was sent");
    assert_eq!((&buffer[..len], from), (&b"hello"[..], io.local_address()));
    socket.send_to(b"back", io.local_address()).expect("loopback is reachable");
    assert_eq!(receive(&mut io, 1), [b"back".to_vec()]);
}

#[test]
fn datagrams_that_do_not_fit_and_empty_ones_are_dropped_and_counted() {
    let mut io = open(&udp());
    let socket = UdpSocket::bind(any_port()).expect("loopback has free ports");
    let limit = 1472;
    for len in [limit + 1, 0, 9000, limit] {
        socket.send_to(&vec![7; len], io.local_address()).expect("loopback takes any length");
    }
    assert_eq!(receive(&mut io, 1), [vec![7; limit]]);
    assert_eq!((io.stats().rx_truncated, io.fabric_stats().rx_empty), (2, 1));
    assert_eq!(io.stats().rx_frames, 1);
}

/// Sends more than the receiver holds: each accepted packet arrives whole or is lost in the kernel.
#[test]
fn a_peer_that_stops_reading_stops_nobody() {
    let mut from = open(&FabricConfig { tx_slots: 4, inject_bytes_max: 0, ..udp() });
    let mut to = open(&FabricConfig { rx_slots: 8, ..udp() });
    let route = from.route(to.local_address()).expect("loopback is reachable");
    let bytes = [3; 1000];
    let packets = [TxPacket { route, head: &bytes, body: &[] }; TX_BATCH_MAX];
    for _ in 0..100 {
        from.transmit(&packets);
    }
    assert_eq!(from.stats().tx_frames + from.stats().tx_errors, 6400);
    let arrived = receive(&mut to, usize::MAX);
    assert!((1..6400).contains(&arrived.len()), "{} arrived", arrived.len());
    assert!(arrived.iter().all(|frame| frame[..] == bytes));
    assert!(from.fabric_stats().tx_completions >= 6400 - 4 * 2);
    from.transmit(&packets[..1]);
    assert_eq!(receive(&mut to, 1).len(), 1, "the port works as before");
}

#[test]
fn a_sleeper_is_woken_by_a_packet() {
    let (mut from, mut to) = (open(&udp()), open(&udp()));
    let route = from.route(to.local_address()).expect("loopback is reachable");
    let waits = |io: &FabricIo, timeout_s: i64| {
        let fd = io.descriptor().expect("the provider has one");
        let timeout = Timespec { tv_sec: timeout_s, tv_nsec: 0 };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).expect("it can be polled") == 0
    };
    for _ in 0..3 {
        assert!(to.receive().frames().next().is_none());
        assert!(to.prepare_to_sleep(), "nothing has come");
        assert!(waits(&to, 0), "nothing makes the descriptor readable");
        from.transmit(&[TxPacket { route, head: b"wake up", body: &[] }]);
        assert!(!waits(&to, 60), "a packet wakes");
        assert_eq!(receive(&mut to, 1).len(), 1);
    }
    assert!(open(&FabricConfig { wakeups: false, ..udp() }).descriptor().is_none());
}
