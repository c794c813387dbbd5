//! Kernel sockets and the backend understand each other, in both directions and families.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use petasos_netio::{Ecn, PacketIo, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_xdp::{AttachMode, XdpConfig, XdpIo};

mod rig;
use rig::Pair;

/// How many datagrams are sent until one must have arrived, and how long each is given: the
/// interface may be down for seconds.
const ATTEMPTS_MAX: usize = 400;
const TURNS_PER_ATTEMPT: usize = 10_000;
const PATIENCE: Duration = Duration::from_millis(25);

/// A backend on the right and a kernel socket on the left.
fn ends(pair: &Pair, host: fn(u8) -> IpAddr, config: &XdpConfig) -> (UdpSocket, XdpIo) {
    let bind = || UdpSocket::bind(rig::any_port(host(1)));
    let socket = pair.left.run(bind).expect("the address is there");
    socket.set_nonblocking(true).expect("sockets can");
    let config = XdpConfig { resolve_wait_ms: 10_000, ..config.clone() };
    let io = pair.right.run(|| XdpIo::bind(rig::any_port(host(2)), &config));
    (socket, io.expect("a fresh interface is free"))
}

/// Waits for the next frame: its bytes and marks. `None` if none comes.
fn next_frame(io: &mut XdpIo, mut turns: impl Iterator<Item = u64>) -> Option<(Vec<u8>, Ecn)> {
    turns.find_map(|_| {
        let frame = io.receive().frames().next().map(|frame| (frame.bytes.to_vec(), frame.ecn));
        std::thread::yield_now();
        frame
    })
}

/// Sends a datagram until one with `bytes` has arrived: attaching a program to an interface, as the
/// watcher does, may cost it what is under way.
fn insist(io: &mut XdpIo, bytes: &[u8], mut send: impl FnMut()) -> Ecn {
    for _ in 0..ATTEMPTS_MAX {
        send();
        for _ in 0..TURNS_PER_ATTEMPT {
            if let Some(frame) = io.receive().frames().find(|frame| frame.bytes == bytes) {
                return frame.ecn;
            }
            std::thread::yield_now();
        }
        std::thread::sleep(PATIENCE);
    }
    panic!("none of {ATTEMPTS_MAX} datagrams has arrived");
}

fn next_datagram(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    for _ in turns() {
        if let Ok((len, source)) = socket.recv_from(&mut buffer) {
            return (buffer[..len].to_vec(), source);
        }
        std::thread::yield_now();
    }
    panic!("no datagram arrived");
}

/// Marks what the socket sends.
fn mark(socket: &UdpSocket, ecn: Ecn) {
    let value = ecn as i32;
    let (level, option) = match socket.local_addr().expect("it is bound") {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    // SAFETY: the option is an int, which outlives the call.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4)
    };
    assert_eq!(set, 0);
}

fn send(io: &mut XdpIo, peer: SocketAddr, bytes: &[u8]) {
    let route = io.route(peer).expect("the peer is on the link");
    let packet = TxPacket { route, head: &bytes[..1], body: &bytes[1..] };
    assert_eq!(io.transmit(&[packet]), 1);
}

#[test]
fn datagrams_pass_in_both_directions() {
    if !rig::available() {
        return;
    }
    for attach in [AttachMode::Native, AttachMode::Generic] {
        let pair = Pair::new();
        pair.left.set_checksum_offload("v0", false);
        for host in [rig::v4 as fn(u8) -> IpAddr, rig::v6] {
            let (socket, mut io) = ends(&pair, host, &XdpConfig { attach, ..XdpConfig::default() });
            let (here, there) = (socket.local_addr().expect("bound"), io.local_address());
            for len in [1, 2, 63, 1000, 1452] {
                let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
                send(&mut io, here, &bytes);
                assert_eq!(next_datagram(&socket), (bytes.clone(), there));
                socket.send_to(&bytes, there).expect("the peer is on the link");
                let frame = next_frame(&mut io, turns()).expect("it arrives");
                assert_eq!(frame, (bytes, Ecn::NotCapable));
            }
            assert_eq!(io.stats().rx_errors, 0, "{:?}", io.xdp_stats());
        }
    }
}

#[test]
fn marks_are_read_and_set() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    pair.left.set_checksum_offload("v0", false);
    for host in [rig::v4 as fn(u8) -> IpAddr, rig::v6] {
        let (socket, mut io) = ends(&pair, host, &XdpConfig::default());
        let there = io.local_address();
        let watcher = pair.left.run(|| XdpIo::bind(rig::any_port(host(1)), &XdpConfig::default()));
        let mut watcher = watcher.expect("a fresh interface is free");
        for ecn in [Ecn::Capable1, Ecn::Capable0, Ecn::CongestionExperienced, Ecn::NotCapable] {
            mark(&socket, ecn);
            let bytes = format!("marked {ecn:?}").into_bytes();
            let arrived = insist(&mut io, &bytes, || {
                socket.send_to(&bytes, there).expect("the peer is on the link");
            });
            assert_eq!(arrived, ecn);
            io.set_ecn(ecn);
            let back = watcher.local_address();
            assert_eq!(insist(&mut watcher, &bytes, || send(&mut io, back, &bytes)), ecn);
        }
    }
}

#[test]
fn partial_checksums_of_a_virtual_interface_are_a_matter_of_choice() {
    if !rig::available() {
        return;
    }
    for accepted in [false, true] {
        let pair = Pair::new();
        let config = XdpConfig { partial_checksums: accepted, ..XdpConfig::default() };
        let (socket, mut io) = ends(&pair, rig::v4, &config);
        // Checksum offload is on, so that the frame has a checksum that nobody completes.
        socket.send_to(b"partial", io.local_address()).expect("the peer is on the link");
        let arrived = turns().find_map(|_| {
            std::thread::yield_now();
            let frame = io.receive().frames().next().map(|frame| frame.bytes.to_vec());
            let refused = io.xdp_stats().rx_checksums > 0;
            (frame.is_some() || refused).then_some(frame)
        });
        let expected = accepted.then(|| b"partial".to_vec());
        assert_eq!(arrived.expect("it arrives"), expected);
    }
}

#[test]
fn other_traffic_stays_with_the_kernel() {
    if !rig::available() {
        return;
    }
    let pair = Pair::new();
    let (_, mut io) = ends(&pair, rig::v4, &XdpConfig::default());
    // Another port, another address with the same port, and TCP.
    pair.right.ip("addr add 10.77.0.9/24 dev v1");
    let port = io.local_address().port();
    let own = pair.right.run(|| UdpSocket::bind(rig::any_port(rig::v4(2)))).expect("free");
    let same = pair.right.run(|| UdpSocket::bind(SocketAddr::new(rig::v4(9), port))).expect("free");
    let client = pair.left.run(|| UdpSocket::bind(rig::any_port(rig::v4(1)))).expect("free");
    for server in [&own, &same] {
        server.set_nonblocking(true).expect("sockets can");
        client.send_to(b"kernel", server.local_addr().expect("bound")).expect("on the link");
        assert_eq!(next_datagram(server).0, b"kernel");
    }
    let listener = pair.right.run(|| std::net::TcpListener::bind(rig::any_port(rig::v4(2))));
    let listener = listener.expect("free");
    let address = listener.local_addr().expect("bound");
    pair.left.run(|| std::net::TcpStream::connect(address)).expect("TCP passes");
    assert_eq!(next_frame(&mut io, 0..100), None);
}
