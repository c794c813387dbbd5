//! Peers that break the rules on purpose. Each costs a bounded amount, and others are served.

use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::common::{
    PATIENCE, caller, dialled, greeting_and, next, pass, port, port_in_time, record, say, send,
    until,
};
use petasos_netio::{Origin, PacketIo, RouteError, TxPacket};
use petasos_netio_conformance::turns;
use petasos_netio_tcp::record::{PREAMBLE, RECORD_BYTES_MAX, head};
use petasos_netio_tcp::{TcpConfig, TcpIo};

/// Whether the other end has closed the connection.
fn is_closed(mut stream: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is not zero");
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn a_record_that_is_never_finished_ends_its_connection() {
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let (stream, _) = dialled(&mut io);
    say(&stream, &[&PREAMBLE[..], &head(RECORD_BYTES_MAX, 1000), b"some"].concat());
    pass(&mut io, &clock, PATIENCE - Duration::from_nanos(1));
    // More bytes of the same record are no reason to wait longer.
    say(&stream, b"more");
    pass(&mut io, &clock, Duration::ZERO);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (1, 0));
    pass(&mut io, &clock, PATIENCE);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (0, 1));
    assert!(is_closed(&stream));
}

#[test]
fn a_peer_that_finishes_its_records_may_take_its_time() {
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let (stream, route) = dialled(&mut io);
    say(&stream, &greeting_and(b"one"));
    for _ in 0..5 {
        assert_eq!(next(&mut io), (b"one".to_vec(), io.origin(route)));
        let [first, second] = [&record(b"one")[..9], &record(b"one")[9..]].map(<[u8]>::to_vec);
        say(&stream, &first);
        pass(&mut io, &clock, PATIENCE - Duration::from_nanos(1));
        say(&stream, &second);
    }
    next(&mut io);
    pass(&mut io, &clock, 10 * PATIENCE);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (1, 0), "an idle peer owes nothing");
}

#[test]
fn a_stranger_that_says_nothing_is_given_up() {
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let stream = caller(&io);
    until(&mut io, |io| io.connections() == 1);
    pass(&mut io, &clock, PATIENCE - Duration::from_nanos(1));
    assert_eq!(io.connections(), 1);
    pass(&mut io, &clock, PATIENCE);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (0, 1));
    assert!(is_closed(&stream));
}

#[test]
fn strangers_make_room_for_each_other_and_for_peers() {
    let config = TcpConfig { strangers_max: 3, ..TcpConfig::default() };
    let (mut io, mut peer) = (port(config), port(TcpConfig::default()));
    let route = io.route(peer.local_address()).expect("it is on loopback");
    let to_io = peer.route(io.local_address()).expect("it is on loopback");
    let strangers: Vec<TcpStream> = (0..10).map(|_| caller(&io)).collect();
    until(&mut io, |io| io.tcp_stats().accepted == 10);
    assert_eq!((io.connections(), io.tcp_stats().strangers_closed), (3, 7));
    send(&mut peer, to_io, b"hello");
    assert_eq!(next(&mut io), (b"hello".to_vec(), io.origin(route)));
    assert_eq!(io.connections(), 4);
    assert!(is_closed(&strangers[0]));
    say(&strangers[9], &greeting_and(b"here"));
    assert_eq!(next(&mut io), (b"here".to_vec(), Origin::STRANGER));
}

#[test]
fn a_peer_that_reads_nothing_delays_no_other_and_is_given_up() {
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let (stream, deaf) = dialled(&mut io);
    let mut peer = port(TcpConfig::default());
    let route = io.route(peer.local_address()).expect("it is on loopback");
    let bytes = vec![7; 60_000];
    let packet = TxPacket { route: deaf, head: &bytes, body: &[] };
    let taken = turns().take_while(|_| io.transmit(&[packet]) == 1).count();
    assert!(taken > 0 && io.stats().tx_full == 1, "the socket is full");
    assert!(io.waits_alone(deaf) && !io.holds_back(deaf, route));
    send(&mut io, route, b"hello");
    assert_eq!(next(&mut peer).0, b"hello");
    pass(&mut io, &clock, Duration::ZERO);
    pass(&mut io, &clock, PATIENCE);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (1, 1));
    drop(stream);
}

