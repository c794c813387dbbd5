//! What the UDP backend does beyond the contract that all backends share.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use petasos_netio::{Ecn, PacketIo, Route, RouteError, RxChunk, SetupError, TxPacket};
use petasos_netio_udp::{GsoSocket, UdpConfig, UdpIo};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn io(config: UdpConfig) -> UdpIo {
    UdpIo::bind(ANY_PORT, config).expect("loopback has a free port")
}

fn pair(config: UdpConfig) -> (UdpIo, UdpIo, Route) {
    let (mut from, to) = (io(config), io(config));
    let route = from.route(to.local_address()).expect("loopback is reachable");
    (from, to, route)
}

fn packets(route: Route, bytes: &[u8], count: usize) -> Vec<TxPacket<'_>> {
    vec![TxPacket { route, head: bytes, body: &[] }; count]
}

/// The chunks of the next batch that is not empty. On loopback that is the next one, usually.
fn chunks(io: &mut UdpIo) -> Vec<RxChunk> {
    for _ in 0..1_000_000 {
        let chunks = io.receive().chunks.to_vec();
        if !chunks.is_empty() {
            return chunks;
        }
        std::thread::yield_now();
    }
    panic!("nothing arrived");
}

#[test]
fn a_train_is_one_call_on_either_side() {
    let (mut from, mut to, route) = pair(UdpConfig::default());
    if !(from.gso() && to.gro()) {
        return petasos_skips::skip("gso", "the kernel lacks GSO or GRO");
    }
    assert_eq!(from.transmit(&packets(route, &[7; 56], 32)), 32);
    let received = chunks(&mut to);
    let expected = RxChunk { offset: 0, len: 32 * 56, segment_bytes: 56, ecn: Ecn::NotCapable };
    assert_eq!(received, [expected]);
    assert_eq!((from.stats().tx_syscalls, from.stats().tx_frames), (1, 32));
    assert_eq!(
        (to.stats().rx_syscalls - to.stats().rx_syscalls_empty, to.stats().rx_frames),
        (1, 32)
    );
}

#[test]
fn without_trains_a_batch_is_still_one_call() {
    let (mut from, mut to, route) =
        pair(UdpConfig { gso: false, gro: false, ..UdpConfig::default() });
    assert!(!from.gso() && !to.gro());
    assert_eq!(from.transmit(&packets(route, &[7; 56], 32)), 32);
    assert_eq!(from.stats().tx_syscalls, 1);
    let mut frames = 0;
    while frames < 32 {
        frames += chunks(&mut to).iter().inspect(|chunk| assert_eq!(chunk.len, 56)).count();
    }
    assert_eq!(frames, 32);
}

#[test]
fn ecn_bits_are_set_when_asked_for_and_read() {
    for (ecn_capable, expected) in [(false, Ecn::NotCapable), (true, Ecn::Capable0)] {
        let (mut from, mut to, route) = pair(UdpConfig { ecn_capable, ..UdpConfig::default() });
        from.transmit(&packets(route, &[1; 10], 3));
        assert!(chunks(&mut to).iter().all(|chunk| chunk.ecn == expected));
    }
}

#[test]
fn the_descriptor_is_readable_when_frames_wait() {
    let (mut from, mut to, route) = pair(UdpConfig::default());
    let readable = |io: &UdpIo| {
        let fd = io.descriptor().expect("a socket has a descriptor").as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one `pollfd`, which outlives the call.
        unsafe { libc::poll(&raw mut poll, 1, 0) };
        poll.revents & libc::POLLIN != 0
    };
    assert!(!readable(&to));
    from.transmit(&packets(route, &[1; 10], 1));
    assert!((0..1_000_000).any(|_| readable(&to)));
    chunks(&mut to);
    assert!(!readable(&to));
}

#[test]
fn the_limit_is_the_path_or_the_configuration() {
    let limit = |datagram_bytes_max| {
        let (from, _, route) = pair(UdpConfig { datagram_bytes_max, ..UdpConfig::default() });
        from.datagram_bytes_max(route)
    };
    let loopback = GsoSocket::bind(ANY_PORT, 1 << 16).expect("loopback has a free port");
    let mtu = loopback.path_mtu(loopback.local_address()).expect("loopback is reachable");
    assert_eq!(limit(usize::MAX), mtu.min(65_535) - 28);
    assert_eq!(limit(1472), 1472);
    assert_eq!(limit(600), 600);
}

#[test]
fn the_longest_datagram_goes_through() {
    let (mut from, mut to, route) =
        pair(UdpConfig { datagram_bytes_max: usize::MAX, ..UdpConfig::default() });
    let bytes = vec![9; from.datagram_bytes_max(route)];
    from.transmit(&packets(route, &bytes, 2));
    let received: usize = (0..2).map(|_| chunks(&mut to).len()).sum();
    assert_eq!(received, 2);
    assert_eq!((from.stats().tx_frames, from.stats().tx_errors), (2, 0));
    assert_eq!((to.stats().rx_truncated, to.stats().rx_bytes), (0, 2 * bytes.len() as u64));
}

#[test]
fn an_address_in_use_or_of_another_host_is_named() {
    let first = io(UdpConfig::default());
    let taken = first.local_address();
    let again = UdpIo::bind(taken, UdpConfig::default()).err();
    assert!(matches!(again, Some(SetupError::AddressInUse(address)) if address == taken));
    // From the block reserved for documentation.
    let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
    let elsewhere = UdpIo::bind(foreign, UdpConfig::default()).err();
    assert!(matches!(elsewhere, Some(SetupError::AddressNotLocal(address)) if address == foreign));
}

