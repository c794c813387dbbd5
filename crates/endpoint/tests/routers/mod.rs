//! Two hosts with two routers between them, each a network namespace without a name:
//!
//! ```text
//! client  a0 ── r0  first  r1 ── s0  second  s1 ── b0  server
//! ```
//!
//! The link between the routers becomes narrow, as a tunnel does.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, socket,
};
use nix::unistd::Pid;

mod namespace;
pub use namespace::{Namespace, has_ipv6};

/// Of every link at first.
pub const MTU: u32 = 1500;

pub struct Routers {
    pub client: Namespace,
    pub first: Namespace,
    pub second: Namespace,
    pub server: Namespace,
}

impl Routers {
    /// The network, or `None` if this system gives none; the skip is recorded.
    pub fn new() -> Option<Routers> {
        let made = || {
            let (client, first) = (Namespace::new()?, Namespace::new()?);
            let (second, server) = (Namespace::new()?, Namespace::new()?);
            Ok::<_, nix::Error>(Routers { client, first, second, server })
        };
        let routers = made()
            .map_err(|error| petasos_skips::skip("root", format!("no network namespace: {error}")))
            .ok()?;
        routers.configure();
        Some(routers)
    }

    fn configure(&self) {
        let Routers { client, first, second, server } = self;
        let links = [
            (client, "a0", first, "r0"),
            (first, "r1", second, "s0"),
            (second, "s1", server, "b0"),
        ];
        for (number, (left, name, right, other)) in (1..).zip(links) {
            let path = right.path();
            left.ip(&format!("link add {name} type veth peer name {other} netns {path}"));
            for (side, name, host) in [(left, name, 1), (right, other, 2)] {
                side.ip(&format!("addr add 10.0.{number}.{host}/24 dev {name}"));
                if has_ipv6() {
                    side.ip(&format!("addr add fd00:{number}::{host}/64 dev {name} nodad"));
                }
                side.ask_neighbours_often(name);
                side.ip(&format!("link set {name} up"));
            }
        }
        for (side, destination, gateway) in [
            (client, "default", "10.0.1.2"),
            (first, "10.0.3.0/24", "10.0.2.2"),
            (second, "10.0.1.0/24", "10.0.2.1"),
            (server, "default", "10.0.3.1"),
            (client, "::/0", "fd00:1::2"),
            (first, "fd00:3::/64", "fd00:2::2"),
            (second, "fd00:1::/64", "fd00:2::1"),
            (server, "::/0", "fd00:3::1"),
        ] {
            if destination.contains("::") && !has_ipv6() {
                continue;
            }
            side.ip(&format!("route add {destination} via {gateway}"));
        }
    }

    /// Scouts between the two ends. They have gone both ways once, so that packets pass: interfaces
    /// take their time to come up.
    pub fn scouts(&self, v6: bool) -> Scouts {
        stay_on_one_processor();
        let [client, server] = Routers::addresses(v6);
        let bind = |ip| {
            let socket = UdpSocket::bind((ip, 0)).expect("the address is there");
            socket.set_read_timeout(Some(ASK_AGAIN_AFTER)).expect("it is not zero");
            socket
        };
        let client = self.client.run(|| bind(client));
        let server = self.server.run(|| bind(server));
        let mut scouts = Scouts { client, server, number: 0 };
        scouts.there_and_back();
        scouts
    }

    /// Addresses of client and server.
    pub fn addresses(v6: bool) -> [IpAddr; 2] {
        let [client, server] =
            if v6 { ["fd00:1::1", "fd00:3::2"] } else { ["10.0.1.1", "10.0.3.2"] };
        [client.parse().expect("it is one"), server.parse().expect("it is one")]
    }

    /// Sets the MTU of the link between the routers.
    pub fn narrow(&self, mtu: u32) {
        self.first.ip(&format!("link set r1 mtu {mtu}"));
        self.second.ip(&format!("link set s0 mtu {mtu}"));
    }

    /// Sets the MTU of the client's own link.
    pub fn narrow_client(&self, mtu: u32) {
        self.client.ip(&format!("link set a0 mtu {mtu}"));
        self.first.ip(&format!("link set r0 mtu {mtu}"));
    }

