//! Two hosts with two routers between them, each a network namespace without a name:
//!
//! ```text
//! client  a0 ── r0  first  r1 ── s0  second  s1 ── b0  server
//! ```
//!
//! The link between the routers becomes narrow, as a tunnel does. A namespace lives as long as its
//! descriptor, or a socket in it, so nothing is left behind however a test ends.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::process::{self, Command};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

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
                side.ip(&format!("addr add fd00:{number}::{host}/64 dev {name} nodad"));
                side.ip(&format!("link set {name} up"));
                let setting = format!("/proc/sys/net/ipv6/neigh/{name}/retrans_time_ms");
                side.run(|| fs::write(setting, "20")).expect("the interface exists");
            }
        }
        for (side, destination, gateway) in [
            (client, "default", "10.0.1.2"),
            (first, "10.0.3.0/24", "10.0.2.2"),
            (second, "10.0.1.0/24", "10.0.2.1"),
            (server, "default", "10.0.3.1"),
            (client, "default", "fd00:1::2"),
            (first, "fd00:3::/64", "fd00:2::2"),
            (second, "fd00:1::/64", "fd00:2::1"),
            (server, "default", "fd00:3::1"),
        ] {
            side.ip(&format!("route add {destination} via {gateway}"));
        }
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
    /// be known, or tried.
    pub fn forge_icmp(&self, port: u16, mtu: u16) {
        self.first.run(|| {
            let protocol = SockProtocol::Icmp;
            let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), protocol);
            let raw = raw.expect("a namespace of one's own allows raw sockets");
            let to = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 1), 0));
            let message = fragmentation_needed(port, mtu);
            sendto(raw.as_raw_fd(), &message, &to, MsgFlags::empty()).expect("it is sent");
        });
    }
}

/// The ICMP message (RFC 1191) with the datagram that it claims to be about.
fn fragmentation_needed(port: u16, mtu: u16) -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend_from_slice(&mtu.to_be_bytes());
    message.extend_from_slice(&[0x45, 0, 1500_u16.to_be_bytes()[0], 1500_u16.to_be_bytes()[1]]);
    message.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
    message.extend_from_slice(&[10, 0, 1, 1, 10, 0, 3, 2]);
    let header = checksum(&message[8..]);
    message[18..20].copy_from_slice(&header.to_be_bytes());
    message.extend_from_slice(&port.to_be_bytes());
    message.extend_from_slice(&[0x12, 0x34, 1480_u16.to_be_bytes()[0], 0xc8, 0, 0]);
    let whole = checksum(&message);
    message[2..4].copy_from_slice(&whole.to_be_bytes());
    message
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + sum) as u16
}

/// A network namespace.
pub struct Namespace {
    descriptor: File,
}

impl Namespace {
    /// A new one, with its loopback interface up, that forwards packets.
    fn new() -> nix::Result<Namespace> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(File::open("/proc/thread-self/ns/net").expect("there is a /proc"))
        });
        let descriptor = made.join().expect("nothing there panics")?;
        let namespace = Namespace { descriptor };
        namespace.ip("link set lo up");
        namespace.run(|| {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                fs::write(format!("/proc/sys/net/{setting}"), "1").expect("root may");
            }
        });
        Ok(namespace)
    }

    /// Runs `act` on this thread, which is in the namespace meanwhile.
    pub fn run<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = File::open("/proc/thread-self/ns/net").expect("there is a /proc");
        setns(&self.descriptor, CloneFlags::CLONE_NEWNET).expect("root may");
        let result = act();
        setns(&before, CloneFlags::CLONE_NEWNET).expect("it may return");
        result
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, arguments: &str) -> String {
        let family = if arguments.contains("::") { "-6" } else { "-4" };
        let mut command = Command::new("ip");
        command.arg(family).args(arguments.split(' '));
        let output = self.run(|| command.output()).expect("`ip` starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {arguments}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How other processes can name it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.descriptor.as_raw_fd())
    }

    fn fragments(&self) -> u64 {
        let read = |file| self.run(|| fs::read_to_string(format!("/proc/thread-self/net/{file}")));
        let text = read("snmp").expect("there is a /proc");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Ip: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut pairs = names.split(' ').zip(values.split(' '));
        let v4 = pairs.find_map(|(name, value)| (name == "FragCreates").then(|| value.to_owned()));
        let text = read("snmp6").expect("there is a /proc");
        let v6 = text.lines().find_map(|line| line.strip_prefix("Ip6FragCreates"));
        let count = |text: &str| text.trim().parse::<u64>().expect("a number");
        count(&v4.expect("the kernel counts")) + v6.map_or(0, count)
    }
}