#[test]
fn routes_that_cannot_work_are_refused() {
    let mut v4 = io(UdpConfig { routes_max: 1, ..UdpConfig::default() });
    let portless = v4.route(SocketAddr::from(([127, 0, 0, 1], 0)));
    assert!(matches!(portless, Err(RouteError::Unreachable(_))));
    v4.route(SocketAddr::from(([127, 0, 0, 1], 9))).expect("there is room for one");
    let second = v4.route(SocketAddr::from(([127, 0, 0, 1], 10)));
    assert!(matches!(second, Err(RouteError::TableFull)));
    let Ok(mut v6) = UdpIo::bind((Ipv6Addr::LOCALHOST, 0).into(), UdpConfig::default()) else {
        return petasos_skips::skip("ipv6", "in part: there is no IPv6");
    };
    let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 9));
    assert!(matches!(v6.route(mapped), Err(RouteError::WrongFamily(_))));
}

#[test]
fn released_indices_are_used_again_and_stray_packets_counted() {
    let (mut from, _to, route) = pair(UdpConfig::default());
    from.release_route(route);
    assert_eq!(from.transmit(&packets(route, &[1; 10], 2)), 2);
    assert_eq!((from.stats().tx_errors, from.stats().tx_frames), (2, 0));
    assert_eq!(from.datagram_bytes_max(route), 0);
    let other = from.route(SocketAddr::from(([127, 0, 0, 1], 9))).expect("loopback is reachable");
    assert_eq!(other, route);
}

#[test]
fn a_wildcard_socket_is_reached_and_answers() {
    let wildcard = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut server = UdpIo::bind(wildcard, UdpConfig::default()).expect("there is a free port");
    let mut client = io(UdpConfig::default());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.local_address().port()));
    let to_server = client.route(address).expect("loopback is reachable");
    let to_client = server.route(client.local_address()).expect("loopback is reachable");
    client.transmit(&packets(to_server, &[1; 10], 1));
    chunks(&mut server);
    server.transmit(&packets(to_client, &[2; 10], 1));
    chunks(&mut client);
}

#[test]
fn a_dual_socket_reaches_both_families() {
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let config = UdpConfig { dual_stack: true, ..UdpConfig::default() };
    let Ok(mut dual) = UdpIo::bind(any, config) else {
        return petasos_skips::skip("ipv6", "there is no IPv6");
    };
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let address = loopback.parse().expect("an address");
        let mut peer = UdpIo::bind(address, UdpConfig::default()).expect("loopback has ports");
        let route = dual.route(peer.local_address()).expect("loopback is reachable");
        assert_eq!(dual.transmit(&packets(route, &[7; 56], 2)), 2);
        assert_eq!(chunks(&mut peer).iter().map(|chunk| chunk.len).sum::<u32>(), 112);
        let back = SocketAddr::new(address.ip(), dual.local_address().port());
        let back = peer.route(back).expect("loopback is reachable");
        assert_eq!(peer.transmit(&packets(back, &[8; 40], 1)), 1);
        assert_eq!(chunks(&mut dual)[0].len, 40, "{loopback}");
    }
}

#[test]
fn a_socket_on_the_loopback_interface_hears_this_host() {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let config = UdpConfig { loopback_only: true, ..UdpConfig::default() };
    let mut io = UdpIo::bind(any, config).expect("a kernel since 5.7");
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, io.local_address().port()));
    let peer = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has ports");
    peer.send_to(b"x", to).expect("loopback takes it");
    while !io.receive().frames().any(|frame| frame.bytes == b"x") {}
}

/// After trains of one length for long, the socket cuts by itself; nothing else may be cut so.
#[test]
fn trains_of_one_length_for_long_leave_other_packets_whole() {
    let (mut from, mut to, route) = pair(UdpConfig::default());
    let expect = |to: &mut UdpIo, lens: &[usize]| {
        let mut got = Vec::new();
        while got.len() < lens.len() {
            got.extend(to.receive().frames().map(|frame| frame.bytes.len()));
        }
        assert_eq!(got, lens);
    };
    for _ in 0..200 {
        assert_eq!(from.transmit(&packets(route, &[1; 56], 8)), 8);
        expect(&mut to, &[56; 8]);
    }
    for round in 0..100 {
        for len in [30, 56, 57, 600, 1400] {
            assert_eq!(from.transmit(&packets(route, &vec![2; len], 1)), 1);
            expect(&mut to, &[len]);
        }
        assert_eq!(from.transmit_train(route, &[3; 56 * 4 + 9], 56), 5);
        expect(&mut to, &[56, 56, 56, 56, 9]);
        assert_eq!(from.transmit(&packets(route, &[4; 100], 3)), 3, "round {round}");
        expect(&mut to, &[100; 3]);
    }
    // Several messages in one call: to two peers, short, long, and trains of two lengths.
    let mut other = io(UdpConfig::default());
    let second = from.route(other.local_address()).expect("loopback is reachable");
    for _ in 0..200 {
        from.transmit(&packets(route, &[1; 56], 8));
        expect(&mut to, &[56; 8]);
    }
    let (short, long) = ([5; 56], vec![6; 1000]);
    let mut batch = packets(route, &short, 4);
    batch.extend(packets(second, &long, 1));
    assert_eq!(from.transmit(&batch), 5);
    expect(&mut to, &[56; 4]);
    expect(&mut other, &[1000]);
}
