//! The socket below the backend, as measurements use it.

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};

use petasos_netio_udp::{GsoSocket, Received};

fn bind() -> GsoSocket {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    GsoSocket::bind(address, 1 << 20).expect("loopback has a free port")
}

fn receive(socket: &GsoSocket, buffer: &mut [u8]) -> Received {
    for _ in 0..1_000_000 {
        if let Some(received) = socket.receive(buffer).expect("loopback does not fail") {
            return received;
        }
        std::thread::yield_now();
    }
    panic!("nothing arrived");
}

#[test]
fn a_train_from_several_pieces_arrives_with_its_source() {
    let (from, mut to) = (bind(), bind());
    if !(from.gso_supported() && to.gro()) {
        return petasos_skips::skip("gso", "the kernel lacks GSO or GRO");
    }
    let bytes: Vec<u8> = (0..250).collect();
    let pieces = [&bytes[..30], &bytes[30..130], &bytes[130..]].map(IoSlice::new);
    let mut buffer = vec![0; 65536];
    let sent = from.send(Some(to.local_address()), &pieces, Some(100)).expect("it fits");
    assert_eq!(sent, 250);
    let received = receive(&to, &mut buffer);
    assert_eq!((received.len, received.segment_bytes), (250, 100));
    assert_eq!((received.source, received.truncated), (from.local_address(), false));
    assert_eq!(buffer[..250], bytes);

    to.set_gro(false).expect("what could be turned on can be turned off");
    from.send(Some(to.local_address()), &pieces, Some(100)).expect("it fits");
    let lens = [0; 3].map(|_| receive(&to, &mut buffer).len);
    assert_eq!(lens, [100, 100, 50]);
}

#[test]
fn connected_sockets_need_no_destination_and_hear_of_a_dead_peer() {
    let (mut from, mut to) = (bind(), bind());
    from.connect(to.local_address()).expect("loopback is reachable");
    to.connect(from.local_address()).expect("loopback is reachable");
    let mut buffer = [0; 100];
    from.send(None, &[IoSlice::new(b"hello")], None).expect("loopback takes a datagram");
    let received = receive(&to, &mut buffer);
    assert_eq!((received.len, received.segment_bytes), (5, 5));
    assert_eq!(received.source, from.local_address());
    drop(to);
    from.send(None, &[IoSlice::new(b"hello")], None).expect("nobody knows yet");
    let refused = (0..1_000_000).find_map(|_| from.receive(&mut buffer).err());
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
}

#[test]
fn a_short_buffer_is_reported() {
    let (from, to) = (bind(), bind());
    from.send(Some(to.local_address()), &[IoSlice::new(&[1; 50])], None).expect("it fits");
    let received = receive(&to, &mut [0; 20]);
    assert_eq!((received.len, received.truncated), (20, true));
}

#[test]
fn what_no_ip_packet_holds_is_refused() {
    let (from, to) = (bind(), bind());
    let bytes = vec![0; 65_508];
    let refused = from.send(Some(to.local_address()), &[IoSlice::new(&bytes)], None);
    assert_eq!(refused.map_err(|error| error.raw_os_error()), Err(Some(libc::EMSGSIZE)));
}