    /// How many fragments all four have made.
    pub fn fragments(&self) -> u64 {
        let all = [&self.client, &self.first, &self.second, &self.server];
        all.into_iter().map(Namespace::fragments).sum()
    }

    /// An attacker beside the client's network: tells the client that datagrams from its `port` do
    /// not reach the server unless they are shorter than `mtu` bytes. Only the client's port has to
    /// be known, or tried. It arrives before the next scout.
    pub fn forge_icmp(&self, v6: bool, port: u16, mtu: u16) {
        let [client, _] = Routers::addresses(v6);
        let (family, protocol) = match v6 {
            true => (AddressFamily::Inet6, SockProtocol::IcmpV6),
            false => (AddressFamily::Inet, SockProtocol::Icmp),
        };
        let message = if v6 { too_big(port, mtu) } else { fragmentation_needed(port, mtu) };
        self.first.run(|| {
            let raw = socket(family, SockType::Raw, SockFlag::empty(), protocol);
            let raw = raw.expect("a namespace of one's own allows raw sockets");
            let to = SockaddrStorage::from(SocketAddr::new(client, 0));
            sendto(raw.as_raw_fd(), &message, &to, MsgFlags::empty()).expect("it is sent");
        });
    }
}

/// Datagrams of the test's own from the client to the server and back. Whatever was sent before one
/// of them is no longer in the network when it arrives: a namespace hands packets to the next one
/// in the queue of the processor that sends, and this thread stays on one.
pub struct Scouts {
    client: UdpSocket,
    server: UdpSocket,
    /// Of the latest.
    number: u64,
}

/// When a scout counts as lost. If it was merely late, its copies are passed over.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Scouts {
    /// Waits until everything that was sent has arrived or is lost. For how long does not matter,
    /// and on a busy machine it can be long: the kernel may hand packets on in a thread of its own.
    pub fn there_and_back(&mut self) {
        self.number += 1;
        let Scouts { client, server, number } = self;
        for [from, to] in [[&*client, &*server], [&*server, &*client]] {
            while !passes(from, to, *number) {}
        }
    }
}

/// Whether scout `number` arrives.
fn passes(from: &UdpSocket, to: &UdpSocket, number: u64) -> bool {
    let scout = number.to_be_bytes();
    let sent = from.send_to(&scout, to.local_addr().expect("it is bound"));
    let mut arrived = [0; 8];
    while sent.is_ok() && to.recv(&mut arrived).is_ok() {
        if arrived == scout {
            return true;
        }
    }
    false
}

/// Keeps this thread on the processor that it is on.
fn stay_on_one_processor() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu().expect("Linux tells")).expect("there is room for every processor");
    sched_setaffinity(Pid::from_raw(0), &one).expect("it is there already");
}

/// The message of ICMP (RFC 1191) with the start of the datagram that it claims to be about.
fn fragmentation_needed(port: u16, mtu: u16) -> Vec<u8> {
    let mut header = [0; 20];
    header[..2].copy_from_slice(&[0x45, 0]);
    header[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    header[6..10].copy_from_slice(&[0x40, 0, 64, UDP]);
    header[12..].copy_from_slice(&[10, 0, 1, 1, 10, 0, 3, 2]);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut message = [&[3, 4, 0, 0, 0, 0], &mtu.to_be_bytes()[..], &header, &udp(port)].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// The same for ICMPv6 (RFC 4443), whose checksum the kernel fills in.
fn too_big(port: u16, mtu: u16) -> Vec<u8> {
    let mut header = [0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&1460_u16.to_be_bytes());
    header[6..8].copy_from_slice(&[UDP, 64]);
    for (place, address) in [8, 24].into_iter().zip(Routers::addresses(true)) {
        let IpAddr::V6(address) = address else { panic!("it is of IPv6") };
        header[place..place + 16].copy_from_slice(&address.octets());
    }
    [&[2, 0, 0, 0, 0, 0], &mtu.to_be_bytes()[..], &header, &udp(port)].concat()
}

/// The header of a datagram of UDP to some port.
fn udp(port: u16) -> [u8; 8] {
    let mut header = [0x12; 8];
    header[..2].copy_from_slice(&port.to_be_bytes());
    header
}

/// UDP's number.
const UDP: u8 = 17;

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + sum) as u16
}
