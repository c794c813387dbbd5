//! Failing set-up, kernel peers, damage, full queues, and sleeping.
#![cfg(feature = "fabric")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use petasos_netio::{PacketIo, RouteError, Switch, TX_BATCH_MAX, TxPacket};
use petasos_netio_fabric::message::{Writer, records};
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

/// A message with these packets.
fn message(packets: &[&[u8]]) -> Vec<u8> {
    let (mut writer, mut memory) = (Writer::default(), vec![0; 16 << 10]);
    packets.iter().for_each(|packet| writer.push(&mut memory, [packet, &[]]));
    memory.truncate(writer.len());
    memory
}

/// The packets of a message.
fn packets(message: &[u8]) -> Vec<Vec<u8>> {
    let record = |record| {
        let petasos_netio_fabric::message::Record { offset, len, segment_bytes } = record;
        message[offset..offset + len].chunks(segment_bytes).map(<[u8]>::to_vec)
    };
    records(message).flat_map(|one| record(one.expect("it is well formed"))).collect()
}

/// What a socket receives next.
fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let len = socket.recv(&mut buffer).expect("something was sent");
    buffer[..len].to_vec()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(any_port()).expect("loopback has free ports");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("it is not zero");
    socket
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
    assert_eq!((&buffer[..len], from), (&message(&[b"hello"])[..], io.local_address()));
    let back = message(&[b"back", b"and", b"forth"]);
    socket.send_to(&back, io.local_address()).expect("loopback is reachable");
    assert_eq!(receive(&mut io, 3), [&b"back"[..], b"and", b"forth"]);
    assert_eq!((io.fabric_stats().rx_messages, io.stats().rx_frames), (1, 3));
}

/// Packets of sessions, calls and applications to two peers, as one turn of a loop sends them.
#[test]
fn w34_packets_of_a_batch_to_one_peer_share_messages() {
    let fusing = Switch::default();
    let mut io = open(&FabricConfig { fusing: fusing.clone(), ..udp() });
    let [one, other] = [socket(), socket()];
    let [to_one, to_other] =
        [&one, &other].map(|at| io.route(at.local_addr().unwrap()).expect("it is reachable"));
    let large = [9; 1000];
    let batch = |io: &mut FabricIo| {
        io.begin_batch();
        // The keys of two calls, a tensor and a length; between them what is for another peer.
        assert_eq!(io.transmit_train(to_one, b"key-key+", 4), 2);
        let packet = |route, body| TxPacket { route, head: b"head", body };
        let packets =
            [packet(to_other, &b"x"[..]), packet(to_one, &large), packet(to_other, b"yz")];
        assert_eq!(io.transmit(&packets), 3);
        assert_eq!(io.transmit_train(to_one, b"len", 3), 1);
        io.end_batch();
    };
    batch(&mut io);
    let tensor = [b"head", &large[..]].concat();
    let to_first = [&b"key-"[..], b"key+", &tensor, b"len"];
    assert_eq!(packets(&received(&one)), to_first);
    assert_eq!(packets(&received(&other)), [&b"headx"[..], b"headyz"]);
    let stats = io.fabric_stats();
    assert_eq!((stats.tx_messages, stats.tx_fused, io.stats().tx_frames), (2, 6, 6));
    fusing.set(false);
    batch(&mut io);
    let each: Vec<_> = to_first.iter().map(|_| packets(&received(&one))).collect();
    assert_eq!(each, to_first.map(|packet| vec![packet.to_vec()]));
    let stats = io.fabric_stats();
    assert_eq!((stats.tx_messages, stats.tx_fused, io.stats().tx_frames), (8, 6, 12));
}

/// What set-up has agreed on holds for packets. Longer messages may not reach the peer.
#[test]
fn on_a_doubted_path_each_packet_has_its_own_message() {
    let mut io = open(&udp());
    let peer = socket();
    let route = io.route(peer.local_addr().unwrap()).expect("it is reachable");
    let two = [TxPacket { route, head: b"one", body: &[] }; 2];
    let messages = |io: &mut FabricIo| {
        let before = io.fabric_stats().tx_messages;
        assert_eq!(io.transmit(&two), 2);
        io.fabric_stats().tx_messages - before
    };
    assert_eq!(messages(&mut io), 1);
    io.doubt_path(route);
    assert_eq!(messages(&mut io), 2);
    io.trust_paths();
    assert_eq!(messages(&mut io), 1);
}

#[test]
fn w34_malformed_messages_are_dropped_whole_and_counted() {
    let mut io = open(&udp());
    let peer = socket();
    let good = message(&[b"good", b"one"]);
    let mut long = good.clone();
    long[0] = 200;
    let cut = &good[..good.len() - 1];
    let bare = b"GET / HTTP/1.1";
    let crowded = [&[65, 0, 1, 0][..], &[7; 65]].concat();
    for bytes in [&long, cut, bare, &crowded, &[1, 0][..], &good] {
        peer.send_to(bytes, io.local_address()).expect("loopback is reachable");
    }
    assert_eq!(receive(&mut io, 2), [&b"good"[..], b"one"]);
    assert_eq!((io.fabric_stats().rx_malformed, io.fabric_stats().rx_messages), (5, 1));
    assert_eq!((io.stats().rx_frames, io.stats().rx_bytes), (2, 7));
}

/// Nothing of a message outlives the route to its peer.
#[test]
fn a_route_may_be_released_within_a_batch() {
    let mut io = open(&udp());
    let peer = socket();
    let route = io.route(peer.local_addr().unwrap()).expect("it is reachable");
    io.begin_batch();
    assert_eq!(io.transmit(&[TxPacket { route, head: b"last", body: &[] }]), 1);
    io.release_route(route);
    assert_eq!(io.transmit(&[TxPacket { route, head: b"late", body: &[] }]), 1);
    io.end_batch();
    assert_eq!((io.stats().tx_frames, io.stats().tx_errors), (1, 1));
    assert_eq!(packets(&received(&peer)), [b"last"]);
}

#[test]
fn messages_that_do_not_fit_and_empty_ones_are_dropped_and_counted() {
    let mut io = open(&udp());
    let socket = UdpSocket::bind(any_port()).expect("loopback has free ports");
    let packet = vec![7; io.payload_bytes_max()];
    let longest = message(&[&packet]);
    assert_eq!(longest.len(), 1472);
    for bytes in [&[7; 1473][..], &[], &[7; 9000], &longest] {
        socket.send_to(bytes, io.local_address()).expect("loopback takes any length");
    }
    assert_eq!(receive(&mut io, 1), [packet]);
    assert_eq!((io.stats().rx_truncated, io.fabric_stats().rx_empty), (2, 1));
    assert_eq!(io.stats().rx_frames, 1);
}

/// Sends more than the receiver holds: each accepted packet arrives whole or is lost in the kernel.
#[test]
fn a_peer_that_stops_reading_stops_nobody() {
    let fusing = Switch::new(false);
    let mut from = open(&FabricConfig { tx_slots: 4, inject_bytes_max: 0, fusing, ..udp() });
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
