//! Networks for tests and measurements: namespaces without names, joined by veth pairs.
//!
//! A namespace lives as long as its descriptor, or a socket in it, so nothing is left behind
//! however a test ends. `ip` configures them; it runs in the namespace of the thread that starts
//! it. Nothing here reaches the host's own network.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::OnceLock;

/// A network namespace.
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// A new one, with its loopback interface up.
    pub fn new() -> Namespace {
        let namespace = try_new().expect("checked by `available`");
        namespace.ip("link set lo up");
        namespace
    }

    /// Runs `act` on a thread of this namespace.
    pub fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let joined = std::thread::scope(|scope| {
            let inside = || {
                self.enter();
                act()
            };
            scope.spawn(inside).join()
        });
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Moves the calling thread to this namespace for the rest of its life.
    pub fn enter(&self) {
        // SAFETY: it changes the namespace of this thread only.
        let entered = unsafe { libc::setns(self.fd.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
    }

    /// Runs `ip` with these arguments.
    pub fn ip(&self, arguments: &str) -> String {
        let output = self.run(|| Command::new("ip").args(arguments.split(' ')).output());
        let output = output.expect("`ip` starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {arguments}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The index of an interface.
    pub fn index(&self, name: &str) -> u32 {
        let line = self.ip(&format!("-o link show dev {name}"));
        line.split(':').next().and_then(|index| index.parse().ok()).expect("it starts the line")
    }

    /// The XDP program that is attached to an interface, if any.
    pub fn has_program(&self, name: &str) -> bool {
        self.ip(&format!("link show dev {name}")).contains("prog/xdp")
    }

    /// How processes started from here can name it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Switches the checksum offload of an interface's transmit side.
    pub fn set_checksum_offload(&self, name: &str, on: bool) {
        #[repr(C)]
        struct EthtoolValue {
            command: u32,
            data: u32,
        }
        const ETHTOOL_STXCSUM: u32 = 0x17;
        let mut value = EthtoolValue { command: ETHTOOL_STXCSUM, data: on.into() };
        self.run(move || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
            // SAFETY: all zeroes are a valid request.
            let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
            let bytes = name.bytes().map(|byte| byte as libc::c_char);
            request.ifr_name.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            request.ifr_ifru.ifru_data = (&raw mut value).cast();
            // SAFETY: the request and what it points to outlive the call.
            let result =
                unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        });
    }
}

/// Two hosts, `v0` in the left and `v1` in the right, joined by a veth pair.
pub struct Pair {
    pub left: Namespace,
    pub right: Namespace,
}

impl Pair {
    /// A pair with one queue.
    pub fn new() -> Pair {
        Pair::with(1, 1500)
    }

    /// A pair with this many queues and this MTU.
    pub fn with(queues: u32, mtu: u32) -> Pair {
        let pair = Pair { left: Namespace::new(), right: Namespace::new() };
        join(&pair.left, "v0", &pair.right, "v1", queues, mtu);
        configure(&pair.left, "v0", 1);
        configure(&pair.right, "v1", 2);
        pair
    }
}

/// Hosts around a switch: host `i` has interface `v0` and the address of host `i`.
pub struct Star {
    pub hosts: Vec<Namespace>,
    pub switch: Namespace,
}

impl Star {
    /// A star with this many hosts, each on one queue with an MTU of 1500 bytes.
    pub fn new(hosts: usize) -> Star {
        let switch = Namespace::new();
        switch.ip("link add bridge type bridge forward_delay 0 mcast_snooping 0");
        switch.ip("link set bridge up");
        let host = |number: usize| {
            let host = Namespace::new();
            let port = format!("port{number}");
            join(&host, "v0", &switch, &port, 1, 1500);
            switch.ip(&format!("link set {port} master bridge up"));
            configure(&host, "v0", number as u8 + 1);
            host
        };
        Star { hosts: (0..hosts).map(host).collect(), switch }
    }
}

fn join(left: &Namespace, name: &str, right: &Namespace, other: &str, queues: u32, mtu: u32) {
    let queues = format!("numrxqueues {queues} numtxqueues {queues}");
    let path = right.path();
    left.ip(&format!(
        "link add {name} mtu {mtu} {queues} type veth peer name {other} mtu {mtu} {queues} \
         netns {path}"
    ));
}

fn configure(host: &Namespace, name: &str, number: u8) {
    // An interface that has just come up, or a switch's port, misses the first questions for
    // neighbours. The kernel would repeat them after a second only, and twice, and then drop what
    // waits for the answer; a port may take longer while other namespaces are taken down.
    for family in ["ipv4", "ipv6"] {
        for (setting, value) in [("retrans_time_ms", "20"), ("mcast_solicit", "3000")] {
            let path = format!("/proc/sys/net/{family}/neigh/{name}/{setting}");
            host.run(|| std::fs::write(path, value)).expect("the interface exists");
        }
    }
    host.ip(&format!("addr add {}/24 dev {name}", v4(number)));
    host.ip(&format!("addr add {}/64 dev {name} nodad", v6(number)));
    host.ip(&format!("link set {name} up"));
}

/// The IPv4 address of a host, counted from 1.
pub fn v4(number: u8) -> IpAddr {
    IpAddr::from([10, 77, 0, number])
}

/// The IPv6 address of a host, counted from 1.
pub fn v6(number: u8) -> IpAddr {
    IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, u16::from(number)])
}

/// An address with any free port.
pub fn any_port(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, 0)
}

/// Whether networks can be made here; if not, the calling test is recorded as skipped.
pub fn available() -> bool {
    static MISSING: OnceLock<Option<(&str, String)>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        let ip = Command::new("ip").arg("-V").output().is_ok();
        match (try_new(), ip) {
            (Ok(_), true) => None,
            (Err(error), _) => Some(("root", format!("cannot make a network namespace: {error}"))),
            (_, false) => Some(("iproute2", "there is no `ip`".to_owned())),
        }
    });
    if let Some((what, why)) = missing {
        petasos_skips::skip(what, why);
    }
    missing.is_none()
}

fn try_new() -> std::io::Result<Namespace> {
    let made = std::thread::spawn(|| {
        // SAFETY: it changes the namespace of this thread only, which ends here.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let fd = std::fs::File::open("/proc/thread-self/ns/net")?.into();
        Ok(Namespace { fd })
    });
    made.join().expect("it does not panic")
}
