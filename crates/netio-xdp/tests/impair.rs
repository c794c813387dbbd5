//! What an impaired port does to the packets of kernel sockets.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use petasos_netio_xdp::{Impair, ImpairConfig, ImpairError};
use rustix::net::sockopt;

mod rig;
use rig::Pair;

const PAYLOAD_BYTES: usize = 958;
/// What a packet counts for: the payload, and the headers of UDP, IPv4 and Ethernet.
const PACKET_BYTES: u64 = 1000;
const PACKETS: u64 = 2000;
const ECN_CAPABLE: u8 = 2;

const OPEN: ImpairConfig =
    ImpairConfig { queue_bytes_max: 1 << 30, mark_above_bytes: None, loss: 0.0 };

/// A port before the right host, and a socket on either side.
struct Rig {
    pair: Pair,
    port: Impair,
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Rig {
    fn new(config: &ImpairConfig) -> Rig {
        let pair = Pair::new();
        let bind = |number| UdpSocket::bind(rig::any_port(rig::v4(number))).expect("it is free");
        let (sender, receiver) = (pair.left.run(|| bind(1)), pair.right.run(|| bind(2)));
        sender.connect(receiver.local_addr().expect("bound")).expect("it has a route");
        receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
        // The first packet waits until ARP knows the neighbour, so the port would not have decided
        // about it when it is sent.
        sender.send(&[7]).expect("it is queued");
        receiver.recv(&mut [0; 1]).expect("the neighbour is known");
        let port = pair.left.run(|| Impair::new("v0", config)).expect("the kernel is recent");
        Rig { pair, port, sender, receiver }
    }

    fn add_exit(&mut self) {
        let Rig { pair, port, .. } = self;
        pair.right.run(|| port.add_exit("v1")).expect("the kernel is recent");
    }

    /// Sends one packet; the port has decided about it when this returns.
    fn send(&self) {
        // The kernel tells the sender of a packet that is dropped before its queue.
        match self.sender.send(&[7; PAYLOAD_BYTES]) {
            Ok(bytes) => assert_eq!(bytes, PAYLOAD_BYTES),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOBUFS), "{error}"),
        }
    }

    /// Receives what has come through.
    fn receive(&self, packets: u64) {
        let mut buffer = [0; 2 * PAYLOAD_BYTES];
        for _ in 0..packets {
            let bytes = self.receiver.recv(&mut buffer).expect("it has been let through");
            assert_eq!(buffer[..bytes], [7; PAYLOAD_BYTES]);
        }
    }

    fn is_drained(&self) -> bool {
        self.receiver.set_nonblocking(true).expect("it is a socket");
        let error = self.receiver.recv(&mut [0; 1]).expect_err("nothing more has come through");
        error.kind() == ErrorKind::WouldBlock
    }
}

#[test]
fn what_is_lost_and_what_passes_adds_up() {
    if !rig::available() {
        return;
    }
    let mut rig = Rig::new(&ImpairConfig { loss: 0.25, ..OPEN });
    rig.add_exit();
    let mut passed = 0;
    for _ in 0..PACKETS {
        rig.send();
        // One by one, since the socket's buffer is small.
        let entered = rig.port.stats().expect("the map is there").entered;
        rig.receive(entered - passed);
        passed = entered;
    }
    let stats = rig.port.stats().expect("the map is there");
    assert_eq!((stats.offered, stats.lost + stats.entered), (PACKETS, PACKETS), "{stats:?}");
    assert_eq!((stats.overflowed, stats.marked), (0, 0), "{stats:?}");
    // Sixteen standard deviations on either side.
    assert!((PACKETS / 4).abs_diff(stats.lost) < 310, "{stats:?}");
    assert_eq!((stats.left, stats.left_bytes), (passed, PACKET_BYTES * passed), "{stats:?}");
    assert_eq!((stats.entered_bytes, stats.queued_bytes()), (stats.left_bytes, 0), "{stats:?}");
    assert!(rig.is_drained());
}

#[test]
fn a_queue_takes_what_fits_and_is_emptied_by_the_exit() {
    if !rig::available() {
        return;
    }
    let rig = Rig::new(&ImpairConfig { queue_bytes_max: 3 * PACKET_BYTES as u32, ..OPEN });
    // Without an exit nothing leaves, as far as the port can tell.
    (0..5).for_each(|_| rig.send());
    let stats = rig.port.stats().expect("the map is there");
    assert_eq!((stats.entered, stats.overflowed), (3, 2), "{stats:?}");
    assert_eq!(stats.queued_bytes(), 3 * PACKET_BYTES);
    rig.receive(3);
    assert!(rig.is_drained());
    let mut rig = Rig::new(&ImpairConfig { queue_bytes_max: 3 * PACKET_BYTES as u32, ..OPEN });
    rig.add_exit();
    for _ in 0..100 {
        rig.send();
        rig.receive(1);
    }
    let stats = rig.port.stats().expect("the map is there");
    assert_eq!((stats.entered, stats.left, stats.overflowed), (100, 100, 0), "{stats:?}");
}

#[test]
fn a_long_queue_marks_packets_that_understand_marks() {
    if !rig::available() {
        return;
    }
    let above = Some(2 * PACKET_BYTES as u32);
    let rig = Rig::new(&ImpairConfig { mark_above_bytes: above, ..OPEN });
    (0..5).for_each(|_| rig.send());
    assert_eq!(rig.port.stats().expect("the map is there").marked, 0);
    sockopt::set_ip_tos(&rig.sender, ECN_CAPABLE).expect("it is an IPv4 socket");
    (0..5).for_each(|_| rig.send());
    let stats = rig.port.stats().expect("the map is there");
    assert_eq!((stats.entered, stats.marked), (10, 5), "{stats:?}");
    let rig = Rig::new(&ImpairConfig { mark_above_bytes: above, ..OPEN });
    sockopt::set_ip_tos(&rig.sender, ECN_CAPABLE).expect("it is an IPv4 socket");
    (0..5).for_each(|_| rig.send());
    let stats = rig.port.stats().expect("the map is there");
    assert_eq!((stats.entered, stats.marked), (5, 3), "the third is above: {stats:?}");
}

#[test]
fn a_dropped_port_lets_everything_pass() {
    if !rig::available() {
        return;
    }
    let rig = Rig::new(&ImpairConfig { loss: 1.0, ..OPEN });
    rig.send();
    assert_eq!(rig.port.stats().expect("the map is there").lost, 1);
    assert!(rig.is_drained());
    let Rig { pair, port, sender, receiver } = rig;
    drop(port);
    sender.send(&[8; 10]).expect("nothing is in its way");
    receiver.set_nonblocking(false).expect("it is a socket");
    assert_eq!(receiver.recv(&mut [0; 10]).expect("it passes"), 10);
    let missing = pair.left.run(|| Impair::new("none0", &OPEN)).expect_err("it does not exist");
    assert!(matches!(missing, ImpairError::InterfaceMissing(name) if name == "none0"));
}