#[test]
fn what_breaks_the_protocol_ends_its_own_connection_only() {
    let mut io = port(TcpConfig::default());
    let mut peer = port(TcpConfig::default());
    let to_io = peer.route(io.local_address()).expect("it is on loopback");
    let impossible = [&greeting_and(b"good")[..], &head(1, 1), b"x", &[0; 8]].concat();
    for (bytes, frames) in
        [(&b"GET / HTTP/1.1\r\n"[..], 0), (b"\x16\x03\x01\x02\x00", 0), (&impossible, 2)]
    {
        let (stream, before) = (caller(&io), (io.tcp_stats().malformed, io.stats().rx_frames));
        say(&stream, bytes);
        assert!(turns().any(|_| {
            let batch = io.receive();
            assert!(batch.origins.iter().all(|origin| *origin == Origin::STRANGER));
            io.tcp_stats().malformed > before.0
        }));
        assert_eq!(io.stats().rx_frames - before.1, frames, "what came before the flaw");
        assert!(is_closed(&stream));
        send(&mut peer, to_io, b"hello");
        assert_eq!(next(&mut io).0, b"hello");
    }
    assert_eq!(io.connections(), 1);
}

#[test]
fn nobody_speaks_for_another_address() {
    let mut io = port(TcpConfig::default());
    let peer = port(TcpConfig::default());
    let route = io.route(peer.local_address()).expect("it is on loopback");
    let stream = caller(&io);
    say(&stream, &greeting_and(b"I am somebody else"));
    let (_, origin) = next(&mut io);
    assert_eq!(origin, Origin::STRANGER);
    assert_ne!(origin, io.origin(route));
}

#[test]
fn an_address_in_use_is_nobody_elses() {
    let io = port(TcpConfig::default());
    let again = TcpIo::bind(io.local_address(), TcpConfig::default());
    assert!(matches!(again, Err(petasos_netio::SetupError::AddressInUse(_))));
}

#[test]
fn a_port_of_this_host_hears_nobody_else() {
    let Some(own) = own_address() else {
        return petasos_skips::skip("address", "this host has no address besides loopback");
    };
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let config = TcpConfig { loopback_only: true, ..TcpConfig::default() };
    let mut io = TcpIo::bind(everywhere, config).expect("there are ports");
    let far = io.route(SocketAddr::from(([192, 0, 2, 1], 9)));
    assert!(matches!(far, Err(RouteError::Unreachable(_))));
    let at = SocketAddr::new(own, io.local_address().port());
    let stream = TcpStream::connect(at).expect("the kernel accepts it");
    until(&mut io, |io| io.tcp_stats().foreign == 1);
    assert!(is_closed(&stream));
}

/// An address of this host that is not of loopback.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[test]
fn a_peer_that_never_answers_is_not_dialled_for_long() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let deaf = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&deaf, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has ports");
    listen(&deaf, 0).expect("it is bound");
    let at = SocketAddr::try_from(getsockname(&deaf).expect("it is bound")).expect("of IPv4");
    // Its queue is full then, and the kernel drops what else asks for a connection.
    let _first = TcpStream::connect(at).expect("there is room for one");
    let (mut io, clock) = port_in_time(TcpConfig::default());
    let route = io.route(at).expect("it is on loopback");
    let packet = TxPacket { route, head: b"waits", body: &[] };
    assert_eq!((io.transmit(&[packet]), io.connections()), (0, 1));
    let patience = TcpConfig::default().dial_patience;
    pass(&mut io, &clock, patience - Duration::from_nanos(1));
    assert_eq!((io.transmit(&[packet]), io.connections()), (0, 1));
    pass(&mut io, &clock, patience);
    assert_eq!((io.connections(), io.tcp_stats().given_up), (0, 1));
}
