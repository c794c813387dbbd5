//! Ports on loopback, with a clock that stands still, and peers that are plain sockets.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use petasos_base::{Clock, VirtualClock};
use petasos_netio::{Origin, PacketIo, Route, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_tcp::record::{PREAMBLE, head};
use petasos_netio_tcp::{TcpConfig, TcpIo};

pub const PATIENCE: Duration = Duration::from_secs(5);

pub fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

pub fn port(config: TcpConfig) -> TcpIo {
    TcpIo::bind(any_port(), config).expect("loopback has ports")
}

/// A port whose time is that of the returned clock.
pub fn port_in_time(config: TcpConfig) -> (TcpIo, VirtualClock) {
    let clock = VirtualClock::default();
    let config = TcpConfig { patience: PATIENCE, ..config };
    let io = TcpIo::bind_with_clock(any_port(), config, Clock::Virtual(clock.clone()));
    (io.expect("loopback has ports"), clock)
}

/// Lets time pass, and a loop that sleeps wake up.
pub fn pass(io: &mut TcpIo, clock: &VirtualClock, time: Duration) {
    clock.set(clock.now() + time);
    io.prepare_to_sleep();
    io.receive();
}

/// A connection to `io` from an address of its own.
pub fn caller(io: &TcpIo) -> TcpStream {
    TcpStream::connect(io.local_address()).expect("it listens")
}

/// A peer that is a plain socket, dialled by `io`, and the route to it.
pub fn dialled(io: &mut TcpIo) -> (TcpStream, Route) {
    let listener = TcpListener::bind(any_port()).expect("loopback has ports");
    let route = io.route(listener.local_addr().expect("it is bound")).expect("it is on loopback");
    send(io, route, b"first");
    (listener.accept().expect("it was dialled").0, route)
}

/// The bytes of a record with one datagram.
pub fn record(datagram: &[u8]) -> Vec<u8> {
    [&head(datagram.len(), datagram.len())[..], datagram].concat()
}

/// What a peer says first, and then one datagram.
pub fn greeting_and(datagram: &[u8]) -> Vec<u8> {
    [&PREAMBLE[..], &record(datagram)].concat()
}

pub fn say(mut stream: &TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("the connection stands");
}

/// Sends a packet, whenever it is taken.
pub fn send(io: &mut TcpIo, route: Route, bytes: &[u8]) {
    let packet = TxPacket { route, head: bytes, body: &[] };
    assert!(turns().any(|_| io.transmit(&[packet]) == 1), "the packet was never taken");
}

/// The next frame, and where it comes from.
pub fn next(io: &mut TcpIo) -> (Vec<u8>, Origin) {
    for _ in turns() {
        let mut frames = io.receive().frames();
        if let Some(frame) = frames.next() {
            let bytes = frame.bytes.to_vec();
            return (bytes, frames.origin().expect("TCP tells where frames come from"));
        }
        std::thread::yield_now();
    }
    panic!("no frame arrived");
}

/// Receives until `condition` holds. There must be no frames.
pub fn until(io: &mut TcpIo, condition: impl Fn(&TcpIo) -> bool) {
    for _ in turns() {
        if condition(io) {
            return;
        }
        assert_eq!(io.receive().frames().count(), 0, "frames that nobody sent");
        std::thread::yield_now();
    }
    panic!("it never happened");
}
